"""A transaction that makes or drops a table has an attachment of the lake to itself (duckdb/ducklake#1248)."""

import threading

import pytest

from reactor.errors import Conflict
from tests.lake.driving import Bench, a_run, managed, orders, raw_span
from tests.parts.effort import tries

COLUMNS = [("k", "VARCHAR"), ("v", "INTEGER")]


def attached_again(bench: Bench) -> int:
    found = bench.rows("SELECT count(*) FROM duckdb_databases() WHERE type = 'ducklake' AND database_name LIKE 'lake_main %'")
    return int(found[0][0])


def written_with(bench: Bench, select: str, *records: bytes) -> int:
    """Lakes attached again while the transaction is open; afterwards there must be none."""
    script = managed(select, "append", batch=COLUMNS) if records else managed(select)
    staged = bench.lake.stage(orders(script, raw_span(records))[0]) if records else bench.stage(script)
    staged.write(a_run())
    meanwhile = attached_again(bench)
    staged.commit()
    assert attached_again(bench) == 0
    staged.close()
    return meanwhile


def test_a_table_is_made_or_replaced_by_another_shape_apart_from_the_others(bench: Bench) -> None:
    assert written_with(bench, "SELECT 1 AS a") == 1
    assert written_with(bench, "SELECT 2 AS a") == 0
    assert written_with(bench, "SELECT 2 AS a, 3 AS b") == 1
    bench.rows("DROP TABLE lake_main.main.t")
    bench.rows("CREATE VIEW lake_main.main.t AS SELECT 1 AS a")
    assert written_with(bench, "SELECT 4 AS a") == 1
    assert bench.rows("SELECT * FROM t") == [(4,)]


def test_the_first_quarantined_record_of_a_lake_makes_its_table_apart(bench: Bench) -> None:
    assert written_with(bench, "SELECT k, v FROM batch", b'{"k":"a","v":1}') == 1
    assert written_with(bench, "SELECT k, v FROM batch", b'{"k":"a","v":1}', b"{") == 1
    assert written_with(bench, "SELECT k, v FROM batch", b'{"k":"a","v":1}', b"{") == 0
    assert bench.rows("SELECT count(*) FROM _reactor_quarantine") == [(2,)]


def test_what_is_refused_or_given_up_leaves_nothing_attached(bench: Bench) -> None:
    staged = bench.stage(managed("SELECT 1 AS a"))
    staged.write(a_run())
    staged.rollback()
    assert attached_again(bench) == 0
    staged.write(a_run())
    staged.close()
    assert attached_again(bench) == 0
    staged = bench.stage(managed("SELECT 1 AS a"))
    staged.write(a_run())
    bench.rows("CREATE TABLE lake_main.main.t AS SELECT 1 AS a")
    with pytest.raises(Conflict):
        staged.commit()
    assert attached_again(bench) == 0
    staged.close()


def test_a_table_of_another_shape_that_was_made_meanwhile_is_called_by_its_uri(bench: Bench) -> None:
    staged = bench.stage(managed("SELECT 1 AS a"))
    bench.rows("CREATE TABLE lake_main.main.t AS SELECT 'x' AS b")
    with pytest.raises(Conflict, match=r"^ducklake://main/t has changed"):
        staged.write(a_run())
    assert staged.stale
    staged.close()


@pytest.mark.thorough
def test_tables_are_made_while_others_read_the_lake(bench: Bench) -> None:
    """Without an attachment of its own one of some hundred such commits crashes the process."""
    bench.run(managed("SELECT 1 AS a", asset="ducklake://main/base"))
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            bench.stage(managed("SELECT count(*) AS n FROM lake_main.main.base", asset="ducklake://main/base")).close()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for number in range(tries(10, 150)):
            bench.run(managed("SELECT 1 AS a", asset=f"ducklake://main/t{number}"))
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert len(bench.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake_main'")) == tries(10, 150) + 1
