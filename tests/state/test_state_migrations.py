"""The schema: forward only, once over all replicas, refused by what is older; and the names that are fixed at the first start."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from reactor.domain.spans import Token
from reactor.errors import Outage, StateForbids, UsageError
from reactor.state import PostgresState, migrations
from reactor.state.database import statement
from reactor.state.migrations import Migration, shipped
from reactor.state.queries import QUERIES, named
from tests.state.making import Catalog, merge, run_committed, run_unchanged

pytestmark = pytest.mark.anyio


async def opened(url: str, workspace: str = "prod", installation: str = "local") -> None:
    state = await PostgresState.open(url, installation=installation, workspace=workspace)
    await state.close()


async def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def test_a_second_start_changes_nothing(database: str) -> None:
    await opened(database)
    before = await fetch(database, "select * from reactor.migration")
    await opened(database)
    assert await fetch(database, "select * from reactor.migration") == before
    assert await fetch(database, "select name, next from reactor.queue order by 1") == [("inbox://prod", 0), ("outbox://prod", 0)]


async def test_replicas_that_start_together_migrate_once(database: str) -> None:
    await asyncio.gather(*(opened(database) for _ in range(5)))
    assert [version for version, *_ in await fetch(database, "select version from reactor.migration")] == [m.version for m in shipped()]


async def test_a_binary_older_than_the_schema_refuses(database: str) -> None:
    await opened(database)
    await fetch(database, "insert into reactor.migration (version, name) values (999, 'from_the_future')")
    with pytest.raises(UsageError, match="schema version 999"):
        await opened(database)


async def test_a_migration_that_fails_has_done_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = shipped()
    bad = Migration(len(good) + 1, "break_it", "create table reactor.half (a int); select nonsense")
    monkeypatch.setattr(migrations, "shipped", lambda: [*good, bad])
    with pytest.raises(Exception, match="nonsense"):
        await opened(database)
    assert await fetch(database, "select count(*) from pg_namespace where nspname = 'reactor'") == [(0,)]


async def test_the_version_before_keeps_running_over_a_migration(
    state: PostgresState, catalog: Catalog, database: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its sessions and those of its DuckDB have plans of then."""
    good = shipped()
    new = Migration(len(good) + 1, "add_note", "alter table reactor.run add column note text; alter table reactor.outbox add column note text")
    token = None
    for _ in range(3):
        run = merge({"a": token})
        await run_committed(state, catalog, run)
        token = Token(run.run_id)
        await run_unchanged(state, merge({}))
        await state.runs()
        await state.read_outbox(0, 10)
        monkeypatch.setattr(migrations, "shipped", lambda: [*good, new])
        await opened(database)
    assert [e.partition for e in await state.read_outbox(0, 10)] == ["a", "a", "a"]
    monkeypatch.undo()
    with pytest.raises(UsageError, match="this version of Reactor knows"):
        await opened(database)


async def test_who_only_looks_changes_nothing_and_needs_the_schema(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def looked() -> None:
        state = await PostgresState.open(database, installation="local", workspace="prod", migrating=False)
        await state.close()

    with pytest.raises(StateForbids):
        await looked()
    assert await fetch(database, "select count(*) from pg_namespace where nspname = 'reactor'") == [(0,)]
    await opened(database)
    await looked()
    good = shipped()
    monkeypatch.setattr(migrations, "shipped", lambda: [*good, Migration(len(good) + 1, "add_note", "")])
    with pytest.raises(StateForbids, match="reactor migrate"):
        await looked()


async def test_a_server_that_is_too_old_is_named(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "SERVER_MAJOR_MIN", 99)
    with pytest.raises(UsageError, match="too old"):
        await opened(database)


def test_migrations_are_numbered_without_a_hole() -> None:
    assert [m.version for m in shipped()] == list(range(1, len(shipped()) + 1))


@pytest.mark.parametrize(("installation", "workspace"), [("local", "dev"), ("other", "prod")])
async def test_installation_and_workspace_are_fixed_at_the_first_start(database: str, installation: str, workspace: str) -> None:
    await opened(database)
    with pytest.raises(UsageError, match="fixed at the first start"):
        await opened(database, workspace, installation)
    await opened(database)


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/nowhere", "postgresql://nobody.invalid/x"])
async def test_a_server_that_does_not_answer_is_an_outage(url: str) -> None:
    with pytest.raises(Outage):
        await opened(url)


async def test_a_database_that_is_not_there_is_a_wrong_setting(database: str) -> None:
    for url in (database + "_not", "postgresql://a:b:c/x?sslmode=nonsense"):
        with pytest.raises(UsageError):
            await opened(url)


async def answers(state: PostgresState) -> bool:
    try:
        await state.heartbeat()
    except Outage:
        return False
    return True


async def test_sessions_that_were_cut_are_an_outage_and_then_made_anew(database: str) -> None:
    state = await PostgresState.open(database, installation="local", workspace="prod")
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    for _ in range(3):
        await fetch(database, cut)
        async with asyncio.timeout(10):
            while not await answers(state):
                pass
    await state.close()


async def test_a_session_waits_for_a_lock_only_so_long(database: str) -> None:
    state = await PostgresState.open(database, installation="local", workspace="prod")
    names = "'lock_timeout', 'idle_in_transaction_session_timeout', 'TimeZone', 'default_transaction_isolation'"
    async with state._db.transaction() as connection:
        settings = {row["name"]: row["setting"] for row in await connection.fetch(f"select name, setting from pg_settings where name in ({names})")}
    assert settings == {
        "lock_timeout": "10000", "idle_in_transaction_session_timeout": "5000", "TimeZone": "UTC", "default_transaction_isolation": "read committed"}
    await state.close()


def test_statements_are_found_by_name() -> None:
    source = "-- about the file\n-- name: one\nselect 1\n-- why\n\n-- name: two\nselect 2\n"
    assert named(source) == {"one": "select 1\n-- why", "two": "select 2"}


async def test_every_statement_is_understood_by_the_database(catalog: Catalog) -> None:
    for name in QUERIES:
        await catalog.connection.prepare(statement(name, "main"))
