"""The schema, forward only: `migrations/NNNN_verb_noun.sql` in order, then the functions of `commit.sql`.

Everything happens in one transaction under one advisory lock, so two replicas that start together do it once, and a start that dies
half-way has done nothing. A migration keeps the version before it running: functions keep their arguments, columns their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from asyncpg import Connection

from reactor.errors import StateForbids, UsageError
from reactor.state.queries import text

LOCK_TIMEOUT_SECONDS = 60
"""How long a start waits for another replica's migrations."""

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


async def migrate(connection: Connection) -> None:
    """Bring the schema to this binary's version. Raises `UsageError` if the database is ahead of it, or its server too old."""
    if (major := connection.get_server_version().major) < SERVER_MAJOR_MIN:
        raise UsageError(f"PostgreSQL {major} is too old for the state database", hint=f"use PostgreSQL {SERVER_MAJOR_MIN} or newer")
    async with connection.transaction():
        await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
        await connection.execute("select pg_advisory_xact_lock(hashtextextended('reactor migrations', 0))")
        await connection.execute(
            "create schema if not exists reactor; create table if not exists reactor.migration ("
            "version int primary key, name text not null, applied_at timestamptz not null default clock_timestamp())"
        )
        done = await check(connection)
        for migration in shipped()[done:]:
            await connection.execute(migration.sql)
            await connection.execute("insert into reactor.migration (version, name) values ($1, $2)", migration.version, migration.name)
        await connection.execute(text("commit.sql"))


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
