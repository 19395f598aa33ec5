"""What every state owes, shown by the shipped fake and by PostgreSQL: its rows move together or not at all, and a stale token moves none."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from reactor.domain.runs import PartitionCounts, new_run_id
from reactor.domain.spans import Token
from reactor.errors import Conflict
from reactor.ports import NewRun, Verdict
from tests.contract.state_grounds import Case
from tests.state.making import NOWHERE, OTHER_SCHEMA, program, run_id

pytestmark = pytest.mark.anyio
SILENT_SECONDS = 600.0
"""Longer than these tests take, shorter than `fall_silent` says."""


def stranger(case: Case) -> NewRun:
    """A run that believes a token that nobody has."""
    return case.appends([case.claim(NOWHERE, 9)], "a")


# -- the commit


async def test_position_partition_schema_run_and_event_move_together(case: Case) -> None:
    (token,) = await case.starts()
    run = case.appends([case.claim(token, 10, {"a": 12, "b": 7})], "a")
    snapshot = await case.commits(run, PartitionCounts(3, 1))
    stands = await case.stands()
    assert (stands.floor, stands.fences, stands.token, stands.routing, stands.topic_id) == (10, {"a": 12, "b": 7}, Token(run.run_id), "routing", "cluster/topic")
    assert await case.token("a") == run.run_id
    assert await case.state.verdict(run.run_id, "main", snapshot - 1) == Verdict("completed", snapshot, changed=True, schema_version=1)
    (update,) = await case.state.read_outbox(case.since, 10)
    assert (update.asset, update.partition, update.snapshot_id, update.run_id, update.rows) == (case.asset, "a", snapshot, run.run_id, 4)
    assert (update.changed, update.schema_changed, update.script, update.chain, update.lake) == (True, True, "orders.sql", ("orders.sql",), "main")


async def test_a_run_that_was_inserted_before_is_what_it_is_said_to_be_now_while_it_runs(case: Case) -> None:
    """It was shown while it was prepared, or the answer was lost; what has ended stays as it is."""
    (token,) = await case.starts()
    run = case.appends([case.claim(token, 10)], "a")
    await case.state.insert_run(replace(run, positions=[case.claim(token, 3)]))
    await case.commits(run)
    await case.state.insert_run(replace(run, positions=[case.claim(token, 99)]))
    assert ((await case.stands()).floor, await case.how(run)) == (10, "completed")
    gone = case.appends([case.claim(Token(run.run_id), 20)], "a")
    await case.state.insert_run(gone)
    await case.state.abort(gone.run_id)
    await case.state.insert_run(gone)
    assert ((await case.stands()).floor, await case.how(gone)) == (10, "ended")


async def test_the_difference_of_the_fences_is_what_changes(case: Case) -> None:
    (token,) = await case.starts()
    first = case.appends([case.claim(token, 10, {"a": 12, "b": 7})], "a")
    await case.commits(first)
    await case.commits(case.appends([case.claim(Token(first.run_id), 12, {"a": None, "c": 20})], "a"))
    assert (await case.stands()).fences == {"b": 7, "c": 20}


async def test_a_stale_position_writes_nothing(case: Case) -> None:
    await case.starts()
    run = stranger(case)
    await case.state.insert_run(run)
    before = await case.world()
    with pytest.raises(Conflict):
        await case.ground.publish(run, [PartitionCounts(1, 0)])
    assert await case.world() == before
    assert await case.how(run) == "running"


async def test_of_several_positions_each_is_compared(case: Case) -> None:
    tokens = await case.starts(3)
    for stale in range(3):
        run = case.appends([case.claim(NOWHERE if i == stale else token, 5, number=i) for i, token in enumerate(tokens)], "a")
        await case.state.insert_run(run)
        before = await case.world()
        with pytest.raises(Conflict):
            await case.ground.publish(run, [PartitionCounts(1, 0)])
        assert await case.world() == before


@pytest.mark.parametrize("believed", ["of before", "none yet"])
async def test_a_stale_asset_partition_writes_nothing(case: Case, believed: str) -> None:
    (token,) = await case.starts()
    first = case.merges({"a": None})
    await case.commits(first)
    second = case.merges({"a": Token(first.run_id)})
    await case.commits(second)
    run = case.merges({"b": None, "a": Token(first.run_id) if believed == "of before" else None}, [case.claim(token, 5)])
    await case.state.insert_run(run)
    before = await case.world()
    with pytest.raises(Conflict):
        await case.ground.publish(run, [PartitionCounts(1, 0)] * 2)
    assert await case.world() == before
    assert await case.token("a") == second.run_id


async def test_a_token_of_an_asset_partition_that_is_not_there_is_stale(case: Case) -> None:
    run = case.merges({"a": NOWHERE})
    with pytest.raises(Conflict):
        await case.commits(run)
    assert await case.token("a") is None


async def test_an_append_names_no_asset_partition_and_sets_its_token(case: Case) -> None:
    (token,) = await case.starts()
    for floor in (1, 2):
        run = case.appends([case.claim(token, floor)], "a")
        await case.commits(run)
        token = Token(run.run_id)
        assert await case.token("a") == token


async def test_a_run_that_has_ended_writes_nothing(case: Case) -> None:
    aborted, failed, done = (case.appends([], "a") for _ in range(3))  # they claim nothing that could be stale
    for run in (aborted, failed, done):
        await case.state.insert_run(run)
    await case.state.abort(aborted.run_id)
    await case.state.fail(failed.run_id, None, "no", final=False)
    await case.ground.publish(done, [PartitionCounts(1, 0)])
    before = await case.world()
    for run in (aborted, failed, done):
        with pytest.raises(Conflict):
            await case.ground.publish(run, [PartitionCounts(1, 0)])
    with pytest.raises(Conflict):
        await case.ground.publish(case.appends([], "a"), [PartitionCounts(1, 0)])  # it was never inserted
    assert await case.world() == before
    assert [await case.how(run) for run in (aborted, failed, done)] == ["ended", "ended", "completed"]


async def test_a_mark_without_its_counts_completes_nothing(case: Case) -> None:
    run = case.appends([], "a", "b")
    with pytest.raises(Conflict):
        await case.commits(run, PartitionCounts(1, 0))
    assert await case.how(run) == "running"


async def test_of_runs_that_race_with_one_token_exactly_one_commits(case: Case) -> None:
    (token,) = await case.starts()
    runs = [case.appends([case.claim(token, floor)], "a") for floor in (3, 4, 5)]
    answers = await asyncio.gather(*(case.commits(run) for run in runs), return_exceptions=True)
    (winner,) = [run for run, answer in zip(runs, answers, strict=True) if isinstance(answer, int)]
    assert sum(isinstance(answer, Conflict) for answer in answers) == 2
    for loser in runs:
        with pytest.raises(Conflict):  # nor when it tries again alone
            await case.ground.publish(loser, [PartitionCounts(1, 0)])
    assert (await case.stands()).token == winner.run_id
    assert await case.told() == [(winner.run_id, "a", True)]


async def test_the_schema_has_a_new_version_only_where_it_changed(case: Case) -> None:
    first, same, other = case.appends([], "a"), case.appends([], "a"), case.appends([], "a", schema=OTHER_SCHEMA)
    for run in (first, same, other):
        await case.commits(run)
    assert [(await case.state.verdict(run.run_id, "main", -1)).schema_version for run in (first, same, other)] == [1, None, 2]


async def test_an_asset_partition_that_got_no_row_keeps_its_snapshot_and_its_event_is_internal(case: Case) -> None:
    first, second = case.appends([], "a", "b"), case.appends([], "a", "b")
    made = await case.commits(first)
    await case.commits(second, PartitionCounts(1, 0), PartitionCounts(0, 0))
    assert await case.told() == [(first.run_id, "a", True), (first.run_id, "b", True), (second.run_id, "a", True), (second.run_id, "b", False)]
    assert [await case.token(name) for name in ("a", "b")] == [second.run_id] * 2
    told = list(await case.state.read_outbox(case.since + 2, 2))
    assert [(e.snapshot_id, e.rows) for e in told] == [(made + 1, 1), (None, 0)]


# -- runs without a snapshot, and runs that end otherwise


async def test_a_run_without_change_moves_its_position_and_tells_nobody(case: Case) -> None:
    (token,) = await case.starts()
    made = case.merges({"a": None})
    await case.commits(made)
    run = case.merges({"a": Token(made.run_id)}, [case.claim(token, 5)])
    await case.completes(run)
    after = await case.world()
    await case.state.complete(run.run_id, [PartitionCounts(0, 0)])
    assert await case.world() == after
    assert ((await case.stands()).floor, await case.token("a")) == (5, Token(run.run_id))
    assert await case.state.verdict(run.run_id, "main", -1) == Verdict("completed")
    assert await case.told() == [(made.run_id, "a", True), (run.run_id, "a", False)]
    published = await case.state.read_published(case.since, 10)
    assert published[0] == case.since + 2
    assert [event["subject"] for event in published[1]] == [case.asset]


async def test_a_program_completes_without_an_event(case: Case) -> None:
    await case.completes(program())
    assert await case.state.outbox_next() == case.since


async def test_completing_is_refused_like_a_commit(case: Case) -> None:
    await case.starts()
    aborted, committed, stale = case.appends([], "a"), case.appends([], "a"), stranger(case)
    for run in (aborted, stale):
        await case.state.insert_run(run)
    await case.state.abort(aborted.run_id)
    await case.commits(committed)
    before = await case.world()
    for run in (aborted, committed, stale):
        with pytest.raises(Conflict):
            await case.state.complete(run.run_id, [PartitionCounts(0, 0)])
    assert await case.world() == before


async def test_an_abort_says_the_state_that_the_run_has_then(case: Case) -> None:
    run, done = case.appends([], "a"), case.appends([], "a")
    await case.state.insert_run(run)
    await case.commits(done)
    assert [await case.state.abort(r) for r in (run.run_id, run.run_id, done.run_id, run_id())] == ["aborted", "aborted", "completed", None]


@pytest.mark.parametrize("final", [True, False])
async def test_a_failure_without_a_retry_takes_the_token_of_its_asset_partitions(case: Case, final: bool) -> None:
    made = case.merges({"a": None})
    await case.commits(made)
    run = case.merges({"a": Token(made.run_id), "b": None})
    await case.state.fail(None, run, "no", final=final)
    assert await case.how(run) == "ended"
    assert await case.ground.error(run.run_id) == "no"
    assert [await case.token(name) for name in ("a", "b")] == ([run.run_id] * 2 if final else [made.run_id, None])
    assert await case.ground.statuses(case.asset) == ({"a": "failed", "b": "failed"} if final else {"a": "materialized"})
    assert len(await case.told()) == 1
    await case.commits(case.appends([], "a", "b"))
    assert await case.ground.statuses(case.asset) == {"a": "materialized", "b": "materialized"}


async def test_a_failure_leaves_alone_what_others_have_moved_on(case: Case) -> None:
    (token,) = await case.starts()
    behind, late = case.merges({"a": None}, [case.claim(token, 5)]), case.merges({"a": None})
    for run in (behind, late):
        await case.state.insert_run(run)
    winner = case.merges({"a": None}, [case.claim(token, 5)])
    await case.commits(winner)
    for run in (behind, late, winner):
        await case.state.fail(run.run_id, None, "no", final=True)
    assert await case.token("a") == winner.run_id
    assert [await case.how(run) for run in (behind, late, winner)] == ["ended", "ended", "completed"]


async def test_a_run_is_inserted_once(case: Case) -> None:
    (token,) = await case.starts()
    run = case.appends([case.claim(token, 5)], "a")
    await case.commits(run)
    await case.state.insert_run(run)
    assert await case.how(run) == "completed"


async def test_runs_of_who_fell_silent_are_aborted(case: Case) -> None:
    quiet = await case.ground.replica()
    mine, theirs, again = (case.appends([], "a") for _ in range(3))
    await case.state.heartbeat()
    await case.state.insert_run(mine)
    await quiet.insert_run(theirs)
    assert await case.state.abort_silent_runs(SILENT_SECONDS) == []
    await case.ground.fall_silent(quiet)
    assert await case.state.abort_silent_runs(SILENT_SECONDS) == [theirs.run_id]
    assert [await case.how(run) for run in (mine, theirs)] == ["running", "ended"]
    await quiet.heartbeat()
    await quiet.insert_run(again)
    assert await case.state.abort_silent_runs(SILENT_SECONDS) == []


async def test_own_runs_are_aborted_and_no_others(case: Case) -> None:
    other = await case.ground.replica()
    mine, theirs, done = (case.appends([], "a") for _ in range(3))
    await case.state.insert_run(theirs)
    await other.insert_run(mine)
    await other.insert_run(done)
    await case.ground.publish(done, [PartitionCounts(1, 0)])
    await other.abort_own_runs()
    assert [await case.how(run) for run in (mine, theirs, done)] == ["ended", "running", "completed"]


async def test_a_verdict_tells_a_trigger_that_is_missing(case: Case) -> None:
    run, unmade = case.appends([], "a"), case.appends([], "a")
    await case.state.insert_run(unmade)
    await case.ground.trigger(fires=False)
    before = await case.state.last_snapshot("main")
    try:
        await case.commits(run)
        assert await case.how(unmade) == "trigger_missing"
    finally:
        await case.ground.trigger(fires=True)
    assert (await case.state.verdict(run.run_id, "main", before)).kind == "trigger_missing"
    assert (await case.state.verdict(run.run_id, "main", before + 1)).kind == "running"
    assert await case.how(unmade) == "running"
    assert (await case.state.verdict(run_id(), "main", -1)).kind == "gone"
    assert await case.told() == []


async def test_what_a_run_says_is_kept_from_where_it_is_told(case: Case) -> None:
    run = case.appends([], "a")
    await case.state.insert_run(run)
    for chunk, text, keep_from in [(0, "a", 0), (1, "b", 0), (1, "again", 0), (2, "c", 1)]:
        await case.state.append_log(run.run_id, chunk, text, keep_from)
    await case.state.append_log(run_id(), 0, "nobody's", 0)
    assert await case.ground.log(run.run_id) == "bc"
    await case.state.note_timings(run.run_id, {"commit": 2.0})
    await case.state.note_timings(run.run_id, {"write": 1.0})
    assert await case.ground.timings(run.run_id) == {"commit": 2.0, "write": 1.0}


async def test_runs_that_ended_long_ago_are_forgotten(case: Case) -> None:
    ended = [case.appends([], "a", run_id=new_run_id(at, bytes(10))) for at in (1e9, 1.1e9, 1.2e9)]
    still = case.appends([], "a", run_id=new_run_id(1e9 - 1, bytes(10)))
    recent = case.appends([], "a")
    for run in (*ended, still, recent):
        await case.state.insert_run(run)
    for run in (*ended, recent):
        await case.state.abort(run.run_id)
    assert [await case.state.purge_runs(30, 2), await case.state.purge_runs(30, 2)] == [2, 1]
    assert [await case.how(run) for run in (*ended, still, recent)] == ["gone"] * 3 + ["running", "ended"]
