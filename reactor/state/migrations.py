"""The schema, forward only: `migrations/NNNN_verb_noun.sql` in order, then the functions of `commit.sql`.

Everything happens in one transaction under one advisory lock, so two replicas that start together do it once, and a start that dies
half-way has done nothing. A migration keeps the version before it running: functions keep their arguments, columns their meaning.

Those replicas work meanwhile, and must not be the ones that pay for a deadlock: whoever reads two tables may hold one that the migration wants
while it waits for another. So all tables are locked first, in the order in which a commit does, and if that takes longer than PostgreSQL lets a
deadlock stand, the migration steps back and tries again.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from asyncpg import Connection, DeadlockDetectedError, QueryCanceledError

from reactor.errors import StateForbids, UsageError
from reactor.state.queries import text

LOCK_TIMEOUT_SECONDS = 60
"""How long a start waits for another replica's migrations."""

LOCKED_MILLISECONDS_MAX = 500
"""For all table locks together: PostgreSQL looks for a deadlock after a second (`deadlock_timeout`)."""
STEP_BACK_SECONDS, ATTEMPTS_MAX = 0.5, 100
COMMIT_ORDER = ("run", "position", "fence", "materialized_partition", "materialized_asset_schema", "join_event", "outbox")
"""The order in which a commit takes its tables: who waits for it there waits for no one else."""

SERVER_MAJOR_MIN = 14
"""`create or replace trigger` came with it."""

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. Versions count from 1 without holes."""

    version: int
    name: str
    sql: str


def shipped() -> Sequence[Migration]:
    """All migrations of this binary, in order."""
    folder = files(__package__).joinpath("migrations")
    found = sorted(match.groups() for entry in folder.iterdir() if (match := _FILE.fullmatch(entry.name)))
    return [Migration(int(number), name, text(f"migrations/{number}_{name}.sql")) for number, name in found]


async def migrate(connection: Connection) -> Sequence[Migration]:
    """Bring the schema to this binary's version; what had to be done. Raises `UsageError` if the database is ahead of it, or its server too old."""
    if (major := connection.get_server_version().major) < SERVER_MAJOR_MIN:
        raise UsageError(f"PostgreSQL {major} is too old for the state database", hint=f"use PostgreSQL {SERVER_MAJOR_MIN} or newer")
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            return await _migrate(connection)
        except (QueryCanceledError, DeadlockDetectedError):
            if attempt == ATTEMPTS_MAX:
                raise
            await asyncio.sleep(random.uniform(0.5, 1.5) * STEP_BACK_SECONDS)  # noqa: S311 - jitter
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _migrate(connection: Connection) -> Sequence[Migration]:
    async with connection.transaction():
        await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
        await connection.execute("select pg_advisory_xact_lock(hashtextextended('reactor migrations', 0))")
        await connection.execute(
            "create schema if not exists reactor; create table if not exists reactor.migration ("
            "version int primary key, name text not null, applied_at timestamptz not null default clock_timestamp())"
        )
        needed = await pending(connection)
        if needed:
            await _lock_tables(connection)
        for migration in needed:
            await connection.execute(migration.sql)
            await connection.execute("insert into reactor.migration (version, name) values ($1, $2)", migration.version, migration.name)
        await connection.execute(text("commit.sql"))
    return needed


async def _lock_tables(connection: Connection) -> None:
    """All that there are. Raises `QueryCanceledError` if they cannot be had together soon."""
    there = [row["tablename"] for row in await connection.fetch("select tablename from pg_tables where schemaname = 'reactor' order by 1")]
    ordered = sorted(there, key=lambda name: COMMIT_ORDER.index(name) if name in COMMIT_ORDER else len(COMMIT_ORDER))
    await connection.execute(f"set local statement_timeout = {LOCKED_MILLISECONDS_MAX}")
    await connection.execute(f"lock table {', '.join(f'reactor.{name}' for name in ordered)} in access exclusive mode")
    await connection.execute("set local statement_timeout = 0")


async def pending(connection: Connection) -> Sequence[Migration]:
    """The migrations that `migrate` would make. Raises `UsageError` if the schema is newer than this binary."""
    return shipped()[await check(connection):]


async def require(connection: Connection) -> None:
    """Change nothing. Raises `StateForbids` if the schema is behind this binary's version, `UsageError` if it is ahead."""
    if (done := await check(connection)) < len(shipped()):
        raise StateForbids(
            f"the state database has schema version {done}, this version of Reactor needs {len(shipped())}",
            hint="`reactor migrate`, or the start of `reactor serve`, brings it there",
        )


async def version_of(connection: Connection) -> int:
    """The version of the schema; 0: there is none."""
    if await connection.fetchval("select to_regclass('reactor.migration')") is None:
        return 0
    return int(await connection.fetchval("select coalesce(max(version), 0) from reactor.migration"))


async def check(connection: Connection) -> int:
    """The version of the schema. Raises `UsageError` if it is newer than this binary."""
    done = await version_of(connection)
    known = len(shipped())
    if done > known:
        raise UsageError(
            f"the state database has schema version {done}, this version of Reactor knows {known}",
            hint="run the newer version of Reactor, or restore the database from before its migration",
        )
    return done
