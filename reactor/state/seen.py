"""What `reactor doctor` asks of the database, whatever state it is in: nothing is migrated, and nothing is expected to be there."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from asyncpg import Connection

from reactor.state import migrations
from reactor.state.database import border, connect


@dataclass(frozen=True, slots=True)
class LakeSeen:
    """`version`: of the catalog's format, None if the lake is not there yet. `watched`: its commit trigger would fire."""

    version: str | None
    watched: bool


@dataclass(frozen=True, slots=True)
class DatabaseSeen:
    """`schema`: its version, 0 before the first start; `newest`: the one that this Reactor has. `clock`: POSIX seconds there, at `asked_at` here.

    `belongs_to`: installation and workspace, None before the first start.
    """

    server: str
    server_major: int
    schema: int
    newest: int
    clock: float
    asked_at: float
    belongs_to: tuple[str, str] | None
    lakes: Mapping[str, LakeSeen]


async def database_seen(url: str, lakes: Collection[str]) -> DatabaseSeen:
    """Look. Raises `Outage`, and `UsageError` for a login that is refused or a database that is not there."""
    with border():
        connection = await connect(url)
        try:
            before = time.time()
            clock = await connection.fetchval("select extract(epoch from clock_timestamp())::float8")
            asked_at = (before + time.time()) / 2
            schema = await migrations.version_of(connection)
            owner = await connection.fetchrow("select name, workspace from reactor.installation") if schema else None
            seen = {lake: await _lake(connection, lake) for lake in lakes}
            version = connection.get_server_version()
        finally:
            await connection.close()
    belongs_to = (str(owner["name"]), str(owner["workspace"])) if owner else None
    return DatabaseSeen(
        f"{version.major}.{version.minor}", version.major, schema, len(migrations.shipped()), clock, asked_at, belongs_to, seen)


async def _lake(connection: Connection, lake: str) -> LakeSeen:
    schema = f"lake_{lake}".replace('"', '""')
    if await connection.fetchval("select to_regclass($1)", f'"{schema}".ducklake_metadata') is None:
        return LakeSeen(None, watched=False)
    version = await connection.fetchval(f"select value from \"{schema}\".ducklake_metadata where key = 'version'")
    there = await connection.fetchval("select to_regproc('reactor.watched')") is not None
    return LakeSeen(str(version), watched=there and bool(await connection.fetchval("select reactor.watched($1)", lake)))
