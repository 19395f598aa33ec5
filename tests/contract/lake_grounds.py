"""Lakes with their state for the contract of the lake, in memory and on DuckLake with PostgreSQL, and runs through both ports."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

from anyio import to_thread

from reactor.domain.assets import LakeTable
from reactor.domain.runs import Strategy, Trigger
from reactor.domain.scripts import Script
from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, SourcePartition, Token
from reactor.lake.ducklake import DuckLake
from reactor.lake.rows import Rows
from reactor.lake.session import LakeSettings
from reactor.ports import Lake, NewPosition, NewRun, PartitionClaim, SliceInput, Staged, StageOrder, State, Written
from reactor.state import PostgresState
from reactor.testing import MemoryDatabase, MemoryLake, MemoryState
from tests.lake.driving import DYNAMIC, Bench, a_run, managed
from tests.parts.cut_commit import CommitCutter

Made = tuple[object, ...]
"""A row of these tests: (id, text)."""
Content = Mapping[str, Sequence[Made]]
"""What a script's SELECT gives: asset partition → rows."""
SHARED = "ducklake://main/shared"
"""A table with slices; each test has slices of its own in it."""


class LakeGround(Protocol):
    """A lake `main` and its state. `contents`: text of a script → what its SELECT gives."""

    state: State
    contents: dict[str, Content]

    @property
    def lake(self) -> Lake: ...

    def lose_answer(self) -> None:
        """The next COMMIT happens, and its answer is lost."""
        ...

    async def rows(self, asset: str) -> Sequence[tuple[str, Made]]:
        """All rows of a table, as (asset partition, row), in order; the asset partition is empty where the table has none."""
        ...

    async def swap(self, asset: str) -> None:
        """Somebody puts another table of that name there, with the same columns."""
        ...


class MemoryLakes:
    """`LakeGround` of the shipped fakes."""

    def __init__(self) -> None:
        self.database, self.contents = MemoryDatabase(), dict[str, Content]()
        self.state: State = MemoryState(self.database)
        self.lake = MemoryLake(self.database, self._evaluated)

    def _evaluated(self, order: StageOrder) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """Rows of `batch` as they came, or what the test says that the SELECT gives."""
        if order.script.body.reads_batch:
            return {s.asset_partition: [row for part in s.parts for row in _records(part)] for s in order.slices}
        content = self.contents[order.script.text]
        return {name: [dict(zip(columns_of(order.script), row, strict=True)) for row in rows] for name, rows in content.items()}

    def lose_answer(self) -> None:
        self.database.answers_lost = 1

    async def rows(self, asset: str) -> Sequence[tuple[str, Made]]:
        table = self.database.tables.content.get(asset)
        return sorted((name, tuple(row.values())) for name, row in table.rows.values()) if table else []

    async def swap(self, asset: str) -> None:
        with self.database.transaction() as tables:
            table = tables.content[asset]
            tables.content[asset] = type(table)(uuid4(), table.sliced, table.columns)


def _records(part: tuple[SourcePartition, int, int, object]) -> Sequence[Mapping[str, object]]:
    _, lo, _, payload = part
    assert isinstance(payload, Rows)
    records = zip(payload.records["offset"].to_pylist(), payload.records["value"].to_pylist(), strict=True)
    return [{name: value for name, value in json.loads(text).items() if name in {"id", "v"}} for offset, text in records if offset >= lo]


@dataclass
class RealLakes:
    """`LakeGround` on the real parts. The lake reaches PostgreSQL through a proxy that can drop an answer."""

    bench: Bench
    state: State
    cutter: CommitCutter
    contents: dict[str, Content] = field(default_factory=dict)

    @classmethod
    @asynccontextmanager
    async def made(cls, url: str, folder: Path) -> AsyncIterator[RealLakes]:
        async with CommitCutter(url, "snapshot_changes") as cutter:
            state = await PostgresState.open(url, installation="local", workspace="prod")
            settings = {"main": LakeSettings(str(folder / "main"))}
            lake = await to_thread.run_sync(lambda: DuckLake(postgres_url=cutter.url, lakes=settings, memory_limit_bytes=400_000_000, threads=1))
            try:
                await state.watch_lake("main", watch_external=False)
                yield cls(Bench(lake, url), state, cutter)
            finally:
                await to_thread.run_sync(lake.close)
                await state.close()

    @property
    def lake(self) -> DuckLake:
        return self.bench.lake

    def lose_answer(self) -> None:
        self.cutter.arm("after")

    async def rows(self, asset: str) -> Sequence[tuple[str, Made]]:
        table = LakeTable.parse(asset)
        if not await to_thread.run_sync(self.bench.rows, f"SELECT 1 FROM duckdb_tables() WHERE database_name = 'lake_main' AND table_name = '{table.table}'"):
            return []
        found = await to_thread.run_sync(self.bench.rows, f"SELECT * FROM {table.sql}")
        return sorted((name[0] if name else "", (number, text)) for number, text, *name in found)

    async def swap(self, asset: str) -> None:
        table = LakeTable.parse(asset)
        other = replace(table, table=f"{table.table}_other")
        for statement in (f"CREATE TABLE {other.sql} AS FROM {table.sql} LIMIT 0", f"DROP TABLE {table.sql}", f"ALTER TABLE {other.sql} RENAME TO {table.table}"):
            await to_thread.run_sync(self.bench.rows, statement)


def columns_of(script: Script) -> tuple[str, str]:
    """Of a script of these tests: its second column may have another name."""
    return "id", "w" if " AS w " in script.text else "v"


def select_of(content: Content, column: str, *, sliced: bool) -> str:
    """A SELECT that gives these rows for its slice."""
    rows = [f"('{name}', {identity}, '{v}')" for name, made in content.items() for identity, v in made]
    nothing = "('', 0, '')" if not rows else ""
    return (f"SELECT CAST(i AS BIGINT) AS id, x AS {column} FROM (VALUES {', '.join(rows) or nothing}) AS t(p, i, x) "
            f"WHERE {'p = {partition}' if rows and sliced else bool(rows)}")


@dataclass
class LakeCase:
    """One test on a ground that others share. Its slices, source partitions and tables have its number."""

    ground: LakeGround
    number: int

    @property
    def state(self) -> State:
        return self.ground.state

    def own(self, name: str) -> str:
        """A slice, or the name of a table, of this test alone."""
        return f"{name}_{self.number}_"

    def script(self, content: Content, strategy: Strategy = "append", asset: str = SHARED, *, column: str = "v", sliced: bool = True, **facts: Any) -> Script:
        made = managed(select_of(content, column, sliced=sliced), strategy, asset=asset, partitioned=DYNAMIC if sliced else None, **facts)
        self.ground.contents[made.text] = content
        return made

    async def staged(self, script: Script, *slices: str, **facts: Any) -> Staged:
        return await to_thread.run_sync(self.ground.lake.stage, StageOrder(script, [SliceInput(name) for name in slices or ("",)], **facts))

    def key(self, script: Script) -> PositionKey:
        return PositionKey(Consumer(script.consumer), SourcePartition("kafka://main/in", str(self.number)))

    async def starts(self, script: Script) -> Token:
        """The position of this test at 0; its token."""
        await self.state.insert_positions([NewPosition(self.key(script), 0, "", "earliest")])
        return (await self.stands(script)).token

    async def stands(self, script: Script) -> Position:
        return (await self.state.load([self.key(script)]))[self.key(script)]

    async def run(self, script: Script, staged: Staged, *slices: str, position: tuple[Token, int] | None = None,
                  tokens: Mapping[str, Token | None] | None = None) -> NewRun:
        """A run row for what was staged. `position`: token and floor; `tokens`: those that it believes, if not the stored ones."""
        run_id, names = a_run(), slices or ("",)
        believed = tokens or (await self.state.partition_tokens(script.consumer, names)).tokens
        compare = tokens is not None
        run = NewRun(
            run_id, script, Consumer(script.consumer), "main", Trigger("manual", run_id, run_id, 1, "2026-06-19T10:00:00.000Z", names[0]),
            [PositionClaim(self.key(script), position[0], position[1], {})] if position else [],
            [PartitionClaim(name, compare, believed[name]) for name in names],
            script.managed.strategy if script.managed else None, staged.schema, staged.compiled_sql)
        await self.state.insert_run(run)
        return run

    async def written(self, staged: Staged, run: NewRun) -> Written:
        return await to_thread.run_sync(staged.write, run.run_id)

    async def ran(self, script: Script, *slices: str, **facts: Any) -> Written:
        """A whole run that nothing disturbs."""
        staged = await self.staged(script, *slices, **facts)
        run = await self.run(script, staged, *slices)
        written = await self.written(staged, run)
        if written.changed:
            await to_thread.run_sync(staged.commit)
            await self.settled(staged, committed=True)
        else:
            await self.state.complete(run.run_id, written.counts)
        await to_thread.run_sync(staged.close)
        assert await self.how(run) == "completed"
        return written

    async def settled(self, staged: Staged, *, committed: bool) -> None:
        await to_thread.run_sync(lambda: staged.settled(committed=committed))

    async def how(self, run: NewRun) -> str:
        return (await self.state.verdict(run.run_id, "main", -1)).kind

    async def rows(self, asset: str = SHARED) -> Mapping[str, Sequence[Made]]:
        """Of the slices of this test."""
        found = defaultdict(list)
        for name, row in await self.ground.rows(asset):
            if asset != SHARED or name.endswith(self.own("")):
                found[name].append(row)
        return found

    async def told(self, run_id: UUID) -> Sequence[tuple[str, int, int]]:
        """Events of a run: asset partition, rows inserted, rows deleted."""
        _, events = await self.state.read_published(0, 10_000)
        data = [event["data"] for event in events]
        return [(d["partition"] or "", d["rows_inserted"], d["rows_deleted"]) for d in data if isinstance(d, dict) and d["run_id"] == str(run_id)]
