"""A run that makes or drops a table has an instance to itself (duckdb/ducklake#1248)."""

import threading

import pytest

from reactor.errors import Conflict
from reactor.lake.materialize import StagedRun
from reactor.lake.session import Instance
from tests.lake.driving import Bench, a_run, managed, orders, raw_span
from tests.parts.effort import tries

COLUMNS = [("k", "VARCHAR"), ("v", "INTEGER")]


def staged_of(bench: Bench, select: str, *records: bytes) -> StagedRun:
    if not records:
        return bench.stage(managed(select))
    return bench.lake.stage(orders(managed(select, "append", batch=COLUMNS), raw_span(records))[0])


def has_its_own(bench: Bench, select: str, *records: bytes) -> bool:
    """Whether such a run, which is carried out, has an instance to itself; afterwards that must be gone."""
    staged = staged_of(bench, select, *records)
    own: Instance = staged._instance
    bench.finish(staged)
    assert own.retired == (own is not bench.lake._instance)
    return own.retired


def test_a_table_is_made_or_replaced_by_another_shape_in_an_instance_of_its_own(bench: Bench) -> None:
    assert has_its_own(bench, "SELECT 1 AS a")
    assert not has_its_own(bench, "SELECT 2 AS a")
    assert has_its_own(bench, "SELECT 2 AS a, 3 AS b")
    bench.rows("DROP TABLE lake_main.main.t")
    bench.rows("CREATE VIEW lake_main.main.t AS SELECT 1 AS a")
    assert has_its_own(bench, "SELECT 4 AS a")
    assert bench.rows("SELECT * FROM t") == [(4,)]


def test_so_is_the_quarantine_with_the_first_record_of_a_lake(bench: Bench) -> None:
    assert has_its_own(bench, "SELECT k, v FROM batch", b'{"k":"a","v":1}')
    assert not has_its_own(bench, "SELECT k, v FROM batch", b'{"k":"a","v":1}')
    assert has_its_own(bench, "SELECT k, v FROM batch", b'{"k":"a","v":1}', b"{")
    assert not has_its_own(bench, "SELECT k, v FROM batch", b'{"k":"a","v":1}', b"{")
    assert bench.rows("SELECT count(*) FROM _reactor_quarantine") == [(2,)]


def test_it_is_given_up_with_that_of_the_others(bench: Bench) -> None:
    staged = bench.stage(managed("SELECT 1 AS a"))
    bench.lake.rebuild()
    assert staged.stale
    staged.close()
    bench.run(managed("SELECT 2 AS a"))
    assert bench.rows("SELECT * FROM t") == [(2,)]


def test_a_table_of_another_shape_that_was_made_meanwhile_is_named(bench: Bench) -> None:
    staged = bench.stage(managed("SELECT 1 AS a"))
    bench.rows("CREATE TABLE lake_main.main.t AS SELECT 'x' AS b")
    with pytest.raises(Conflict, match=r"^ducklake://main/t has changed"):
        staged.write(a_run())
    assert staged.stale
    staged.close()


@pytest.mark.thorough
def test_tables_are_made_while_others_read_the_lake_and_ask_for_what_is_not_there(bench: Bench) -> None:
    """In one instance one of some hundred such commits crashes the process."""
    bench.run(managed("SELECT 1 AS a", asset="ducklake://main/base"))
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            bench.stage(managed("SELECT count(*) AS n FROM lake_main.main.base", asset="ducklake://main/base")).close()
            bench.rows("SELECT count(*) FROM duckdb_tables()")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for number in range(tries(5, 50)):
            bench.run(managed("SELECT 1 AS a", asset=f"ducklake://main/t{number}"))
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert len(bench.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake_main'")) == tries(5, 50) + 1
