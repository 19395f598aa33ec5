"""Positions: inserted before the first read, moved by their token, reset, switched, and what was lost before it was read."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from reactor.domain.runs import PartitionCounts
from reactor.domain.spans import Consumer, PositionKey, SourcePartition, Token
from reactor.errors import Conflict
from reactor.ports import Arrival, NewPosition
from reactor.state import PostgresState
from tests.state.making import ASSET, KEY, NOWHERE, Catalog, append, claim, run_committed, run_unchanged, start

pytestmark = pytest.mark.anyio


def keys(n: int) -> list[PositionKey]:
    return [PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", str(i))) for i in range(n)]


# -- the row


async def test_a_position_is_stored_as_it_was_given_and_never_twice(state: PostgresState) -> None:
    table = uuid4()
    await state.insert_positions([NewPosition(KEY, 7, "routing", "2026-06-01T00:00:00Z", "cluster/topic", table)])
    (stored,) = (await state.load([KEY])).values()
    assert (stored.floor, stored.routing, stored.started_from, stored.topic_id, stored.table_uuid, stored.fences) == (
        7, "routing", "2026-06-01T00:00:00Z", "cluster/topic", table, {})
    await state.insert_positions([NewPosition(KEY, 0, "other", "earliest")])
    assert (await state.load([KEY])) == {KEY: stored}


async def test_only_what_is_stored_is_loaded(state: PostgresState) -> None:
    await start(state, *keys(2))
    assert set(await state.load([*keys(3), PositionKey(Consumer("other"), KEY.source_partition)])) == set(keys(2))
    assert await state.load([]) == {}
    assert list(await state.positions(ASSET)) == keys(2)
    assert await state.positions("other") == {}


async def test_a_position_deleted_and_inserted_again_is_another(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    await run_committed(state, catalog, append([claim(tokens[KEY], 5, {"a": 9})]))
    await catalog.connection.execute("delete from reactor.position")
    assert await catalog.connection.fetchval("select count(*) from reactor.fence") == 0
    again = await start(state)
    assert again[KEY] != tokens[KEY]
    with pytest.raises(Conflict):
        await run_unchanged(state, append([claim(tokens[KEY], 6)]))


# -- settled without a run


async def test_settling_many_positions_each_stands_alone(state: PostgresState) -> None:
    tokens = await start(state, *keys(500))
    claims = [claim(NOWHERE if i % 100 == 0 else tokens[key], i, {"a": i + 2}, key) for i, key in enumerate(keys(500))]
    token, refused = await state.settle(claims)
    assert refused == {keys(500)[i] for i in range(0, 500, 100)}
    for i, (key, position) in enumerate((await state.positions()).items()):
        assert key == keys(500)[i]
        expected = (0, {}, tokens[key]) if i % 100 == 0 else (i, {"a": i + 2}, token)
        assert (position.floor, position.fences, position.token) == expected


async def test_a_lost_answer_of_settle_needs_no_care(state: PostgresState) -> None:
    tokens = await start(state)
    await state.settle([claim(tokens[KEY], 5)])  # the answer was lost: the same claim again
    _, refused = await state.settle([claim(tokens[KEY], 5)])
    assert refused == {KEY}
    assert (await state.settle([]))[1] == frozenset()


async def test_two_that_settle_the_same_positions_do_not_deadlock(state: PostgresState) -> None:
    tokens = await start(state, *keys(40))
    claims = [claim(tokens[key], 1, key=key) for key in keys(40)]
    ends = await asyncio.gather(*(state.settle(order) for order in (claims, claims[::-1]) for _ in range(4)))
    assert sum(40 - len(refused) for _, refused in ends) == 40
    assert len({token for token, refused in ends if len(refused) < 40}) == 1


async def test_a_settled_floor_refuses_the_run_that_did_not_know(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    run = append([claim(tokens[KEY], 5)])
    await state.insert_run(run)
    await state.settle([claim(tokens[KEY], 3)])
    with pytest.raises(Conflict, match="RF001"):
        await state.complete(run.run_id, [PartitionCounts(0, 0)])
    assert await catalog.rows() == 0


# -- reset


async def test_a_reset_sets_floor_and_token_and_drops_fences(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    run = append([claim(tokens[KEY], 10, {"a": 14, "b": 3})])
    await run_committed(state, catalog, run)
    table = uuid4()
    assert await state.reset(KEY, 2, "cluster/new", "offset 2", "the topic was made again", table_uuid=table)
    (stored,) = (await state.load([KEY])).values()
    assert (stored.floor, stored.fences, stored.topic_id, stored.started_from, stored.table_uuid) == (2, {}, "cluster/new", "offset 2", table)
    assert stored.token not in {tokens[KEY], Token(run.run_id)}
    with pytest.raises(Conflict):
        await run_unchanged(state, append([claim(Token(run.run_id), 12)]))
    assert not await state.reset(keys(9)[8], 0, None, "earliest", "no such position")


async def test_a_replica_that_slept_does_not_jump_back(state: PostgresState, catalog: Catalog) -> None:
    """It saw floor 0 below the start of the log, 100. Another has jumped since, and committed."""
    tokens = await start(state)
    assert await state.reset(KEY, 100, "cluster/topic", "gap", "lost", believed=tokens[KEY])
    (jumped,) = (await state.load([KEY])).values()
    await run_committed(state, catalog, append([claim(jumped.token, 5000)]))
    assert not await state.reset(KEY, 100, "cluster/topic", "gap", "lost", believed=tokens[KEY])
    assert (await state.load([KEY]))[KEY].floor == 5000


async def test_a_reset_in_the_middle_of_a_run_wins(state: PostgresState, catalog: Catalog) -> None:
    """The commit holds the position first: the reset waits, and comes after. The other way round the commit is refused."""
    tokens = await start(state)
    first, second = append([claim(tokens[KEY], 10, {"a": 12})]), append([claim(tokens[KEY], 20)])
    for run in (first, second):
        await state.insert_run(run)
    session = await catalog.session()
    async with session.transaction(isolation="repeatable_read"):
        await session.execute("select reactor.complete($1, '[[1,0]]')", first.run_id)
        reset = asyncio.create_task(state.reset(KEY, 3, None, "offset 3", "by hand"))
        await catalog.waiting(1)
    assert await reset
    assert ((stored := (await state.load([KEY]))[KEY]).floor, stored.fences) == (3, {})
    with pytest.raises(Conflict, match="RF001"):
        await state.complete(second.run_id, [PartitionCounts(0, 0)])


# -- new routing


async def test_new_routing_takes_over_at_a_common_cut_only(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    ahead = append([claim(tokens[KEY], 10, {"a": 14})])
    await run_committed(state, catalog, ahead)
    assert not await state.switch(KEY, Token(ahead.run_id), "new")  # a stream stands elsewhere
    level = append([claim(Token(ahead.run_id), 14, {"a": None})])
    await run_committed(state, catalog, level)
    assert not await state.switch(KEY, Token(ahead.run_id), "new")  # not the token
    assert await state.switch(KEY, Token(level.run_id), "new")
    (stored,) = (await state.load([KEY])).values()
    assert (stored.routing, stored.floor, stored.started_from) == ("new", 14, "earliest")
    assert not await state.switch(KEY, Token(level.run_id), "newer")  # it has a token of its own
    with pytest.raises(Conflict):
        await run_unchanged(state, append([claim(Token(level.run_id), 15)]))


async def test_a_switch_looks_at_the_fences_after_it_holds_the_row(state: PostgresState, catalog: Catalog) -> None:
    """While it waits for the row a commit writes a fence: neither the old token nor the new one passes."""
    tokens = await start(state)
    run = append([claim(tokens[KEY], 10, {"a": 14})])
    await state.insert_run(run)
    session = await catalog.session()
    async with session.transaction(isolation="repeatable_read"):
        await session.execute("select reactor.complete($1, '[[1,0]]')", run.run_id)
        by_old, by_new = (asyncio.create_task(state.switch(KEY, token, "new")) for token in (tokens[KEY], Token(run.run_id)))
        await catalog.waiting(1)
    assert not await by_old
    assert not await by_new
    assert (await state.load([KEY]))[KEY].routing == "routing"


async def test_a_fence_that_appears_while_a_switch_waits_stops_it(state: PostgresState, catalog: Catalog) -> None:
    """Somebody holds the row without a new token and leaves a fence behind: one statement would look with the old snapshot."""
    tokens = await start(state)
    session = await catalog.session()
    async with session.transaction():
        await session.execute("update reactor.position set floor = floor")
        switch = asyncio.create_task(state.switch(KEY, tokens[KEY], "new"))
        await catalog.waiting(1)
        await session.execute("insert into reactor.fence select consumer, source, source_partition, 'a', 9 from reactor.position")
    assert not await switch


# -- lost ranges


async def test_a_gap_is_recorded_once_and_shown_until_acknowledged(state: PostgresState) -> None:
    for _ in range(2):
        await state.record_gap(KEY, 10, 20, "retention")
    await state.record_gap(keys(2)[1], 0, 5, "retention")
    assert [(g.consumer, g.source, g.source_partition, g.lo, g.hi, g.reason) for g in await state.gaps()] == [
        (ASSET, "kafka://main/orders", "0", 10, 20, "retention"), (ASSET, "kafka://main/orders", "1", 0, 5, "retention")]
    assert await state.acknowledge_gaps("other", "ops") == 0
    assert await state.acknowledge_gaps(ASSET, "ops") == 2
    assert await state.acknowledge_gaps(None, "ops") == 0
    assert await state.gaps() == []
    assert [(g.acknowledged_by, g.acknowledged_at is not None) for g in await state.gaps(acknowledged=True)] == [("ops", True)] * 2


# -- joins


async def test_arrivals_and_the_position_of_the_join_are_one(state: PostgresState) -> None:
    key = PositionKey(Consumer(ASSET), SourcePartition("outbox://prod", ""))
    tokens = await start(state, key)
    arrivals = [Arrival("2026-06-19", f"e{i}", f"ducklake://main/in{i}", {"event_id": f"e{i}", "snapshot_id": i}) for i in range(3)]
    token = await state.arrive(Consumer(ASSET), arrivals[:2], [claim(tokens[key], 2, key=key)])
    with pytest.raises(Conflict, match="RF001"):
        await state.arrive(Consumer(ASSET), arrivals[2:], [claim(tokens[key], 3, key=key)])
    assert await state.arrivals(Consumer(ASSET)) == arrivals[:2]
    await state.arrive(Consumer(ASSET), arrivals[1:], [claim(token, 3, key=key)])  # the same input again: once
    assert await state.arrivals(Consumer(ASSET)) == arrivals
    assert await state.arrivals(Consumer("other")) == []


async def test_the_firing_run_uses_up_exactly_what_it_claimed(state: PostgresState, catalog: Catalog) -> None:
    arrivals = [Arrival("a", f"e{i}", "ducklake://main/in") for i in range(3)] + [Arrival("b", "e0", "ducklake://main/in")]
    await state.arrive(Consumer(ASSET), arrivals, [])
    await run_committed(state, catalog, append([], "a", joins=[("a", "e0"), ("a", "e1")]))
    left = [(a.asset_partition, a.event_id) for a in await state.arrivals(Consumer(ASSET))]
    assert sorted(left) == [("a", "e2"), ("b", "e0")]
    with pytest.raises(Conflict, match="RF001: join"):
        await run_unchanged(state, append([], "a", joins=[("a", "e1"), ("a", "e2")]))
    assert len(await state.arrivals(Consumer(ASSET))) == 2
