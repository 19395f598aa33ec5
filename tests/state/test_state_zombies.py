"""Transactions that began long ago, or stopped in the middle: what they see, what they hold, and that they are refused."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import pytest

from reactor.state import PostgresState
from tests.state.making import KEY, Catalog, append, claim, mark, merge, run_committed, start

pytestmark = pytest.mark.anyio

REFUSED = "reactor RF001: "
NOT_RUNNING = "reactor RF002: "


async def stands(state: PostgresState) -> tuple[int, UUID]:
    position = (await state.load([KEY]))[KEY]
    return position.floor, position.token


async def test_a_session_that_stops_between_its_batch_and_commit_is_thrown_out(state: PostgresState, catalog: Catalog) -> None:
    """DuckLake sends COMMIT apart: a process that is stopped before it would hold the lake until it wakes."""
    tokens = await start(state)
    stopped, other = append([claim(tokens[KEY], 10)]), append([claim(tokens[KEY], 11)])
    for run in (stopped, other):
        await state.insert_run(run)
    session = await catalog.session()
    frozen = session.transaction(isolation="repeatable_read")
    await frozen.start()
    await catalog.publish(mark(stopped), session=session)
    assert [await session.fetchval(f"show {name}") for name in ("idle_in_transaction_session_timeout", "lock_timeout")] == ["5s", "5s"]
    assert await state.abort(stopped.run_id) == "aborted"  # waits until the server has thrown it out
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)):  # the last if it has half noticed
        await frozen.commit()
    await catalog.commit(mark(other))
    assert await stands(state) == (11, other.run_id)


async def test_the_timeouts_of_a_commit_end_with_it(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    await run_committed(state, catalog, append([claim(tokens[KEY], 10)]))
    assert [await catalog.connection.fetchval(f"show {name}") for name in ("idle_in_transaction_session_timeout", "lock_timeout")] == ["0", "0"]


async def test_a_transaction_that_began_long_ago_is_refused(state: PostgresState, catalog: Catalog) -> None:
    """REPEATABLE READ shows the world of then; only UPDATE … WHERE sees that of now."""
    tokens = await start(state)
    zombie = append([claim(tokens[KEY], 10)])
    await state.insert_run(zombie)
    session = await catalog.session()
    frozen = session.transaction(isolation="repeatable_read")
    await frozen.start()
    assert await session.fetchval("select floor from reactor.position") == 0
    winner = append([claim(tokens[KEY], 11)])
    await run_committed(state, catalog, winner)
    assert await session.fetchval("select last_run from reactor.position") == tokens[KEY]
    with pytest.raises(asyncpg.SerializationError):
        await catalog.publish(mark(zombie), session=session, snapshot=99)
    await frozen.rollback()
    with pytest.raises(asyncpg.PostgresError, match=REFUSED):  # as DuckLake repeats it, in a new transaction
        await catalog.commit(mark(zombie), session=session)
    assert await stands(state) == (11, winner.run_id)
    assert await catalog.rows() == 1


async def test_a_merge_that_began_before_another_s_first_row_is_refused(state: PostgresState, catalog: Catalog) -> None:
    zombie = merge({"a": None})
    await state.insert_run(zombie)
    session = await catalog.session()
    frozen = session.transaction(isolation="repeatable_read")
    await frozen.start()
    assert await session.fetchval("select count(*) from reactor.materialized_partition") == 0
    await run_committed(state, catalog, merge({"a": None}))
    with pytest.raises(asyncpg.SerializationError):
        await catalog.publish(mark(zombie), session=session, snapshot=99)
    await frozen.rollback()
    with pytest.raises(asyncpg.PostgresError, match=REFUSED):
        await catalog.commit(mark(zombie), session=session)


async def test_a_run_inserted_after_the_transaction_began_is_not_seen(state: PostgresState, catalog: Catalog) -> None:
    """Why the run row is committed before the lake transaction's first statement."""
    tokens = await start(state)
    session = await catalog.session()
    late = session.transaction(isolation="repeatable_read")
    await late.start()
    await session.fetchval("select count(*) from reactor.run")
    run = append([claim(tokens[KEY], 10)])
    await state.insert_run(run)
    with pytest.raises(asyncpg.PostgresError, match=NOT_RUNNING):
        await catalog.publish(mark(run), session=session)
    await late.rollback()
