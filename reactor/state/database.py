"""The pool, the names that stand in every row, and the border where PostgreSQL's errors become ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg
from asyncpg import Connection, Pool, Record
from asyncpg.pool import PoolConnectionProxy

from reactor.errors import Conflict, Fatal, Outage, ReactorError, StateForbids, UsageError
from reactor.state import migrations
from reactor.state.migrations import Migration, migrate, require
from reactor.state.queries import QUERIES

CONNECT_TIMEOUT_SECONDS = 10.0
COMMAND_TIMEOUT_SECONDS = 30.0
"""A statement without an answer for so long is an outage."""
LOCK_TIMEOUT_SECONDS = 10
"""Longer than the 5 s after which a commit that does not go on is thrown out, so that an abort gets its answer."""
IDLE_IN_TRANSACTION_SECONDS = 5

T = TypeVar("T")

_SESSION = {
    "application_name": "reactor", "timezone": "UTC", "jit": "off", "default_transaction_isolation": "read committed",
    "lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s", "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
}

_CONFLICTS = frozenset({"RF001", "RF002", "40001", "40P01", "23505"})
_OUTAGES = frozenset({"25006", "25P03", "55000", "55P03", "57014", "57P01", "57P02", "57P03", "57P05"})
"""Read-only (a standby), idle time-out, a database that is closed to connections, lock time-out, cancelled, shutting down, crashed, starting up."""
_OUTAGE_CLASSES = frozenset({"08", "53", "58"})
"""Connection, resources, the server's system."""
_USAGE = frozenset({"42501"})
_USAGE_CLASSES = frozenset({"22", "28", "3D"})
"""A right that is missing; a value that the database cannot keep, a login it refuses, a database that is not there."""
_FORBIDS = frozenset({"3F000", "42P01"})
"""A catalog that is not there."""

_DRIVER = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""The middle two are how a session that was cut shows, if it is noticed between two messages."""


def translated(error: BaseException) -> ReactorError:
    """What the caller does next (by SQLSTATE; the text may quote a user)."""
    state = getattr(error, "sqlstate", None)
    if not isinstance(error, asyncpg.PostgresError) or state is None:
        return Outage(f"PostgreSQL does not answer: {error or type(error).__name__}")
    if state in _CONFLICTS:
        return Conflict(str(error))
    if state in _OUTAGES or state[:2] in _OUTAGE_CLASSES:
        return Outage(f"PostgreSQL: {error}")
    if state in _USAGE or state[:2] in _USAGE_CLASSES:
        return UsageError(f"PostgreSQL: {error}")
    return StateForbids(f"PostgreSQL: {error}") if state in _FORBIDS else Fatal(f"PostgreSQL: {error}")


@contextmanager
def border() -> Iterator[None]:
    """Errors of the driver leave as errors of the house."""
    try:
        yield
    except _DRIVER as error:
        raise translated(error) from error


@dataclass(frozen=True, slots=True)
class Identity:
    """Names of this installation: event ids hash the first two, so they are fixed at the first start. `replica` is this process."""

    installation: str
    workspace: str
    replica: str


@dataclass(frozen=True, slots=True)
class Database:
    """Named statements against one database."""

    url: str
    identity: Identity
    pool: Pool

    @classmethod
    async def open(cls, url: str, identity: Identity, *, pool_size_max: int, migrating: bool) -> Database:
        """Migrate (or see that it is done), compare the identity, connect. Raises `UsageError`, `StateForbids`, `Outage`."""
        await (migrated(url, identity) if migrating else _opened(url, identity, require))
        with border():
            pool = await asyncpg.create_pool(
                url, min_size=1, max_size=pool_size_max, init=_codecs, reset=_as_it_is, server_settings=_SESSION,
                timeout=CONNECT_TIMEOUT_SECONDS, command_timeout=COMMAND_TIMEOUT_SECONDS)
        return cls(url, identity, pool)

    async def rows(self, name: str, *args: object, lake: str | None = None) -> list[Record]:
        """All rows of a named statement; `lake` fills in its catalog."""
        with border():
            return list(await self.pool.fetch(statement(name, lake), *args))

    async def row(self, name: str, *args: object, lake: str | None = None) -> Record | None:
        """The first row, if there is one."""
        return next(iter(await self.rows(name, *args, lake=lake)), None)

    async def one(self, name: str, *args: object, lake: str | None = None) -> Record:
        """The row of a statement that always has one."""
        return (await self.rows(name, *args, lake=lake))[0]

    async def value(self, name: str, *args: object, lake: str | None = None) -> Any:  # noqa: ANN401 (a column of any type)
        """The first column of the first row, None without one."""
        row = await self.row(name, *args, lake=lake)
        return row and row[0]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PoolConnectionProxy]:
        """Several statements at once."""
        with border():
            async with self.pool.acquire() as connection, connection.transaction():
                yield connection


async def migrated(url: str, identity: Identity) -> Sequence[Migration]:
    """Migrate and compare the identity; the migrations that had to be made. Raises `UsageError`, `Outage`."""
    return await _opened(url, identity, migrate)


async def _opened(url: str, identity: Identity, act: Callable[[Connection], Awaitable[T]]) -> T:
    """Do something in a session of its own, then compare the identity."""
    with border():
        connection = await connect(url)
        try:
            done = await act(connection)
            await _fix(connection, identity)
        finally:
            await connection.close()
    return done


async def pending(url: str) -> Sequence[Migration]:
    """The migrations that would be made. Raises `UsageError` if the schema is newer than this binary; `Outage`."""
    with border():
        connection = await connect(url)
        try:
            return await migrations.pending(connection)
        finally:
            await connection.close()


class Part:
    """A part of the state: it asks one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def _workspace(self) -> str:
        return self._db.identity.workspace


def statement(name: str, lake: str | None = None) -> str:
    """The text of a named statement; `lake` fills in its catalog's schema."""
    if lake is None:
        return QUERIES[name]
    schema = f"lake_{lake}".replace('"', '""')
    return QUERIES[name].replace("{catalog}", f'"{schema}"')


async def connect(url: str) -> Connection:
    """A connection outside the pool, with the same settings. Raises errors of the driver, and `UsageError` for a URL that is none."""
    try:
        connection = await asyncpg.connect(
            url, server_settings=_SESSION, timeout=CONNECT_TIMEOUT_SECONDS, command_timeout=COMMAND_TIMEOUT_SECONDS)
    except ValueError:  # its text quotes the URL, and that may hold a password
        raise UsageError("the URL of the state database cannot be read", hint="postgresql://user:password@host:5432/database") from None
    await _codecs(connection)
    return connection


async def _codecs(connection: Connection) -> None:
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)


async def _as_it_is(_connection: Connection) -> None:
    """No statement of this room leaves anything in its session, and resetting it would be a second way to every answer."""


async def _fix(connection: Connection, identity: Identity) -> None:
    stored, *_ = await connection.fetch(QUERIES["fix_installation"], identity.installation, identity.workspace)
    if (stored["name"], stored["workspace"]) != (identity.installation, identity.workspace):
        raise UsageError(
            f"this database belongs to installation {stored['name']!r}, workspace {stored['workspace']!r}; "
            f"the settings say {identity.installation!r}, {identity.workspace!r}",
            hint="both are fixed at the first start, because event ids are made from them: set them back, or use another database",
        )
