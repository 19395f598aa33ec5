"""Who says how a run ended: the run row, asked after every COMMIT; and what failures, silence and restores leave behind."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace

import asyncpg
import pytest

from reactor.domain.runs import PartitionCounts, RunId, UpstreamSnapshot, new_run_id
from reactor.domain.spans import Token
from reactor.errors import Conflict, StateForbids
from reactor.state import PostgresState
from tests.state.making import (
    ASSET,
    KEY,
    SETUP,
    Catalog,
    append,
    claim,
    mark,
    merge,
    run_committed,
    run_id,
    run_unchanged,
    start,
)

pytestmark = pytest.mark.anyio

# -- the verdict


async def test_a_committed_run_names_its_own_snapshot(state: PostgresState, catalog: Catalog) -> None:
    runs = [merge({name: None}) for name in "ab"]
    snapshots = [await run_committed(state, catalog, run) for run in runs]
    for run, snapshot in zip(runs, snapshots, strict=True):
        verdict = await state.verdict(run.run_id, "main", 0)
        assert (verdict.kind, verdict.snapshot_id, verdict.changed) == ("completed", snapshot, True)
    assert await state.last_snapshot("main") == snapshots[-1]


async def test_a_run_without_a_snapshot_is_still_running(state: PostgresState, catalog: Catalog) -> None:
    run = merge({"a": None})
    await state.insert_run(run)
    await catalog.commit(SETUP)
    await run_committed(state, catalog, merge({"b": None}))
    assert (await state.verdict(run.run_id, "main", 0)).kind == "running"


async def test_a_run_that_was_restored_away_is_gone(state: PostgresState, catalog: Catalog) -> None:
    assert (await state.verdict(run_id(), "main", 0)).kind == "gone"
    assert await state.abort(run_id()) is None
    assert catalog.schema == "lake_main"


@pytest.mark.parametrize("ended", ["aborted", "failed"])
async def test_a_run_that_ended_otherwise_has_ended(state: PostgresState, catalog: Catalog, ended: str) -> None:
    run = merge({"a": None})
    await state.insert_run(run)
    if ended == "aborted":
        assert await state.abort(run.run_id) == "aborted"
    else:
        await state.fail(run.run_id, None, "it broke", final=False)
    assert (await state.verdict(run.run_id, "main", 0)).kind == "ended"
    assert await state.abort(run.run_id) == ended
    assert await catalog.rows() == 0


@pytest.mark.parametrize("broken", [
    "disable trigger reactor_commit", "enable trigger reactor_commit", "enable replica trigger reactor_commit", "dropped", "another function"])
async def test_a_trigger_that_would_not_fire_is_seen(state: PostgresState, catalog: Catalog, broken: str) -> None:
    table = "lake_main.ducklake_snapshot_changes"
    match broken:
        case "dropped":
            await catalog.connection.execute(f"drop trigger reactor_commit on {table}")
        case "another function":
            await catalog.connection.execute(f"""
                create function public.nothing() returns trigger language plpgsql as 'begin return null; end';
                create or replace trigger reactor_commit after insert on {table} for each row execute function public.nothing();
                alter table {table} enable always trigger reactor_commit""")
        case _:
            await catalog.connection.execute(f"alter table {table} {broken}")
    run, done = merge({"a": None}), merge({"b": None})
    await state.insert_run(run)
    await run_unchanged(state, done)
    assert not await state.watched("main")
    assert (await state.verdict(run.run_id, "main", 0)).kind == "trigger_missing"
    assert (await state.verdict(done.run_id, "main", 0)).kind == "completed"
    await state.watch_lake("main", watch_external=False)
    assert await state.watched("main")
    await catalog.commit(mark(run))


async def test_rows_published_without_the_trigger_are_seen(state: PostgresState, catalog: Catalog) -> None:
    run = merge({"a": None})
    await state.insert_run(run)
    await catalog.connection.execute("alter table lake_main.ducklake_snapshot_changes disable trigger reactor_commit")
    before = await state.last_snapshot("main")
    await catalog.commit(mark(run))
    await catalog.connection.execute("alter table lake_main.ducklake_snapshot_changes enable always trigger reactor_commit")
    assert await state.watched("main")
    assert (await state.verdict(run.run_id, "main", before)).kind == "trigger_missing"
    assert (await state.verdict(run.run_id, "main", before + 1)).kind == "running"


async def test_a_lake_that_is_not_there_is_said(state: PostgresState) -> None:
    with pytest.raises(StateForbids):
        await state.watch_lake("sales", watch_external=False)
    with pytest.raises(StateForbids):
        await state.last_snapshot("sales")
    assert not await state.watched("sales")


async def test_an_abort_is_final(state: PostgresState, catalog: Catalog) -> None:
    """After it the run's files may go: no commit that is still on its way gets in."""
    tokens = await start(state)
    run = append([claim(tokens[KEY], 10)])
    await state.insert_run(run)
    session = await catalog.session()
    frozen = session.transaction(isolation="repeatable_read")
    await frozen.start()
    await session.fetchval("select count(*) from reactor.run")
    assert await state.abort(run.run_id) == "aborted"
    with pytest.raises(asyncpg.SerializationError):
        await catalog.publish(mark(run), session=session)
    await frozen.rollback()
    with pytest.raises(asyncpg.PostgresError, match="RF002"):
        await catalog.commit(mark(run))


# -- failures


async def test_a_final_failure_keeps_snapshot_and_rows_of_the_last_good_run(state: PostgresState, catalog: Catalog) -> None:
    good = merge({"a": None})
    snapshot = await run_committed(state, catalog, good, [[7, 2]])
    bad = merge({"a": Token(good.run_id), "b": None})
    await state.insert_run(bad)
    await state.fail(bad.run_id, None, "no column named tota\0l", final=True)
    b, a = await state.partitions(ASSET)
    assert (a.partition, a.status, a.error, a.snapshot_id, a.rows_inserted, a.rows_deleted) == (
        "a", "failed", "no column named tota\ufffdl", snapshot, 7, 2)
    assert (b.partition, b.status, b.snapshot_id, b.checked_at) == ("b", "failed", None, None)
    record = await state.run(bad.run_id)
    assert record is not None
    assert (record.state, record.error) == ("failed", "no column named tota\ufffdl")

    tokens = (await state.partition_tokens(ASSET, ["a"])).tokens
    again = merge(tokens)
    await run_committed(state, catalog, again)
    _, a = await state.partitions(ASSET)
    assert (a.status, a.error, a.failed_at, a.previous_snapshot_id) == ("materialized", None, None, snapshot)


async def test_a_failure_that_is_tried_again_leaves_the_partition_alone(state: PostgresState, catalog: Catalog) -> None:
    good = merge({"a": None})
    await run_committed(state, catalog, good)
    bad = merge({"a": Token(good.run_id)})
    await state.insert_run(bad)
    await state.fail(bad.run_id, None, "x" * 100_000, final=False)
    assert [p.status for p in await state.partitions(ASSET)] == ["materialized"]
    record = await state.run(bad.run_id)
    assert record is not None
    assert record.error == "x" * 20_000


async def test_a_run_that_failed_before_it_had_a_row_gets_one(state: PostgresState) -> None:
    bad = append([], "a", compiled_sql="SELECT nonsense")
    await state.fail(None, bad, "it broke", final=True)
    record = await state.run(bad.run_id)
    assert record is not None
    assert (record.state, record.compiled_sql, record.reason) == ("failed", "SELECT nonsense", "kafka")
    assert [(p.partition, p.status) for p in await state.partitions(ASSET)] == [("a", "failed")]


async def test_a_failure_of_somebody_who_slept_marks_nothing(state: PostgresState, catalog: Catalog) -> None:
    """Another has taken the partition or the position since."""
    tokens = await start(state)
    sleeping_merge, sleeping_append = merge({"m": None}), append([claim(tokens[KEY], 10)], "a")
    await run_committed(state, catalog, merge({"m": None}))
    await run_committed(state, catalog, append([claim(tokens[KEY], 10)], "a"))
    for run in (sleeping_merge, sleeping_append):
        await state.fail(None, run, "it broke", final=True)
    assert {p.status for p in await state.partitions(ASSET)} == {"materialized"}


async def test_a_run_that_has_ended_does_not_fail(state: PostgresState, catalog: Catalog) -> None:
    run = merge({"a": None})
    await run_committed(state, catalog, run)
    await state.fail(run.run_id, None, "too late", final=True)
    assert [(r.state, r.error) for r in await state.runs()] == [("completed", None)]
    assert [p.status for p in await state.partitions(ASSET)] == ["materialized"]


# -- silence


async def test_runs_of_a_silent_replica_are_aborted_and_only_those(state: PostgresState, catalog: Catalog, database: str) -> None:
    other = await PostgresState.open(database, installation="local", workspace="prod", replica="other")
    mine, silent, committing = (merge({name: None}) for name in "abc")
    await state.insert_run(mine)
    await other.insert_run(silent)
    await other.insert_run(committing)
    assert await state.abort_silent_runs() == []
    await catalog.connection.execute("update reactor.replica set seen_at = seen_at - interval '31 s' where name = 'other'")
    session = await catalog.session()
    async with session.transaction(isolation="repeatable_read"):
        await catalog.publish(mark(committing), session=session)
        assert await state.abort_silent_runs(30) == [silent.run_id]  # it does not wait for the one that is committing
    assert {r.run_id: r.state for r in await state.runs()} == {
        mine.run_id: "running", silent.run_id: "aborted", committing.run_id: "completed"}
    with pytest.raises(Conflict, match="RF002"):
        await other.complete(silent.run_id, [PartitionCounts(0, 0)])
    await other.heartbeat()
    late = merge({"d": None})
    await other.insert_run(late)
    assert await state.abort_silent_runs() == []
    await other.close()


async def test_replicas_of_old_are_forgotten(state: PostgresState, catalog: Catalog) -> None:
    await catalog.connection.execute("insert into reactor.replica values ('old', now(), now() - interval '2 days')")
    await state.abort_silent_runs()
    assert await catalog.connection.fetchval("select count(*) from reactor.replica") == 1


# -- what runs see


async def test_the_newest_snapshot_of_each_upstream_is_seen(state: PostgresState, catalog: Catalog) -> None:
    first, second = merge({"a": None}), merge({"b": None})
    await run_committed(state, catalog, first)
    newest = await run_committed(state, catalog, second)
    await run_unchanged(state, merge({"a": Token(first.run_id)}))
    seen = [UpstreamSnapshot(ASSET, newest, "b")]
    assert await state.upstream_snapshots([ASSET, "ducklake://main/never"]) == seen
    await catalog.connection.execute("delete from reactor.outbox")  # older than events are kept
    assert await state.upstream_snapshots([ASSET]) == seen


async def test_tokens_are_read_with_the_life_of_the_database(state: PostgresState, catalog: Catalog) -> None:
    run = merge({"a": None})
    await run_committed(state, catalog, run)
    read = await state.partition_tokens(ASSET, ["a", "b"])
    assert read.tokens == {"a": run.run_id, "b": None}
    assert read.epoch == await state.epoch()
    assert (await state.partition_tokens(ASSET, [])).tokens == {}


async def test_racing_merges_of_one_partition_end_with_every_run_in_order(state: PostgresState, catalog: Catalog) -> None:
    """Eight writers read the token, commit, and begin again when refused: each commits once, on the one before."""
    done: list[RunId] = []

    async def writer() -> None:
        session = await catalog.session()
        while True:
            run = merge((await state.partition_tokens(ASSET, ["a"])).tokens)
            await state.insert_run(run)
            try:
                await catalog.commit(mark(run), session=session)
            except asyncpg.PostgresError:
                assert await state.abort(run.run_id) == "aborted"
            else:
                done.append(run.run_id)
                return

    await asyncio.gather(*(writer() for _ in range(8)))
    _, events = await state.read_published(0, 100)
    snapshots = [(e["data"]["previous_snapshot_id"], e["data"]["snapshot_id"]) for e in events]  # type: ignore[index]
    assert len(done) == len(snapshots) == await catalog.rows() == 8
    assert [previous for previous, _ in snapshots] == [None, *(snapshot for _, snapshot in snapshots[:-1])]


# -- how long they are kept


async def test_ended_runs_and_what_they_said_are_forgotten_after_ninety_days(state: PostgresState) -> None:
    day_seconds = 86_400.0
    ages = {"old": 91.0, "old and running": 91.0, "young": 89.0, "new": 0.0}
    runs = {name: replace(merge({name: None}), run_id=new_run_id(time.time() - days * day_seconds, os.urandom(10))) for name, days in ages.items()}
    for name, run in runs.items():
        await state.insert_run(run)
        await state.append_log(run.run_id, 0, "said", 0)
        if name != "old and running":
            await state.complete(run.run_id, [PartitionCounts(0, 0)])
    assert await state.purge_runs(90, 100) == 1
    assert await state.purge_runs(90, 100) == 0
    assert [name for name, run in runs.items() if await state.run(run.run_id) is None] == ["old"]


async def test_stages_that_end_after_the_row_was_written_are_added(state: PostgresState) -> None:
    run = replace(merge({"a": None}), timings={"evaluate": 0.5})
    await state.insert_run(run)
    await state.note_timings(run.run_id, {"evaluate": 0.5, "commit": 0.25})
    record = await state.run(run.run_id)
    assert record is not None
    assert record.timings == {"evaluate": 0.5, "commit": 0.25}
