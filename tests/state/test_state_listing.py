"""What operators look at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reactor.domain.runs import RunId
from reactor.domain.spans import Consumer, Token
from reactor.ports import Drift
from reactor.state import PostgresState
from tests.state.making import (
    ASSET,
    OTHER_SCHEMA,
    SCHEMA,
    Catalog,
    append,
    merge,
    program,
    run_committed,
    run_id,
    run_unchanged,
    script,
    trigger,
)

pytestmark = pytest.mark.anyio


async def test_runs_are_listed_newest_first_by_asset_script_and_state(state: PostgresState, catalog: Catalog) -> None:
    other = append([], script=script("ducklake://main/other", path="other.sql"), consumer=Consumer("ducklake://main/other"))
    runs = [merge({"a": None}), other, program(), merge({"b": None})]
    await run_committed(state, catalog, runs[0])
    await run_committed(state, catalog, runs[1])
    await run_unchanged(state, runs[2])
    await state.insert_run(runs[3])
    newest = sorted((run.run_id for run in runs), reverse=True)
    assert [r.run_id for r in await state.runs()] == newest
    assert {r.run_id for r in await state.runs(ASSET)} == {runs[0].run_id, runs[3].run_id}
    assert [r.run_id for r in await state.runs("other.sql")] == [runs[1].run_id]
    assert [r.run_id for r in await state.runs("tell.py")] == [runs[2].run_id]
    assert [r.run_id for r in await state.runs(ASSET, "running")] == [runs[3].run_id]
    assert [r.run_id for r in await state.runs(ASSET, "failed")] == []
    page = await state.runs(limit=3)
    assert [r.run_id for r in await state.runs(before=RunId(page[-1].run_id))] == newest[3:]


async def test_a_run_is_kept_whole(state: PostgresState) -> None:
    root = run_id()
    run = merge(
        {"a": None}, actor="token:ci", cascade=False, compiled_sql="SELECT 1", drift=Drift(added=("x",), type_changed=("y",)),
        timings={"stage": 0.25})
    run = replace(run, trigger=trigger(run.run_id, root_run_id=root, attempt=2, reason="asset", partition="a", events=({"event_id": "e"},)))
    await state.insert_run(run)
    await state.insert_run(run)  # its answer was lost
    record = await state.run(run.run_id)
    assert record is not None
    assert (record.root_run_id, record.attempt, record.reason, record.partition, record.actor, record.cascade) == (
        root, 2, "asset", "a", "token:ci", False)
    assert (record.script, record.script_version, record.consumer, record.strategy) == ("orders.sql", run.script.version, ASSET, "merge")
    assert record.trigger == run.trigger.to_json()
    assert (record.compiled_sql, record.timings) == ("SELECT 1", {"stage": 0.25})
    assert record.drift == {"added": ["x"], "removed": [], "type_changed": ["y"]}
    assert record.fired_at.isoformat() == "2026-06-19T10:00:00+00:00"
    assert (record.state, record.finished_at, record.snapshot_id) == ("running", None, None)
    assert await state.run(run_id()) is None


async def test_partitions_say_what_runs_now(state: PostgresState, catalog: Catalog) -> None:
    good = merge({"a": None, "b": None})
    snapshot = await run_committed(state, catalog, good)
    await state.insert_run(merge({"b": Token(good.run_id), "c": None}))
    assert [(p.partition, p.status, p.snapshot_id) for p in await state.partitions(ASSET)] == [
        ("c", "running", None), ("b", "running", snapshot), ("a", "materialized", snapshot)]
    assert await state.partitions("ducklake://main/none") == []


async def test_tables_with_their_newest_snapshot(state: PostgresState, catalog: Catalog) -> None:
    await run_committed(state, catalog, merge({"a": None}, schema=SCHEMA))
    newest = await run_committed(state, catalog, merge({"b": None}, schema=OTHER_SCHEMA))
    await state.fail(None, merge({"c": None}), "it broke", final=True)
    (table,) = await state.tables()
    assert (table.asset, table.snapshot_id, table.schema_version, table.materialized, table.failed) == (ASSET, newest, 2, 2, 1)
    assert [(s.version, s.columns) for s in await state.schemas(ASSET)] == [(2, [["id", "BIGINT"], ["at", "DATE"]]), (1, [["id", "BIGINT"]])]
