"""What a lake's catalog is asked for: its commit trigger, its newest snapshot, and the lock around COMMIT."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg
from asyncpg import Connection

from reactor.domain.runs import RunId
from reactor.errors import Conflict, LakeHalted, StateForbids
from reactor.state.database import Database, Part, border, connect, statement


@dataclass(slots=True)
class _LockSession:
    """A connection that only holds the commit lock of one lake, one task at a time.

    The lock is of a transaction: PostgreSQL ends one that is idle for `IDLE_IN_TRANSACTION_SECONDS`, so a process that was stopped while it
    held the lock makes the others wait once, and not at each of their commits.
    """

    url: str
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None

    async def queue(self, timeout_seconds: float) -> bool:
        """Wait for the tasks of this process; False: not had in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self.turn.acquire()
        except TimeoutError:
            return False

    async def take(self, lake: str, timeout_seconds: float) -> bool:
        """False: not had in time. Raises driver errors; the connection is closed then, and with it goes the lock."""
        try:
            if self.connection is None or self.connection.is_closed():
                self.connection = await connect(self.url)
            await self.connection.execute(f"begin; set local lock_timeout = '{max(1, round(timeout_seconds * 1000))}ms'")
            await self.connection.execute("select pg_advisory_xact_lock(hashtextextended('reactor commit ' || $1, 0))", lake)
        except asyncpg.LockNotAvailableError:
            return False
        except BaseException:
            self.close()
            raise
        return True

    async def give_back(self) -> None:
        """Never raises for a connection that is gone: the lock went with it."""
        try:
            if self.connection is not None:
                await self.connection.execute("rollback")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
            self.close()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.terminate()
            self.connection = None


class Lakes(Part):
    """Catalog schemas `lake_<name>`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._locks: dict[str, _LockSession] = {}

    async def watch_lake(self, lake: str, *, watch_external: bool) -> None:
        """Put the commit trigger on a lake's catalog, which DuckLake has made by then. Raises `StateForbids` if it is not there."""
        await self._db.value("watch_lake", lake, watch_external)

    async def account(self, lake: str) -> Sequence[tuple[RunId, int]]:
        """Complete the runs whose rows a snapshot published without the trigger, as it would have: (run, snapshot). At start (commit.md 6).

        Exact, because their tokens are compared: raises `LakeHalted` where something else was committed since.
        """
        done = []
        for row in await self._db.rows("unaccounted", lake=lake):
            try:
                async with self._db.transaction() as connection:
                    await connection.execute(statement("account"), row["run_id"])  # a run whose replica fell silent was given up
                    await connection.execute(
                        statement("complete_published"), row["run_id"], row["counts"], lake, row["snapshot_id"], row["snapshot_time"])
            except Conflict:
                if row["run_id"] not in {left["run_id"] for left in await self._db.rows("unaccounted", lake=lake)}:
                    continue  # another replica did it
                raise LakeHalted(
                    f"snapshot {row['snapshot_id']} of lake {lake} was published without its commit trigger by run {row['run_id']}, and other commits "
                    "have followed: its rows may be there twice.",
                    hint=f"mend the table by hand, then forget the run: DELETE FROM reactor.run WHERE id = '{row['run_id']}'",
                ) from None
            done.append((RunId(row["run_id"]), int(row["snapshot_id"])))
        return done

    async def watched(self, lake: str) -> bool:
        """Whether the commit trigger is there and always fires."""
        return bool(await self._db.value("watched", lake))

    async def catalog_version(self, lake: str) -> str | None:
        """The version of DuckLake's format that its catalog has; None: there is no such lake yet."""
        try:
            return str(await self._db.value("catalog_version", lake=lake))
        except StateForbids:
            return None

    async def last_snapshot(self, lake: str) -> int:
        """The newest snapshot id of a lake."""
        return int(await self._db.value("last_snapshot", lake=lake))

    @asynccontextmanager
    async def commit_lock(self, lake: str, timeout_seconds: float) -> AsyncIterator[bool]:
        """The advisory lock around COMMIT, over all replicas; False: it was not had in time (go on: the token keeps the truth)."""
        session = self._locks.setdefault(lake, _LockSession(self._db.url))
        if not await session.queue(timeout_seconds):
            yield False
            return
        try:
            with border():
                held = await session.take(lake, timeout_seconds)
            try:
                yield held
            finally:
                await session.give_back()
        finally:
            session.turn.release()

    def close_locks(self) -> None:
        """Close the connections that held commit locks."""
        for session in self._locks.values():
            session.close()
