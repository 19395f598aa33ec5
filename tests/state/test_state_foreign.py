"""Commits of other tools in a real DuckLake: noted by the trigger, numbered with ours, and turned into events of whole tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from reactor.state import PostgresState
from tests.state.ducklake import LAKE, attached, ours
from tests.state.making import SETUP, append, mark, merge, run_unchanged, script

pytestmark = pytest.mark.anyio

Change = tuple[list[str], list[str], list[tuple[str, bool]]]
"""What was there, what another tool does, whom it tells of (and whether columns changed)."""


@pytest.fixture
def lake(database: str, state: PostgresState, lake_folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:  # noqa: ARG001 (closed before it)
    with attached(database, lake_folder) as connection:
        yield connection


async def told(state: PostgresState, lo: int = 0) -> list[tuple[str, bool, int]]:
    """(asset, schema_changed, snapshot id) of the events from an offset on."""
    _, events = await state.read_published(lo, 1000)
    return [(e["subject"], e["data"]["schema_changed"], e["data"]["snapshot_id"]) for e in (dict[str, Any](each) for each in events)]


CHANGES: list[Change] = [
    ([], ["CREATE TABLE {t} (a INT)"], [("{t}", True)]),
    ([], ["CREATE TABLE {t} AS SELECT 1 AS a"], [("{t}", True)]),
    (["CREATE TABLE {t} (a INT)"], ["INSERT INTO {t} VALUES (1)"], [("{t}", False)]),
    (["CREATE TABLE {t} AS SELECT 1 AS a"], ["DELETE FROM {t}"], [("{t}", False)]),
    (["CREATE TABLE {t} AS SELECT 1 AS a"], ["UPDATE {t} SET a = 2"], [("{t}", False)]),
    (["CREATE TABLE {t} AS SELECT 1 AS a"], ["TRUNCATE {t}"], [("{t}", False)]),
    (["CREATE TABLE {t} (a INT)"], ["ALTER TABLE {t} ADD COLUMN b INT"], [("{t}", True)]),
    (["CREATE TABLE {t} (a INT, b INT)"], ["ALTER TABLE {t} DROP COLUMN b"], [("{t}", True)]),
    (["CREATE TABLE {t} (a INT)"], ["ALTER TABLE {t} RENAME COLUMN a TO z"], [("{t}", True)]),
    (["CREATE TABLE {t} (a INT)"], ["ALTER TABLE {t} ALTER a TYPE BIGINT"], [("{t}", True)]),
    (["CREATE TABLE {t} (a INT)"], ["COMMENT ON TABLE {t} IS 'hi'"], [("{t}", False)]),
    (["CREATE TABLE {t} (a INT)"], ["ALTER TABLE {t} SET PARTITIONED BY (a)"], [("{t}", False)]),
    (["CREATE TABLE {t} (a INT)"], ["ALTER TABLE {t} RENAME TO Renamed"], [("renamed", True)]),
    (["CREATE TABLE {t} (a INT)"], ["CREATE OR REPLACE TABLE {t} AS SELECT 'x' AS z"], [("{t}", True)]),
    (["CREATE TABLE {t} (a INT)"], ["DROP TABLE {t}"], []),
    (["CREATE TABLE {t} (a INT)"], ["BEGIN", "DROP TABLE {t}", "CREATE TABLE {t} (b INT)", "COMMIT"], [("{t}", True)]),
    (["CREATE TABLE {t} (a INT)"], ["BEGIN", "ALTER TABLE {t} ADD COLUMN b INT", "INSERT INTO {t} VALUES (1, 2)", "COMMIT"], [("{t}", True)]),
    (["CREATE TABLE {t} (a INT)", "CREATE TABLE {t}u (a INT)"], ["BEGIN", "INSERT INTO {t}u VALUES (1)", "INSERT INTO {t} VALUES (1)", "COMMIT"],
     [("{t}", False), ("{t}u", False)]),
    (["CREATE SCHEMA Raw"], ["CREATE TABLE Raw.T (a INT)"], [("raw.t", True)]),
    ([], ["INSERT INTO raw.t VALUES (1)"], [("raw.t", False)]),
    ([], ['CREATE TABLE "odd,altered_table:1,""quoted""" (a INT)'], [('odd,altered_table:1,"quoted"', True)]),
    ([], ["CREATE VIEW v AS SELECT 1 AS a"], []),
    ([], ["CREATE SCHEMA s"], []),
    ([], ["CREATE MACRO m(a) AS a + 1"], []),
    (["CREATE TABLE {t} (a INT)", "INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)"],
     [f"CALL ducklake_merge_adjacent_files('{LAKE}', '{{t}}')"], []),
    (["CREATE TABLE {t} AS SELECT range AS a FROM range(10)", "DELETE FROM {t} WHERE a < 9"],
     [f"CALL ducklake_rewrite_data_files('{LAKE}', '{{t}}', delete_threshold => 0.0)"], []),
    ([], [f"CALL ducklake_expire_snapshots('{LAKE}', older_than => now() - INTERVAL 1 HOUR)"], []),
]


INLINED: list[Change] = [
    (["CREATE TABLE inlined (a INT)", f"CALL {LAKE}.set_option('data_inlining_row_limit', 10)"], ["INSERT INTO inlined VALUES (1)"],
     [("inlined", False)]),
    ([], ["DELETE FROM inlined"], [("inlined", False)]),
    (["INSERT INTO inlined VALUES (2)"], [f"CALL ducklake_flush_inlined_data('{LAKE}')"], []),
]


@pytest.mark.parametrize("changes", [CHANGES, INLINED], ids=["files", "inlined"])
async def test_what_another_tool_does_to_tables_is_told(
    state: PostgresState, lake: duckdb.DuckDBPyConnection, changes: list[Change],
) -> None:
    await state.watch_lake("main", watch_external=True)
    for number, (before, statements, expected) in enumerate(changes):
        t = f"t{number}"
        for statement in before:
            lake.execute(statement.format(t=t))
        now = await state.outbox_next()
        for statement in statements:
            lake.execute(statement.format(t=t))
        snapshot = await state.last_snapshot("main")
        said = [(f"ducklake://main/{name.format(t=t)}", ddl, snapshot) for name, ddl in expected]
        assert (statements, await told(state, now)) == (statements, said)


async def test_the_event_of_another_tool_s_commit(state: PostgresState, lake: duckdb.DuckDBPyConnection) -> None:
    await state.watch_lake("main", watch_external=True)
    lake.execute("CREATE TABLE t (a INT)")
    lake.execute("INSERT INTO t VALUES (1)")
    _, (_, event) = await state.read_published(0, 10)
    snapshot = await state.last_snapshot("main")
    assert event["sequence"] == f"{snapshot:020}"
    assert "correlationid" not in event
    assert event["data"] == {
        "asset": "ducklake://main/t", "partition": None, "partition_start": None, "partition_end": None, "snapshot_id": snapshot,
        "previous_snapshot_id": None, "rows_inserted": None, "rows_deleted": None, "strategy": "external", "script": None, "run_id": None,
        "root_run_id": None, "attempt": 1, "reason": "external", "schema_version": None, "schema_fingerprint": None, "schema_changed": False,
        "upstream_snapshots": [], "chain": []}
    (_, read) = await state.read_outbox(0, 10)
    assert (read.script, read.run_id, read.chain, read.changed, read.partition) == (None, None, (), True, "")
    assert [(u.asset, u.snapshot_id, u.partition) for u in await state.upstream_snapshots(["ducklake://main/t"])] == [
        ("ducklake://main/t", snapshot, None)]
    assert (await state.event(read.event_id)) == event


async def test_a_lake_that_nobody_watches_tells_nothing(state: PostgresState, lake: duckdb.DuckDBPyConnection) -> None:
    await state.watch_lake("main", watch_external=False)
    lake.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert await told(state) == []
    await state.watch_lake("main", watch_external=True)  # what came before stays unsaid
    lake.execute("INSERT INTO t VALUES (2)")
    assert [asset for asset, _, _ in await told(state)] == ["ducklake://main/t"]


async def test_ours_and_theirs_are_numbered_together_in_commit_order(state: PostgresState, lake: duckdb.DuckDBPyConnection) -> None:
    await state.watch_lake("main", watch_external=True)
    ours(lake, SETUP, "CREATE TABLE orders (a INT)")
    lake.execute("CREATE TABLE theirs (a INT)")
    run = append([], "2026-06-19", script=script("ducklake://main/orders"))
    await state.insert_run(run)
    ours(lake, mark(run), "INSERT INTO orders VALUES (1)")
    lake.execute("INSERT INTO theirs VALUES (1)")
    await run_unchanged(state, merge({"2026-06-20": None}))
    lake.execute("INSERT INTO orders VALUES (2)")
    events = await state.read_outbox(0, 10)
    assert [(e.offset, e.asset, e.run_id == run.run_id, e.changed) for e in events] == [
        (0, "ducklake://main/theirs", False, True), (1, "ducklake://main/orders", True, True), (2, "ducklake://main/theirs", False, True),
        (3, "ducklake://main/orders", False, True), (4, "ducklake://main/orders", False, False)]
    snapshots = [e.snapshot_id or 0 for e in events[:4]]
    assert snapshots == sorted(snapshots)


async def test_a_real_commit_is_refused_and_leaves_no_row(state: PostgresState, lake: duckdb.DuckDBPyConnection) -> None:
    await state.watch_lake("main", watch_external=True)
    ours(lake, SETUP, "CREATE TABLE orders (a INT)")
    run = merge({"": None}, script=script("ducklake://main/orders"))
    await state.insert_run(run)
    await state.abort(run.run_id)
    with pytest.raises(duckdb.Error, match="reactor RF002"):
        ours(lake, mark(run), "INSERT INTO orders VALUES (1)")
    assert lake.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    again = merge({"": None}, script=script("ducklake://main/orders"))
    await state.insert_run(again)
    before = await state.last_snapshot("main")
    ours(lake, mark(again), "INSERT INTO orders VALUES (1)")
    verdict = await state.verdict(again.run_id, "main", before)
    assert (verdict.kind, verdict.snapshot_id) == ("completed", before + 1)
    (at,) = lake.execute(f"SELECT max(epoch_us(snapshot_time)) FROM ducklake_snapshots('{LAKE}')").fetchall()[0]
    assert (await state.read_outbox(0, 10))[0].committed_at == pytest.approx(at / 1e6, abs=1e-5)


async def test_a_lake_that_was_dropped_does_not_stop_the_numbering(
    state: PostgresState, lake: duckdb.DuckDBPyConnection, database: str,
) -> None:
    await state.watch_lake("main", watch_external=True)
    lake.execute("CREATE TABLE t AS SELECT 1 AS a")
    other = await PostgresState.open(database, installation="local", workspace="prod")
    async with other._db.pool.acquire() as connection:
        await connection.execute("alter schema lake_main rename to gone")
        await run_unchanged(state, merge({"a": None}))
        assert [e.asset for e in await state.read_outbox(0, 10)] == ["ducklake://main/orders"]
        await connection.execute("alter schema gone rename to lake_main")
    await other.close()
