"""Another tool's commit is noted, and never waits or fails for us."""

from __future__ import annotations

import uuid

import asyncpg
import pytest

from reactor.state import PostgresState
from tests.state.making import SETUP, Catalog, append, mark

pytestmark = pytest.mark.anyio


async def noted(catalog: Catalog) -> int:
    return int(await catalog.connection.fetchval("select count(*) from reactor.foreign_commit"))


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"reactor":1', '{"reactor":10,"run":"x"}', '{"reactor": 1,"run":null}', "not json", '{"reactor":2,'])
async def test_text_that_is_not_our_mark_is_another_tool_s(state: PostgresState, catalog: Catalog, text: str | None) -> None:
    await catalog.commit(text)
    assert await noted(catalog) == 1
    assert await state.last_snapshot("main") == 1


async def test_our_own_transactions_are_never_another_tool_s(state: PostgresState, catalog: Catalog) -> None:
    await catalog.commit(SETUP)
    run = append([], "a")
    await state.insert_run(run)
    await catalog.commit(mark(run))
    assert await noted(catalog) == 0


async def test_it_waits_for_nothing_that_we_hold(catalog: Catalog) -> None:
    session = await catalog.session()
    async with session.transaction():
        await session.execute("""
            lock table reactor.run, reactor.position, reactor.fence, reactor.outbox, reactor.queue, reactor.materialized_partition
              in access exclusive mode""")
        await catalog.connection.execute("set lock_timeout = '2s'")
        await catalog.commit(None)
    assert await noted(catalog) == 1


async def test_it_does_not_fail_when_our_body_is_broken(state: PostgresState, catalog: Catalog) -> None:
    await catalog.connection.execute("alter function reactor.complete rename to broken")
    await catalog.commit(None)
    run = append([], "a")
    await state.insert_run(run)
    with pytest.raises(asyncpg.PostgresError):
        await catalog.commit(mark(run))
    assert await noted(catalog) == await catalog.rows() == 1


async def test_it_may_come_from_a_role_that_has_no_right_on_our_tables(catalog: Catalog) -> None:
    role = f"tool_{uuid.uuid4().hex[:12]}"
    await catalog.connection.execute(f"""
        create role {role}; grant usage on schema lake_main to {role}; grant all on all tables in schema lake_main to {role}""")
    session = await catalog.session()
    await session.execute(f"set role {role}")
    await catalog.commit(None, session=session)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await session.fetch("select * from reactor.foreign_commit")
    await session.execute("reset role")
    await catalog.connection.execute(f"drop owned by {role}; drop role {role}")
    assert await noted(catalog) == 1


async def test_a_snapshot_id_may_come_twice(state: PostgresState, catalog: Catalog) -> None:
    """A catalog that was restored alone counts on from where it was."""
    for _ in range(2):
        await catalog.commit(None)
        await catalog.connection.execute("""
            delete from lake_main.ducklake_snapshot_changes; delete from lake_main.ducklake_snapshot where snapshot_id > 0""")
    assert await noted(catalog) == 2
    assert await state.outbox_next() == 0
