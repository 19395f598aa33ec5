"""The decision log on PostgreSQL: written twice it is one row, with its run from the transaction of the run's row on, and gone after its time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from reactor.domain.decisions import Decision
from reactor.domain.runs import RunId
from reactor.domain.scripts import ScriptPath
from reactor.domain.spans import Consumer, PositionClaim, outbox_of
from reactor.state import PostgresState
from tests.state.making import ASSET, KEY, ORDERS, Catalog, append, merge, start

pytestmark = pytest.mark.anyio


def decision(lo: int = 0, hi: int = 10, partition: str = "a", due_at: float | None = 100.0) -> Decision:
    return Decision(Consumer(ASSET), ScriptPath("orders.sql"), ORDERS, lo, hi, partition, "dispatched", due_at=due_at)


async def test_what_waits_is_one_row_that_grows(state: PostgresState) -> None:
    await state.write_decisions([decision(), decision(partition="b")])
    await state.write_decisions([decision(hi=30, due_at=120.5)])
    (found,) = await state.decisions(ASSET, "a")
    assert (found.lo, found.hi, found.due_at, found.run_id, found.run_state) == (0, 30, datetime.fromtimestamp(120.5, UTC), None, None)
    assert (found.source, found.source_partition, found.script, found.outcome) == (ORDERS.source, "0", "orders.sql", "dispatched")
    assert {d.partition for d in await state.decisions(ASSET)} == {"a", "b"}
    assert await state.decisions("ducklake://main/other") == []


async def test_a_run_names_its_decisions_with_its_row(state: PostgresState) -> None:
    await state.write_decisions([decision(due_at=90.0)])
    run = append([], "a", decisions=[decision(hi=20), decision(partition="b")])
    await state.insert_run(run)
    await state.insert_run(run)  # its answer was lost
    assert {(d.partition, d.hi, d.run_id, d.run_state) for d in await state.decisions(ASSET)} == {("a", 20, run.run_id, "running"), ("b", 10, run.run_id, "running")}
    await state.write_decisions([decision(hi=25, due_at=300.0)])
    (late,) = await state.decisions(ASSET, "a")
    assert (late.run_id, late.due_at, late.hi) == (run.run_id, datetime.fromtimestamp(100, UTC), 25), "a batch that comes late takes no run away"
    again = append([], "a", decisions=[decision(hi=20)])
    await state.insert_run(again)
    assert [d.run_id for d in await state.decisions(ASSET, "a")] == [again.run_id]


async def test_a_run_that_failed_before_it_had_a_row_is_named_too(state: PostgresState) -> None:
    run = merge({"a": None}, decisions=[decision()])
    await state.fail(None, run, "it broke", final=True)
    (found,) = await state.decisions(ASSET)
    assert (found.run_id, found.run_state, found.run_error) == (run.run_id, "failed", "it broke")


async def test_a_decision_outlives_its_run(state: PostgresState, catalog: Catalog) -> None:
    run = append([], "a", decisions=[decision()])
    await state.insert_run(run)
    await catalog.connection.execute("delete from reactor.run")
    (found,) = await state.decisions(ASSET)
    assert (found.run_id, found.run_state) == (RunId(run.run_id), None)


async def test_an_event_tells_what_became_of_it(state: PostgresState) -> None:
    first = Decision(Consumer(ASSET), ScriptPath("orders.sql"), outbox_of("prod"), 3, 4, "", "skipped", "no_cascade", "e", "ducklake://main/up")
    second = first._replace(consumer=Consumer("tell.py"), script=ScriptPath("tell.py"), outcome="joined", reason="", inputs=(2, 3))
    await state.write_decisions([first, second])
    found = await state.decisions_of_event("e")
    assert [(d.consumer, d.outcome, d.reason, d.asset, d.inputs_in, d.inputs_needed, d.due_at) for d in found] == [
        (ASSET, "skipped", "no_cascade", "ducklake://main/up", None, None, None), ("tell.py", "joined", "", "ducklake://main/up", 2, 3, None)]
    assert await state.decisions_of_event("other") == []


async def test_newest_first(state: PostgresState) -> None:
    for lo in (0, 10, 20):
        await state.write_decisions([decision(lo, lo + 10)])
    assert [d.lo for d in await state.decisions(ASSET, limit=2)] == [20, 10]


async def test_old_ones_are_dropped_so_many_at_once(state: PostgresState, catalog: Catalog) -> None:
    await state.write_decisions([decision(lo, lo + 1) for lo in range(5)])
    await catalog.connection.execute("update reactor.decision set decided_at = decided_at - interval '31 days' where lo < 4")
    assert [await state.purge_decisions(30, 3) for _ in range(3)] == [3, 1, 0]
    assert [d.lo for d in await state.decisions(ASSET)] == [4]


async def test_replicas_that_write_the_same_do_not_lock_each_other_out(state: PostgresState) -> None:
    many = [decision(lo, lo + 1, str(lo % 7)) for lo in range(300)]

    async def write(found: Sequence[Decision]) -> None:
        for _ in range(5):
            await state.write_decisions(found)
            await state.insert_run(replace(append([], "a"), decisions=found))

    await asyncio.gather(write(many), write(many[::-1]), write(many[100:] + many[:100]))
    assert len(await state.decisions(ASSET, limit=1000)) == 300


async def test_what_waits_is_what_no_position_has_passed(state: PostgresState) -> None:
    (token,) = (await start(state, KEY, floor=10)).values()
    await state.settle([PositionClaim(KEY, token, 20, {"blocked": 12, "ahead": 40})])
    run = append([], "again", decisions=[decision(20, 30, "again", 50.0)])
    await state.insert_run(run)
    await state.write_decisions([
        decision(5, 9, "settled"), decision(12, 15, "blocked"), decision(12, 15, "behind"), decision(22, 40, "ahead"), decision(40, 41, "ahead", 60.0),
        decision(25, 35, "again", 70.0), decision(20, 21, "skipped")._replace(outcome="skipped", reason="cycle"),
        decision(30, 31, "joined")._replace(outcome="joined", event_id="e", inputs=(1, 2))])
    found = {w.partition: w for w in await state.waiting(ASSET)}
    assert found.keys() == {"blocked", "ahead", "again", "joined"}
    assert (found["ahead"].records, found["ahead"].run_id) == (1, None)
    assert (found["again"].records, found["again"].run_id, found["again"].due_at) == (20, run.run_id, datetime.fromtimestamp(70, UTC))
    assert (found["joined"].outcome, found["joined"].events, found["joined"].inputs_in, found["joined"].inputs_needed) == ("joined", 1, 1, 2)
    assert await state.waiting("ducklake://main/other") == []


async def test_a_lease_says_who_holds_it(state: PostgresState) -> None:
    assert await state.lease_holder("inbox:") is None
    assert await state.lease("inbox:", "me", 60)
    assert await state.lease_holder("inbox:") == "me"
    assert await state.lease("inbox:", "me", -1)
    assert await state.lease_holder("inbox:") is None
