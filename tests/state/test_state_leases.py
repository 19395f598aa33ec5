"""What replicas share: leases, the lock around COMMIT, the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from reactor.errors import UsageError
from reactor.state import PostgresState
from tests.state.making import Catalog, merge, run_committed, script, trigger

pytestmark = pytest.mark.anyio


@pytest.fixture
async def other(state: PostgresState, database: str) -> AsyncIterator[PostgresState]:  # noqa: ARG001 (the first start makes the tables)
    """Another replica on the same database."""
    other = await PostgresState.open(database, installation="local", workspace="prod")
    yield other
    await other.close()


# -- leases


async def test_a_lease_is_one_s_until_it_ends(state: PostgresState, catalog: Catalog) -> None:
    assert await state.lease("outbox", "a", 15)
    assert await state.lease("outbox", "a", 15)
    assert not await state.lease("outbox", "b", 15)
    assert await state.lease("inbox", "b", 15)
    await catalog.connection.execute("update reactor.lease set expires_at = clock_timestamp() where name = 'outbox'")
    assert await state.lease("outbox", "b", 15)
    assert not await state.lease("outbox", "a", 15)


async def test_only_the_holder_gives_a_lease_back(state: PostgresState) -> None:
    assert await state.lease("outbox", "a", 15)
    await state.release("outbox", "b")
    assert not await state.lease("outbox", "b", 15)
    await state.release("outbox", "a")
    assert await state.lease("outbox", "b", 15)


async def test_of_many_that_ask_one_has_the_lease(state: PostgresState, other: PostgresState) -> None:
    answers = await asyncio.gather(*(each.lease("outbox", f"{each is other}{i}", 15) for i in range(8) for each in (state, other)))
    assert sum(answers) == 1


# -- the lock around COMMIT


async def test_the_commit_lock_is_one_s_at_a_time(state: PostgresState, other: PostgresState, catalog: Catalog) -> None:
    inside = 0

    async def commit(each: PostgresState) -> None:
        nonlocal inside
        async with each.commit_lock("main", 20) as held:
            assert held
            inside += 1
            assert inside == 1
            await catalog.connection.fetchval("select 1") if each is state else await other.epoch()
            inside -= 1

    await asyncio.gather(*(commit(each) for _ in range(10) for each in (state, other)))


async def test_who_does_not_get_the_commit_lock_goes_on(state: PostgresState, other: PostgresState) -> None:
    async with state.commit_lock("main", 5) as held, other.commit_lock("sales", 5) as of_another_lake:
        assert held
        assert of_another_lake
        async with other.commit_lock("main", 0.05) as second:
            assert not second
        async with state.commit_lock("main", 0.05) as from_the_same_process:
            assert not from_the_same_process
    async with other.commit_lock("main", 5) as again:
        assert again


async def test_an_error_or_a_cancellation_gives_the_commit_lock_back(state: PostgresState, other: PostgresState) -> None:
    with pytest.raises(ZeroDivisionError):
        async with state.commit_lock("main", 5):
            raise ZeroDivisionError
    entered = asyncio.Event()

    async def hold() -> None:
        async with state.commit_lock("main", 5):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await entered.wait()
    waiter = asyncio.create_task(other.commit_lock("main", 60).__aenter__())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await waiter


async def test_a_cancelled_wait_leaves_no_lock_behind(state: PostgresState, other: PostgresState, catalog: Catalog) -> None:
    async with state.commit_lock("main", 5):
        waiter = asyncio.create_task(other.commit_lock("main", 60).__aenter__())
        await catalog.waiting(1)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
    async with other.commit_lock("main", 5) as held:
        assert held


async def test_a_lock_session_that_was_killed_is_made_anew(state: PostgresState, other: PostgresState, catalog: Catalog) -> None:
    async with state.commit_lock("main", 5) as held:
        assert held
        await catalog.connection.execute("""
            select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
             where l.locktype = 'advisory' and d.datname = current_database()""")
        async with other.commit_lock("main", 5) as taken_over:
            assert taken_over
    async with state.commit_lock("main", 5) as again:
        assert again


async def test_who_falls_silent_with_the_commit_lock_makes_the_others_wait_once(state: PostgresState, other: PostgresState) -> None:
    async with state.commit_lock("main", 5) as held:
        assert held
        async with other.commit_lock("main", 20) as taken_over:  # PostgreSQL ends the silent session after 5 s
            assert taken_over
        async with other.commit_lock("main", 0.05) as at_once:
            assert at_once
    async with state.commit_lock("main", 5) as again:
        assert again


# -- the inbox


async def test_the_inbox_numbers_without_a_gap(state: PostgresState, other: PostgresState) -> None:
    asked = await asyncio.gather(*(
        each.request_run(script=f"{i}.sql", partition="", actor="ops") for i in range(12) for each in (state, other)))
    assert sorted(offset for offset, _ in asked) == list(range(24))
    read = await state.read_inbox(0, 100)
    assert [(r.offset, r.event_id) for r in read] == sorted(asked)
    assert [r.offset for r in await state.read_inbox(20, 2)] == [20, 21]
    assert await state.inbox_next() == 24


async def test_a_request_is_read_as_it_was_made(state: PostgresState) -> None:
    offset, event_id = await state.request_run(
        script="orders.sql", partition="2026-06-19", actor="ops", reason="backfill", cascade=False, replace_slice=True,
        arguments={"n": 1, "deep": {"list": [1, None]}})
    (read,) = await state.read_inbox(0, 10)
    assert (read.offset, read.event_id, read.script, read.partition, read.actor, read.reason) == (
        offset, event_id, "orders.sql", "2026-06-19", "ops", "backfill")
    assert (read.cascade, read.replace_slice, read.arguments) == (False, True, {"n": 1, "deep": {"list": [1, None]}})


async def test_a_request_that_no_database_can_keep_is_refused(state: PostgresState) -> None:
    for text in ("\0", "\ud800"):
        with pytest.raises(UsageError):
            await state.request_run(script="orders.sql", partition="", actor="ops", arguments={"text": text})
    assert (await state.request_run(script="orders.sql", partition="", actor="ops"))[0] == 0  # no number was used up


async def test_what_came_of_a_request_is_found_by_its_event(state: PostgresState, catalog: Catalog) -> None:
    _, event_id = await state.request_run(script="orders.sql", partition="a", actor="ops")
    assert await state.runs_of_request(event_id) == []
    await run_committed(state, catalog, merge({"x": None}))
    run = merge({"a": None})
    why = trigger(run.run_id, reason="manual", events=({"event_id": "another"}, {"event_id": event_id}))
    await state.insert_run(merge({"a": None}, run_id=run.run_id, trigger=why))
    await state.fail(run.run_id, None, "it broke", final=False)
    again = merge({"a": None})
    await run_committed(
        state, catalog, merge({"a": None}, run_id=again.run_id, trigger=trigger(again.run_id, attempt=2, events=why.events)))
    assert [(r.run_id, r.state) for r in await state.runs_of_request(event_id)] == [(run.run_id, "failed"), (again.run_id, "completed")]
    assert script().path == "orders.sql"
