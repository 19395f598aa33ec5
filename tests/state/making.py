"""What the tests of the state are made of: runs with claims, and commits as DuckLake's last statements are."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID

import asyncpg

from reactor.domain.runs import PartitionCounts, RunId, Strategy, Trigger, new_run_id
from reactor.domain.scripts import Body, Header, Materialize, Script, ScriptPath
from reactor.domain.spans import Consumer, PositionClaim, PositionKey, SourcePartition, Token
from reactor.ports import NewPosition, NewRun, PartitionClaim, SchemaVersion, State
from reactor.state import PostgresState

ASSET = "ducklake://main/orders"
ORDERS = SourcePartition("kafka://main/orders", "0")
KEY = PositionKey(Consumer(ASSET), ORDERS)
SCHEMA = SchemaVersion((("id", "BIGINT"),), "sha256:" + 64 * "1")
OTHER_SCHEMA = SchemaVersion((("id", "BIGINT"), ("at", "DATE")), "sha256:" + 64 * "2")
NOWHERE = Token(UUID(int=0))


def run_id() -> RunId:
    return new_run_id(time.time(), os.urandom(10))


def script(asset: str = ASSET, strategy: Strategy = "append", path: str = "orders.sql") -> Script:
    return Script(ScriptPath(path), "sql", "SELECT * FROM batch", Header(materialize=Materialize(asset, strategy)), Body(reads_batch=True))


PROGRAM = Script(ScriptPath("tell.py"), "python", "print()", Header())


def trigger(run: RunId, **facts: object) -> Trigger:
    return replace(Trigger("kafka", run, run, 1, "2026-06-19T10:00:00.000Z", ""), **facts)  # type: ignore[arg-type]


def append(positions: Sequence[PositionClaim], *partitions: str, **facts: object) -> NewRun:
    """A run that appends what `batch` holds: no token of its asset partitions."""
    run = run_id()
    claims = [PartitionClaim(p, compare=False) for p in partitions or ("",)]
    made = NewRun(run, script(), Consumer(ASSET), "main", trigger(run), positions, claims, "append", SCHEMA, "SELECT 1")
    return replace(made, **facts)  # type: ignore[arg-type]


def merge(tokens: Mapping[str, Token | None], positions: Sequence[PositionClaim] = (), **facts: object) -> NewRun:
    """A run whose commit names the tokens of its asset partitions."""
    run = run_id()
    claims = [PartitionClaim(p, compare=True, believed=token) for p, token in tokens.items()]
    made = NewRun(run, script(strategy="merge"), Consumer(ASSET), "main", trigger(run), positions, claims, "merge", SCHEMA)
    return replace(made, **facts)  # type: ignore[arg-type]


def program(positions: Sequence[PositionClaim] = ()) -> NewRun:
    """A run that makes nothing."""
    run = run_id()
    return NewRun(run, PROGRAM, Consumer(PROGRAM.path), "main", trigger(run), positions, ())


async def start(state: State, *keys: PositionKey, floor: int = 0) -> dict[PositionKey, Token]:
    """Insert positions and read their tokens."""
    await state.insert_positions([NewPosition(key, floor, "routing", "earliest", "cluster/topic") for key in keys or (KEY,)])
    return {key: position.token for key, position in (await state.load(keys or (KEY,))).items()}


def claim(token: Token, floor: int, rows: Mapping[str, int | None] | None = None, key: PositionKey = KEY) -> PositionClaim:
    return PositionClaim(key, token, floor, rows or {})


def mark(run: NewRun, counts: Sequence[Sequence[int]] | None = None) -> str:
    """The commit message's extra info, as the loader sets it before COMMIT."""
    rows = counts if counts is not None else [[1, 0] for _ in run.partitions]
    return json.dumps({"reactor": 1, "run": str(run.run_id), "rows": rows}, separators=(",", ":"))


SETUP = '{"reactor":1,"setup":true}'


@dataclass
class Catalog:
    """The catalog tables of a lake, and sessions that commit to it as DuckLake does: REPEATABLE READ, snapshot first, changes last."""

    url: str
    connection: asyncpg.Connection
    schema: str = "lake_main"
    others: list[asyncpg.Connection] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def made(cls, url: str, schema: str = "lake_main") -> AsyncIterator[Catalog]:
        connection = await asyncpg.connect(url)
        await connection.execute(f"""
            create schema {schema};
            create table {schema}.ducklake_metadata (key varchar, value varchar);
            create table {schema}.ducklake_snapshot (snapshot_id bigint primary key, snapshot_time timestamptz);
            create table {schema}.ducklake_snapshot_changes (
              snapshot_id bigint primary key, changes_made varchar, author varchar, commit_message varchar, commit_extra_info varchar);
            create table {schema}.ducklake_table (
              table_id bigint, begin_snapshot bigint, end_snapshot bigint, schema_id bigint, table_name varchar);
            create table {schema}.ducklake_schema (schema_id bigint, begin_snapshot bigint, end_snapshot bigint, schema_name varchar);
            create table {schema}.ducklake_column (table_id bigint, begin_snapshot bigint, end_snapshot bigint);
            create table {schema}.ducklake_data_file (data_file_id bigint, table_id bigint, begin_snapshot bigint, end_snapshot bigint, record_count bigint);
            create table {schema}.ducklake_delete_file (data_file_id bigint, table_id bigint, begin_snapshot bigint, end_snapshot bigint, delete_count bigint);
            create table {schema}.content (run uuid);
            insert into {schema}.ducklake_snapshot values (0, now())""")
        catalog = cls(url, connection, schema)
        try:
            yield catalog
        finally:
            for each in [connection, *catalog.others]:
                await each.close()

    async def session(self) -> asyncpg.Connection:
        """One more session, closed at the end."""
        self.others.append(await asyncpg.connect(self.url))
        return self.others[-1]

    async def publish(self, text: str | None, changes: str = "inserted_into_table:1", *, session: asyncpg.Connection | None = None,
                      snapshot: int | None = None) -> int:
        """DuckLake's last statements before COMMIT, within an open transaction; the snapshot id, the next that the transaction sees."""
        connection = session or self.connection
        await connection.execute(f"insert into {self.schema}.content values (gen_random_uuid())")
        snapshot = await connection.fetchval(
            f"insert into {self.schema}.ducklake_snapshot select coalesce($1, max(snapshot_id) + 1), now() "
            f"from {self.schema}.ducklake_snapshot returning snapshot_id", snapshot)
        await connection.execute(
            f"insert into {self.schema}.ducklake_snapshot_changes values ($1, $2, 'a', '', $3)", snapshot, changes, text)
        return int(snapshot)

    async def commit(self, text: str | None, changes: str = "inserted_into_table:1", *, session: asyncpg.Connection | None = None) -> int:
        """A whole lake transaction; the snapshot id. Raises what PostgreSQL says."""
        async with (session or self.connection).transaction(isolation="repeatable_read"):
            return await self.publish(text, changes, session=session)

    async def waiting(self, sessions: int) -> None:
        """Until so many sessions of this database wait for a lock."""
        query = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        async with asyncio.timeout(10):
            while await self.connection.fetchval(query) < sessions:
                pass

    async def rows(self) -> int:
        """How many transactions have published."""
        return int(await self.connection.fetchval(f"select count(*) from {self.schema}.content"))


async def run_committed(state: PostgresState, catalog: Catalog, run: NewRun, counts: Sequence[Sequence[int]] | None = None) -> int:
    """Insert the run and commit it with a snapshot."""
    await state.insert_run(run)
    return await catalog.commit(mark(run, counts))


async def run_unchanged(state: PostgresState, run: NewRun) -> None:
    """Insert the run and complete it without a snapshot."""
    await state.insert_run(run)
    await state.complete(run.run_id, [PartitionCounts(0, 0) for _ in run.partitions])
