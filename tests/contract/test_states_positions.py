"""What every state owes of positions and joins, shown by the shipped fake and by PostgreSQL."""

from __future__ import annotations

import pytest

from reactor.domain.runs import PartitionCounts
from reactor.errors import Conflict
from reactor.ports import Arrival, NewPosition
from tests.contract.state_grounds import Case
from tests.state.making import NOWHERE, ORDERS, run_id

pytestmark = pytest.mark.anyio


async def test_a_position_is_inserted_once(case: Case) -> None:
    table = run_id()
    await case.state.insert_positions([NewPosition(case.key, 5, "routing", "latest", None, table)])
    stands = await case.stands()
    assert (stands.floor, stands.routing, stands.started_from, stands.topic_id, stands.table_uuid, stands.fences) == (5, "routing", "latest", None, table, {})
    await case.state.insert_positions([NewPosition(case.key, 9, "other", "earliest")])
    assert await case.state.load(case.keys(2)) == {case.key: stands}
    assert (await case.state.partition_tokens(case.asset, [])).table_uuid == table


async def test_floors_are_settled_key_by_key(case: Case) -> None:
    tokens = await case.starts(2)
    absent = case.claim(NOWHERE, 9, number=2)
    me, refused = await case.state.settle([case.claim(tokens[0], 4, {"a": 6}), case.claim(NOWHERE, 9, number=1), absent])
    assert refused == set(case.keys(3)[1:])
    stands, other = await case.stands(0), await case.stands(1)
    assert (stands.floor, stands.fences, stands.token) == (4, {"a": 6}, me)
    assert (other.floor, other.token) == (0, tokens[1])
    assert case.keys(3)[2] not in await case.state.load(case.keys(3))


async def test_a_reset_drops_fences_and_makes_old_tokens_stale(case: Case) -> None:
    (token,) = await case.starts()
    before, _ = await case.state.settle([case.claim(token, 4, {"a": 6})])
    run = case.appends([case.claim(before, 9)], "a")
    await case.state.insert_run(run)
    assert not await case.state.reset(case.key, 1, None, "jump", "lost", believed=token)
    assert await case.state.reset(case.key, 2, "cluster/again", "jump", "lost", believed=before)
    stands = await case.stands()
    assert (stands.floor, stands.fences, stands.topic_id, stands.started_from, stands.routing) == (2, {}, "cluster/again", "jump", "routing")
    assert stands.token not in {token, before}
    with pytest.raises(Conflict):
        await case.ground.publish(run, [PartitionCounts(1, 0)])
    assert await case.state.reset(case.key, 0, None, "earliest", "said so")
    assert not await case.state.reset(case.keys(2)[1], 0, None, "earliest", "said so")


async def test_new_routing_takes_over_at_a_common_cut(case: Case) -> None:
    (token,) = await case.starts()
    ahead, _ = await case.state.settle([case.claim(token, 4, {"a": 6})])
    assert not await case.state.switch(case.key, ahead, "new")
    level, _ = await case.state.settle([case.claim(ahead, 6, {"a": None})])
    assert not await case.state.switch(case.key, ahead, "new")
    assert await case.state.switch(case.key, level, "new")
    stands = await case.stands()
    assert (stands.floor, stands.routing) == (6, "new")
    assert stands.token not in {ahead, level}
    assert not await case.state.switch(case.keys(2)[1], level, "new")


async def test_arrivals_and_their_position_are_one(case: Case) -> None:
    (token,) = await case.starts()
    first, second, third = (Arrival("a", f"e{n}", ORDERS.source, {"id": n}) for n in (2, 1, 3))
    with pytest.raises(Conflict):
        await case.state.arrive(case.consumer, [first], [case.claim(NOWHERE, 1)])
    assert await case.state.arrivals(case.consumer) == []
    moved = await case.state.arrive(case.consumer, [first], [case.claim(token, 1)])
    again = await case.state.arrive(case.consumer, [first, third, second], [case.claim(moved, 2)])
    assert await case.state.arrivals(case.consumer) == [first, second, third], "those that come together by their ids"
    assert ((await case.stands()).floor, (await case.stands()).token) == (2, again)
    run, late = (case.appends([], "a", joins=[("a", "e1"), ("a", "e2")][:n]) for n in (1, 2))
    await case.commits(run)
    assert await case.state.arrivals(case.consumer) == [first, third]
    with pytest.raises(Conflict):
        await case.commits(late)
    assert await case.state.arrivals(case.consumer) == [first, third]
    assert await case.token("a") == run.run_id


async def test_a_lost_range_is_recorded_once(case: Case) -> None:
    for _ in range(2):
        await case.state.record_gap(case.key, 3, 7, "retention")
    assert await case.ground.gaps(case.consumer) == [(3, 7, "retention")]


async def test_tokens_come_with_the_life_of_the_database(case: Case) -> None:
    await case.commits(case.merges({"a": None}))
    found = await case.state.partition_tokens(case.asset, ["a", "b"])
    assert set(found.tokens) == {"a", "b"}
    assert found.tokens["b"] is None
    assert found.table_uuid is None
    assert found.epoch == await case.state.epoch() == await (await case.ground.replica()).epoch()
