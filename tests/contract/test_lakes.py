"""What every lake owes with its state, shown by the shipped fakes and by DuckLake with PostgreSQL: rows, positions, state and events are one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from anyio import to_thread

from reactor.domain.runs import PartitionCounts
from reactor.domain.scripts import Script
from reactor.domain.spans import Token
from reactor.errors import Conflict, Outage, RunBlocked, RunFailed
from reactor.lake.rows import Rows
from reactor.ports import Drift, NewRun, SliceInput, Staged, StageOrder, Written
from tests.contract.lake_grounds import SHARED, LakeCase
from tests.lake.driving import DYNAMIC, TOPIC, managed, raw_span
from tests.state.making import NOWHERE

pytestmark = pytest.mark.anyio
ONE = (1, "x")
BATCH = [("id", "BIGINT"), ("v", "VARCHAR")]


def counts(*pairs: tuple[int, int]) -> tuple[PartitionCounts, ...]:
    return tuple(PartitionCounts(*pair) for pair in pairs)


async def commits(staged: Staged) -> bool:
    """Whether COMMIT was accepted."""
    try:
        await to_thread.run_sync(staged.commit)
    except Conflict:
        return False
    return True


# -- together, or not at all


async def test_rows_position_state_and_event_are_there_after_the_commit_and_not_before(work: LakeCase) -> None:
    a, b = work.own("a"), work.own("b")
    script = work.script({a: [ONE, (2, "y")], b: [(3, "z")]})
    token, staged = await work.starts(script), await work.staged(script, a, b)
    assert staged.rows == 3
    run = await work.run(script, staged, a, b, position=(token, 7))
    assert await work.written(staged, run) == Written(changed=True, counts=counts((2, 0), (1, 0)))
    assert await work.rows() == {}
    assert (await work.stands(script)).floor == 0
    await to_thread.run_sync(staged.commit)
    assert await work.how(run) == "completed"
    await work.settled(staged, committed=True)
    assert await work.rows() == {a: [ONE, (2, "y")], b: [(3, "z")]}
    stands = await work.stands(script)
    assert (stands.floor, stands.token) == (7, Token(run.run_id))
    assert await work.told(run.run_id) == [(a, 2, 0), (b, 1, 0)]


async def stale_position(work: LakeCase, script: Script, staged: Staged) -> NewRun:
    return await work.run(script, staged, work.own("a"), position=(NOWHERE, 7))


async def stale_partition(work: LakeCase, script: Script, staged: Staged) -> NewRun:
    return await work.run(script, staged, work.own("a"), tokens={work.own("a"): NOWHERE})


async def ended(work: LakeCase, script: Script, staged: Staged) -> NewRun:
    run = await work.run(script, staged, work.own("a"))
    await work.state.abort(run.run_id)
    return run


@pytest.mark.parametrize("refused", [stale_position, stale_partition, ended])
async def test_a_refused_commit_leaves_nothing_and_keeps_what_was_staged(work: LakeCase, refused: Callable[..., Awaitable[NewRun]]) -> None:
    a = work.own("a")
    script = work.script({a: [ONE]})
    token, staged = await work.starts(script), await work.staged(script, a)
    run = await refused(work, script, staged)
    before = await work.state.last_snapshot("main")
    await work.written(staged, run)
    assert not await commits(staged)
    await work.settled(staged, committed=False)
    assert (await work.rows(), (await work.stands(script)).floor) == ({}, 0)
    assert (await work.state.partition_tokens(SHARED, [a])).tokens == {a: None}
    assert (await work.state.last_snapshot("main"), await work.told(run.run_id)) == (before, [])
    again = await work.run(script, staged, a, position=(token, 7))
    await work.written(staged, again)
    assert await commits(staged)
    await work.settled(staged, committed=True)
    assert (await work.rows(), (await work.stands(script)).floor) == ({a: [ONE]}, 7)


async def test_of_runs_that_race_with_one_position_exactly_one_is_there(work: LakeCase) -> None:
    a = work.own("a")
    scripts = [work.script({a: [(n, "x")]}) for n in range(3)]
    token = await work.starts(scripts[0])
    staged = [await work.staged(script, a) for script in scripts]
    runs = [await work.run(script, one, a, position=(token, n)) for n, (script, one) in enumerate(zip(scripts, staged, strict=True))]
    for one, run in zip(staged, runs, strict=True):
        await work.written(one, run)
    done = await asyncio.gather(*(commits(one) for one in staged))
    assert sum(done) == 1
    winner = done.index(True)
    assert (await work.rows(), (await work.stands(scripts[0])).token) == ({a: [(winner, "x")]}, Token(runs[winner].run_id))
    for one, run, committed in zip(staged, runs, done, strict=True):
        await work.settled(one, committed=committed)
        assert len(await work.told(run.run_id)) == committed


async def test_of_two_that_replace_an_empty_slice_one_is_refused(work: LakeCase) -> None:
    """They take out nothing, so only the token of the slice tells one from the other."""
    a = work.own("a")
    scripts = [work.script({a: [(n, "x")]}, "replace") for n in range(2)]
    staged = [await work.staged(script, a) for script in scripts]
    for script, one in zip(scripts, staged, strict=True):
        await work.written(one, await work.run(script, one, a, tokens={a: None}))
    assert [await commits(one) for one in staged] == [True, False]
    assert await work.rows() == {a: [(0, "x")]}


async def test_of_two_that_take_out_one_row_one_is_refused(work: LakeCase) -> None:
    a = work.own("a")
    await work.ran(work.script({a: [ONE]}), a)
    scripts = [work.script({a: [(1, text)]}, "merge", key=["id"]) for text in "yz"]
    staged = [await work.staged(script, a) for script in scripts]
    for script, one in zip(scripts, staged, strict=True):
        await work.written(one, await work.run(script, one, a))
    assert [await commits(one) for one in staged] == [True, False]
    await work.settled(staged[1], committed=False)
    await work.written(staged[1], await work.run(scripts[1], staged[1], a))
    assert await commits(staged[1])
    assert await work.rows() == {a: [(1, "z")]}


async def test_appends_to_one_table_commit_together(work: LakeCase) -> None:
    a = work.own("a")
    scripts = [work.script({a: [(n, "x")]}) for n in range(2)]
    staged = [await work.staged(script, a) for script in scripts]
    for script, one in zip(scripts, staged, strict=True):
        await work.written(one, await work.run(script, one, a))
    assert [await commits(one) for one in staged] == [True, True]
    assert await work.rows() == {a: [(0, "x"), (1, "x")]}


async def test_a_lost_answer_is_told_by_the_verdict_and_the_rows_are_there_once(work: LakeCase) -> None:
    a = work.own("a")
    script = work.script({a: [ONE]})
    token, staged = await work.starts(script), await work.staged(script, a)
    run = await work.run(script, staged, a, position=(token, 7))
    before = await work.state.last_snapshot("main")
    await work.written(staged, run)
    work.ground.lose_answer()
    with pytest.raises(Outage):
        await to_thread.run_sync(staged.commit)
    verdict = await work.state.verdict(run.run_id, "main", before)
    assert (verdict.kind, verdict.changed) == ("completed", True)
    assert await work.state.abort(run.run_id) == "completed"
    await work.settled(staged, committed=True)
    assert (await work.rows(), (await work.stands(script)).floor) == ({a: [ONE]}, 7)
    assert await work.told(run.run_id) == [(a, 1, 0)]
    again = await work.run(script, staged, a, position=(token, 7))
    await work.written(staged, again)
    assert not await commits(staged)
    await work.settled(staged, committed=False)
    assert await work.rows() == {a: [ONE]}


async def test_a_run_that_is_given_up_leaves_nothing(work: LakeCase) -> None:
    a = work.own("a")
    script = work.script({a: [ONE]})
    staged = await work.staged(script, a)
    run, before = await work.run(script, staged, a), await work.state.last_snapshot("main")
    for _ in range(2):
        await to_thread.run_sync(staged.rollback)
    await work.written(staged, run)
    await to_thread.run_sync(staged.rollback)
    with pytest.raises(RunBlocked):
        await to_thread.run_sync(staged.commit)
    await work.written(staged, run)
    await to_thread.run_sync(staged.close)
    assert (await work.rows(), await work.how(run), await work.state.last_snapshot("main")) == ({}, "running", before)


async def test_what_was_staged_is_of_no_use_after_a_rebuild(work: LakeCase) -> None:
    a = work.own("a")
    script = work.script({a: [ONE]})
    staged = await work.staged(script, a)
    before = staged.stale
    await to_thread.run_sync(work.ground.lake.rebuild)
    assert (before, staged.stale) == (False, True)
    with pytest.raises(Outage):
        await work.written(staged, await work.run(script, staged, a))
    await to_thread.run_sync(staged.close)
    await work.ran(script, a)
    assert await work.rows() == {a: [ONE]}


# -- what the strategies write


async def test_a_slice_is_replaced_and_no_other(work: LakeCase) -> None:
    a, b = work.own("a"), work.own("b")
    await work.ran(work.script({b: [(9, "z")]}, "replace"), b)
    assert await work.ran(work.script({a: [ONE, (2, "y")]}, "replace"), a) == Written(changed=True, counts=counts((2, 0)))
    assert await work.ran(work.script({a: [ONE, ONE, ONE]}, "replace"), a) == Written(changed=True, counts=counts((3, 2)))
    assert await work.rows() == {a: [ONE] * 3, b: [(9, "z")]}
    assert await work.ran(work.script({a: []}, "replace"), a) == Written(changed=True, counts=counts((0, 3)))
    assert await work.rows() == {b: [(9, "z")]}


async def test_equal_content_is_not_replaced(work: LakeCase) -> None:
    a = work.own("a")
    await work.ran(work.script({a: [(2, "y"), ONE, ONE]}, "replace"), a)
    before = await work.state.last_snapshot("main")
    assert await work.ran(work.script({a: [ONE, (2, "y"), ONE]}, "replace"), a) == Written(changed=False, counts=counts((0, 0)))
    assert await work.state.last_snapshot("main") == before
    assert await work.ran(work.script({a: [ONE, (2, "y"), (2, "y")]}, "replace"), a) == Written(changed=True, counts=counts((3, 3)))


async def test_a_whole_table_is_replaced_and_made_anew_where_its_columns_change(work: LakeCase) -> None:
    asset = f"ducklake://main/{work.own('whole')}"
    whole = [work.script({"": rows}, "replace", asset, sliced=False) for rows in ([ONE, (2, "y")], [(3, "z")], [])]
    assert [(await work.ran(script)).counts for script in whole] == [counts((2, 0)), counts((1, 2)), counts((0, 1))]
    assert await work.rows(asset) == {}
    await work.ran(whole[0])
    before = await work.staged(work.script({"": [(4, "q")]}, "append", asset, sliced=False))
    other = work.script({"": [(5, "w")]}, "replace", asset, column="w", sliced=False)
    staged = await work.staged(other)
    assert (staged.drift, [name for name, _ in (staged.schema.columns if staged.schema else ())]) == (Drift(), ["id", "w"])
    await to_thread.run_sync(staged.close)
    assert await work.ran(other) == Written(changed=True, counts=counts((1, 2)))
    assert await work.rows(asset) == {"": [(5, "w")]}
    with pytest.raises(Conflict):
        await work.written(before, await work.run(other, before))
    assert before.stale
    await to_thread.run_sync(before.close)


async def test_an_append_adds_and_nothing_staged_is_nothing_written(work: LakeCase) -> None:
    a, b = work.own("a"), work.own("b")
    assert (await work.ran(work.script({b: [ONE], a: [ONE, ONE]}), a, b)).counts == counts((2, 0), (1, 0))
    assert await work.ran(work.script({}), a, b) == Written(changed=False, counts=counts((0, 0), (0, 0)))
    assert (await work.staged(work.script({}), a)).schema is None
    await work.ran(work.script({a: [ONE]}), a)
    assert await work.rows() == {a: [ONE] * 3, b: [ONE]}


async def test_a_slice_of_an_append_is_made_again_when_it_is_ordered(work: LakeCase) -> None:
    a, b = work.own("a"), work.own("b")
    await work.ran(work.script({a: [ONE, (2, "y")], b: [ONE]}), a, b)
    assert await work.ran(work.script({a: [(3, "z")]}), a, replace_slice=True) == Written(changed=True, counts=counts((1, 2)))
    assert await work.rows() == {a: [(3, "z")], b: [ONE]}


async def test_a_merge_puts_rows_in_place_of_those_with_their_key_in_their_slice(work: LakeCase) -> None:
    a, b = work.own("a"), work.own("b")
    await work.ran(work.script({a: [ONE, (2, "y")], b: [(2, "b")]}), a, b)
    merged = work.script({a: [(2, "new"), (3, "z")]}, "merge", key=["id"])
    assert await work.ran(merged, a) == Written(changed=True, counts=counts((2, 1)))
    assert await work.rows() == {a: [ONE, (2, "new"), (3, "z")], b: [(2, "b")]}


async def test_a_merge_needs_its_key_once_in_each_row(work: LakeCase) -> None:
    a = work.own("a")
    with pytest.raises(RunFailed):
        await work.staged(work.script({a: [ONE, (1, "y")]}, "merge", key=["id"]), a)
    with pytest.raises(RunBlocked):
        await work.staged(work.script({a: [ONE]}, "merge", key=["absent"]), a)


async def test_columns_that_the_table_does_not_have_are_told_and_left_out(work: LakeCase) -> None:
    a = work.own("a")
    await work.ran(work.script({a: [ONE]}), a)
    script = work.script({a: [(2, "y")]}, column="w")
    staged = await work.staged(script, a)
    assert staged.drift == Drift(added=("w",), removed=("v",))
    assert [name for name, _ in (staged.schema.columns if staged.schema else ())] == ["id", "v"]
    await to_thread.run_sync(staged.close)
    await work.ran(script, a)
    assert sorted((await work.rows())[a], key=str) == [ONE, (2, None)]


# -- tables


async def test_a_table_that_records_feed_is_made_ahead_and_keeps_its_uuid(work: LakeCase) -> None:
    asset = f"ducklake://main/{work.own('fed')}"
    script = managed("SELECT id, v FROM batch", "append", batch=BATCH, partitioned=DYNAMIC, asset=asset)
    outbox = await work.state.outbox_next()
    table = await to_thread.run_sync(work.ground.lake.ensure_table, script)
    assert table is not None
    assert await to_thread.run_sync(work.ground.lake.ensure_table, script) == table
    assert await work.state.outbox_next() == outbox
    records = Rows(raw_span([b'{"id": 0, "v": "settled"}', b'{"id": 1, "v": "x"}', b'{"id": 2, "v": "y"}']).records)
    slices = [SliceInput(name, parts=[(TOPIC, lo, 3, records)]) for name, lo in (("a", 1), ("b", 2))]
    known = StageOrder(script, slices, table_uuid=table)
    staged = await to_thread.run_sync(work.ground.lake.stage, known)
    run = await work.run(script, staged, "a", "b")
    assert (await work.written(staged, run)).counts == counts((2, 0), (1, 0))
    assert await commits(staged)
    await to_thread.run_sync(staged.close)
    assert await to_thread.run_sync(work.ground.lake.ensure_table, script) == table
    assert await work.rows(asset) == {"a": [ONE, (2, "y")], "b": [(2, "y")]}
    await work.ground.swap(asset)
    assert await to_thread.run_sync(work.ground.lake.ensure_table, script) not in {None, table}
    with pytest.raises(RunBlocked):
        await to_thread.run_sync(work.ground.lake.stage, known)


async def test_a_table_that_nobody_feeds_is_made_by_its_first_run(work: LakeCase) -> None:
    asset = f"ducklake://main/{work.own('first')}"
    scripts = [work.script({"": [(n, "x")]}, "append", asset, sliced=False) for n in range(2)]
    assert await to_thread.run_sync(work.ground.lake.ensure_table, scripts[0]) is None
    staged = [await work.staged(script) for script in scripts]
    for script, one in zip(scripts, staged, strict=True):
        await work.written(one, await work.run(script, one))
    assert [await commits(one) for one in staged] == [True, False]
    await work.settled(staged[1], committed=False)
    await work.written(staged[1], await work.run(scripts[1], staged[1]))
    assert await commits(staged[1])
    assert await work.rows(asset) == {"": [(0, "x"), (1, "x")]}
    assert await to_thread.run_sync(work.ground.lake.ensure_table, scripts[0]) is not None


async def test_slices_cannot_come_or_go(work: LakeCase) -> None:
    await work.ran(work.script({work.own("a"): [ONE]}), work.own("a"))
    with pytest.raises(RunBlocked):
        await work.staged(work.script({"": [ONE]}, sliced=False))


async def test_nothing_is_wrong_with_a_lake_that_is_there(work: LakeCase) -> None:
    assert await to_thread.run_sync(work.ground.lake.away) == {}
