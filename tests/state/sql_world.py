"""The lives of `tests/properties/world.py` on the real SQL: `Store` is PostgreSQL, commits go through the trigger, the engine is the engine.

The rows of the lake stand in a plain table that is written in the same transaction. A commit that is still on its way is an open REPEATABLE
READ transaction with the snapshot of then; it goes on when the life says so, and is repeated once in a new transaction, as DuckLake does.
Nobody is told of commits here: what the outbox owes has tests of its own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from reactor.domain.runs import PartitionCounts, RunId, Strategy, Trigger
from reactor.domain.spans import Consumer, PositionClaim, PositionKey, SourcePartition, Token
from reactor.errors import Conflict
from reactor.ports import NewPosition, NewRun, PartitionClaim
from reactor.state import PostgresState
from reactor.state.database import connect
from reactor.state.positions import claim_json
from tests.properties.replica import Replica
from tests.properties.scene import ASSET, SLICES, TOPIC, fingerprint, script
from tests.properties.store import Store, Stored
from tests.properties.world import Verdict, World, walk
from tests.state.making import mark

Result = TypeVar("Result")
Claims = tuple[PositionClaim, ...]
Transaction = tuple[asyncpg.Connection, Any]

TABLES = ("position", "fence", "run", "materialized_partition", "materialized_asset_schema", "outbox")
LAKE = """
    create schema lake_main;
    create table lake_main.ducklake_snapshot (snapshot_id bigint primary key, snapshot_time timestamptz);
    create table lake_main.ducklake_snapshot_changes (
      snapshot_id bigint primary key, changes_made varchar, author varchar, commit_message varchar, commit_extra_info varchar);
    insert into lake_main.ducklake_snapshot values (0, now());
    create table lake_main.merged (slice text, run uuid, a int, b int);
    create table lake_main.delivered (number text, life uuid, started bigint, place bigint, slice text)"""


class Server:
    """One database for many lives, and the event loop that asks it."""

    def __init__(self, url: str) -> None:
        self.runner, self.url, self.snapshots = asyncio.Runner(), url, itertools.count(1)
        self.state = self.run(PostgresState.open(url, installation="local", workspace="prod"))
        self.connection = self.run(connect(url))
        self.idle: list[asyncpg.Connection] = []
        self.execute(LAKE)
        self.run(self.state.watch_lake("main", watch_external=False))

    def run(self, ask: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(ask)

    def execute(self, sql: str, *args: object) -> None:
        self.run(self.connection.execute(sql, *args))

    def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        return list(self.run(self.connection.fetch(sql, *args)))

    def begin(self) -> Transaction:
        """A transaction that sees the world of now."""
        session = self.idle.pop() if self.idle else self.run(asyncpg.connect(self.url))
        transaction = session.transaction(isolation="repeatable_read")
        self.run(transaction.start())
        self.run(session.fetchval("select count(*) from reactor.position"))
        return session, transaction

    def end(self, open_: Transaction, *, commit: bool) -> None:
        session, transaction = open_
        self.run(transaction.commit() if commit else transaction.rollback())
        self.idle.append(session)

    def empty(self) -> None:
        tables = (*(f"reactor.{name}" for name in TABLES), "lake_main.merged", "lake_main.delivered")
        self.execute("; ".join(f"delete from {table}" for table in tables))

    def close(self) -> None:
        for session in [*self.idle, self.connection]:
            self.run(session.close())
        self.run(self.state.close())
        self.runner.close()


@dataclass(frozen=True)
class Backup:
    """The rows of every table, as JSON."""

    tables: Mapping[str, Any]
    lives: dict[SourcePartition, tuple[UUID, int]]


@dataclass
class OnItsWay:
    """What `World` keeps of a commit that was cut off."""

    transaction: Transaction
    args: tuple[Any, ...]


class SqlStore(Store):
    """`Store`, asked of PostgreSQL."""

    def __init__(self, world: SqlWorld, sources: int) -> None:
        self.world, self.server, self.state = world, world.server, world.server.state
        self.lives: dict[SourcePartition, tuple[UUID, int]] = {}
        partitions = [world.partition(p) for p in range(sources)]
        self.server.run(self.state.insert_positions(
            [NewPosition(PositionKey(Consumer(ASSET), p), 0, fingerprint(0), "earliest", "0") for p in partitions]))
        for p in partitions:
            self.lives[p] = (UUID(int=0), 0)

    # -- what a replica looks at

    @property
    def rows(self) -> dict[SourcePartition, Stored]:  # type: ignore[override]
        found = self.server.run(self.state.positions(ASSET))
        return {key.source_partition: Stored(position, self.lives[key.source_partition]) for key, position in found.items()}

    @property
    def partition_token(self) -> Mapping[str, UUID | None]:  # type: ignore[override]
        slices = [str(d) for d in range(SLICES)]
        return self.server.run(self.state.partition_tokens(ASSET, slices)).tokens

    @property
    def table(self) -> dict[str, dict[tuple[UUID, Any], Any]]:  # type: ignore[override]
        found: dict[str, dict[tuple[UUID, Any], Any]] = {}
        for slice_, run, a, b in self.server.fetch("select slice, run, a, b from lake_main.merged"):
            assert (run, (a, b)) not in found.setdefault(slice_, {})
            found[slice_][run, (a, b)] = (a, b)
        return found

    @property
    def delivered(self) -> list[tuple[SourcePartition, tuple[UUID, int], int, str]]:  # type: ignore[override]
        return [
            (SourcePartition(TOPIC, number), (life, started), place, slice_)
            for number, life, started, place, slice_ in self.server.fetch("select * from lake_main.delivered")]

    @property
    def completed(self) -> SqlStore:  # type: ignore[override]
        return self

    @property
    def aborted(self) -> SqlStore:  # type: ignore[override]
        return self

    def __contains__(self, run: UUID) -> bool:
        return self.server.run(self.state.verdict(RunId(run), "main", 0)).kind == "completed"

    def add(self, run: UUID) -> None:
        self.server.run(self.state.abort(RunId(run)))

    # -- what changes it

    def settle(self, claims: Claims, run: UUID) -> dict[PositionKey, Any]:
        refused = self.server.fetch(
            "select source_partition from reactor.settle($1, $2)", run, [claim_json(claim) for claim in claims])
        stored = self.rows
        numbers = {row["source_partition"] for row in refused}
        return {c.key: stored[c.key.source_partition].position for c in claims if c.key.source_partition.number in numbers}

    def reset(self, p: SourcePartition, run: UUID, floor: int, topic: str) -> None:
        assert self.server.run(self.state.reset(PositionKey(Consumer(ASSET), p), floor, topic, f"offset {floor}", "the life says so"))
        self.lives[p] = (run, floor)

    def switch(self, key: PositionKey, run: UUID, believed: UUID, routing: str) -> bool:  # noqa: ARG002 (it has its own)
        return self.server.run(self.state.switch(key, Token(believed), routing))

    def commit(self, run: UUID, claims: Claims, partitions: dict[str, UUID | None], diff: list[Any], rows: list[Any]) -> str:
        args = run, claims, partitions, diff, rows
        self.prepare(args)
        return self.finish(args, self.server.begin())

    def prepare(self, args: tuple[Any, ...]) -> None:
        """The run row, committed before the lake transaction's first statement."""
        self.server.run(self.state.insert_run(self.new_run(*args)))

    def finish(self, args: tuple[Any, ...], transaction: Transaction) -> str:
        run = self.new_run(*args)
        try:
            changed = self.server.run(self.write(run, args[3], args[4], transaction[0]))
        except asyncpg.SerializationError:
            self.server.end(transaction, commit=False)
            return self.finish(args, self.server.begin())
        except asyncpg.PostgresError as error:
            self.server.end(transaction, commit=False)
            return self.word(str(error))
        self.server.end(transaction, commit=bool(changed))
        if changed is None:
            return "conflict"
        try:
            if not changed:
                self.server.run(self.state.complete(run.run_id, [PartitionCounts(0, 0) for _ in run.partitions]))
        except Conflict as error:
            return self.word(str(error))
        return "committed"

    @staticmethod
    def word(error: str) -> str:
        code, _, what = error.removeprefix("reactor ").partition(": ")
        assert code in {"RF001", "RF002"}, error
        return f"{code} partition" if what == "asset partition" else code

    def new_run(self, run: UUID, claims: Claims, partitions: dict[str, UUID | None], diff: list[Any], rows: list[Any]) -> NewRun:
        del diff
        text = script(0, merge=self.world.merge)
        appended = [PartitionClaim(d, compare=False) for d in sorted({d for _, _, d in rows})]
        merged = [PartitionClaim(d, compare=True, believed=Token(token) if token else None) for d, token in partitions.items()]
        why = Trigger("kafka", RunId(run), RunId(run), 1, "2026-06-19T10:00:00.000Z", "")
        strategy: Strategy = "merge" if self.world.merge else "append"
        return NewRun(RunId(run), text, Consumer(ASSET), "main", why, claims, merged or appended, strategy)

    async def write(self, run: NewRun, diff: list[Any], rows: list[Any], session: asyncpg.Connection) -> bool | None:
        """The lake transaction: its rows, then the mark. False: nothing was written; None: a row that it deletes is gone."""
        conflict = False
        for slice_, deleted, inserted in diff:
            for row_run, (a, b) in deleted:
                gone = await session.execute(
                    "delete from lake_main.merged where slice = $1 and run = $2 and a = $3 and b = $4", slice_, row_run, a, b)
                conflict |= gone == "DELETE 0"
            await session.executemany(
                "insert into lake_main.merged values ($1, $2, $3, $4)", [(slice_, row_run, a, b) for row_run, (a, b) in inserted])
        await session.executemany("insert into lake_main.delivered values ($1, $2, $3, $4, $5)", [
            (p.number, *self.lives[p], place, slice_) for p, place, slice_ in rows])
        if not rows:
            return False
        snapshot = next(self.server.snapshots)
        await session.execute("insert into lake_main.ducklake_snapshot values ($1, now())", snapshot)
        await session.execute("insert into lake_main.ducklake_snapshot_changes values ($1, '', 'reactor', '', $2)", snapshot, mark(run))
        return None if conflict else True

    # -- backups

    def backup(self) -> Backup:
        names = [*(f"reactor.{name}" for name in TABLES[:4]), "lake_main.merged", "lake_main.delivered"]
        rows = {name: self.server.fetch(f"select coalesce(jsonb_agg(to_jsonb(t)), '[]') from {name} t")[0][0] for name in names}
        return Backup(rows, dict(self.lives))

    @classmethod
    def restored(cls, world: SqlWorld, backup: Backup) -> SqlStore:
        store = cls.__new__(cls)
        store.world, store.server, store.state, store.lives = world, world.server, world.server.state, dict(backup.lives)
        store.server.empty()
        for name, rows in backup.tables.items():
            store.server.execute(f"insert into {name} select * from jsonb_populate_recordset(null::{name}, $1)", rows)
        return store


class SqlWorld(World):
    """A life on PostgreSQL."""

    def __init__(self, seed: int, server: Server) -> None:
        super().__init__(seed)
        self.server = server
        server.empty()
        self.store = SqlStore(self, len(self.topic))
        self.replicas = [Replica(self)]
        self.dumps: list[Backup] = []
        self.on_its_way = Late(self)

    def backup(self, _x: Replica, _p: int) -> None:
        assert isinstance(self.store, SqlStore)
        self.dumps.append(self.store.backup())

    def restore(self, _x: Replica, _p: int) -> None:
        if self.dumps:
            self.store = SqlStore.restored(self, self.r.choice(self.dumps))
            self.restores += 1

    def arrive(self, _x: Replica, _p: int) -> None:
        if self.on_its_way:
            where, args = self.on_its_way.pop(self.r.randrange(len(self.on_its_way)))
            assert isinstance(args, OnItsWay)
            assert isinstance(where, SqlStore)
            if where is self.store:
                where.finish(args.args, args.transaction)
            else:
                self.server.end(args.transaction, commit=False)

    def tell(self, _x: Replica, _p: int) -> None:
        """Nobody is."""

    def listen(self, _x: Replica) -> None:
        """Nobody does."""

    def end(self) -> None:
        for _, args in self.on_its_way:
            assert isinstance(args, OnItsWay)
            self.server.end(args.transaction, commit=False)


class Late(list[Any]):
    """A commit that is cut off has begun: its run row stands, and its transaction sees the world of then."""

    def __init__(self, world: SqlWorld) -> None:
        super().__init__()
        self.world = world

    def append(self, cut: Any) -> None:
        store, args = cut
        store.prepare(args)
        super().append((store, OnItsWay(self.world.server.begin(), args)))


def live(seed: int, server: Server) -> tuple[SqlWorld, Verdict]:
    world = SqlWorld(seed, server)
    try:
        return world, walk(world)
    finally:
        world.end()


@contextmanager
def server(url: str) -> Iterator[Server]:
    """A server on an empty database."""
    opened = Server(url)
    try:
        yield opened
    finally:
        opened.close()
