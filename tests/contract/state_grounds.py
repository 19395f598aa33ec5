"""Databases for the contract of the state, in memory and on PostgreSQL, and a hand on what the port does not show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import UUID

import asyncpg

from reactor.domain.runs import PartitionCounts, RunId
from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, SourcePartition, Token
from reactor.ports import NewPosition, NewRun, State
from reactor.state import PostgresState
from reactor.state.database import border
from reactor.testing import MemoryDatabase, MemoryState
from tests.state.making import Catalog, append, mark, merge, script

ONE_ROW = (PartitionCounts(1, 0),)
HOUR_SECONDS = 3600


class Ground(Protocol):
    """A database with the lake `main`. `state`: a replica that the tests share."""

    @property
    def state(self) -> State: ...

    async def replica(self) -> State:
        """One more replica."""
        ...

    async def publish(self, run: NewRun, counts: Sequence[PartitionCounts]) -> int:
        """The COMMIT of a lake transaction with the mark of this run; the snapshot id. Raises `Conflict`."""
        ...

    async def fall_silent(self, state: State) -> None:
        """A replica was last heard of an hour ago."""
        ...

    async def trigger(self, *, fires: bool) -> None:
        """Whether the lake has its commit trigger."""
        ...

    async def pause(self, consumer: Consumer) -> None: ...

    async def log(self, run_id: RunId) -> str: ...

    async def timings(self, run_id: RunId) -> Mapping[str, float]: ...

    async def error(self, run_id: RunId) -> str: ...

    async def statuses(self, asset: str) -> Mapping[str, str]:
        """By asset partition; no run of the asset is under way."""
        ...

    async def gaps(self, consumer: Consumer) -> Sequence[tuple[int, int, str]]: ...


@dataclass
class InMemory:
    """`Ground` of the shipped fake."""

    database: MemoryDatabase = field(default_factory=MemoryDatabase)

    def __post_init__(self) -> None:
        self.state = MemoryState(self.database)

    async def replica(self) -> State:
        return MemoryState(self.database)

    async def publish(self, run: NewRun, counts: Sequence[PartitionCounts]) -> int:
        return self.database.publish(run.lake, run.run_id, counts)

    async def fall_silent(self, state: State) -> None:
        assert isinstance(state, MemoryState)
        self.database.tables.seen[state.replica] -= HOUR_SECONDS

    async def trigger(self, *, fires: bool) -> None:
        self.database.untriggered = set() if fires else {"main"}

    async def pause(self, consumer: Consumer) -> None:
        self.database.tables.pauses[consumer] = "because"

    async def log(self, run_id: RunId) -> str:
        return "".join(text for (of, _), text in sorted(self.database.tables.logs.items()) if of == run_id)

    async def timings(self, run_id: RunId) -> Mapping[str, float]:
        return self.database.tables.runs[run_id].timings

    async def error(self, run_id: RunId) -> str:
        return self.database.tables.runs[run_id].error

    async def statuses(self, asset: str) -> Mapping[str, str]:
        return {name: row.status for (of, name), row in self.database.tables.partitions.items() if of == asset}

    async def gaps(self, consumer: Consumer) -> Sequence[tuple[int, int, str]]:
        return [(lo, hi, reason) for (key, lo, hi), reason in self.database.tables.gaps.items() if key.consumer == consumer]


@dataclass
class OnPostgres:
    """`Ground` of the real one. The lake's transactions end as DuckLake's do."""

    url: str
    catalog: Catalog
    states: list[PostgresState] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def made(cls, url: str) -> AsyncIterator[OnPostgres]:
        async with Catalog.made(url) as catalog:
            ground = cls(url, catalog)
            try:
                await ground.replica()
                await ground.state.watch_lake("main", watch_external=True)
                yield ground
            finally:
                for state in ground.states:
                    await state.close()

    @property
    def state(self) -> PostgresState:
        return self.states[0]

    async def replica(self) -> State:
        self.states.append(await PostgresState.open(self.url, installation="local", workspace="prod", pool_size_max=4))
        return self.states[-1]

    async def publish(self, run: NewRun, counts: Sequence[PartitionCounts]) -> int:
        session = await asyncpg.connect(self.url)
        try:
            with border():
                return await self.catalog.commit(mark(run, [[c.inserted, c.deleted] for c in counts]), session=session)
        finally:
            await session.close()

    async def fall_silent(self, state: State) -> None:
        assert isinstance(state, PostgresState)
        query = "update reactor.replica set seen_at = seen_at - make_interval(secs => $2) where name = $1"
        await self.catalog.connection.execute(query, state._db.identity.replica, HOUR_SECONDS)

    async def trigger(self, *, fires: bool) -> None:
        how = "enable always" if fires else "disable"
        await self.catalog.connection.execute(f"alter table lake_main.ducklake_snapshot_changes {how} trigger reactor_commit")

    async def pause(self, consumer: Consumer) -> None:
        await self.state.pause(consumer, reason="because", actor="a")

    async def log(self, run_id: RunId) -> str:
        _, chunks = await self.state.log(run_id) or ("", [])
        return "".join(chunk.text for chunk in chunks)

    async def timings(self, run_id: RunId) -> Mapping[str, float]:
        record = await self.state.run(run_id)
        return record.timings if record else {}

    async def error(self, run_id: RunId) -> str:
        record = await self.state.run(run_id)
        return (record and record.error) or ""

    async def statuses(self, asset: str) -> Mapping[str, str]:
        return {row.partition: row.status for row in await self.state.partitions(asset)}

    async def gaps(self, consumer: Consumer) -> Sequence[tuple[int, int, str]]:
        return [(gap.lo, gap.hi, gap.reason) for gap in await self.state.gaps() if gap.consumer == consumer]


@dataclass
class Case:
    """One test on a ground that others share: an asset of its own. `since`: the outbox's offset when it began."""

    ground: Ground
    state: State
    asset: str
    since: int

    @property
    def consumer(self) -> Consumer:
        return Consumer(self.asset)

    @property
    def key(self) -> PositionKey:
        return self.keys(1)[0]

    def keys(self, count: int) -> list[PositionKey]:
        return [PositionKey(self.consumer, SourcePartition("kafka://main/orders", str(number))) for number in range(count)]

    async def starts(self, count: int = 1) -> list[Token]:
        """Insert positions at 0; their tokens."""
        await self.state.insert_positions([NewPosition(key, 0, "routing", "earliest", "cluster/topic") for key in self.keys(count)])
        return [(await self.stands(number)).token for number in range(count)]

    async def stands(self, number: int = 0) -> Position:
        key = self.keys(number + 1)[number]
        return (await self.state.load([key]))[key]

    async def token(self, asset_partition: str = "") -> Token | None:
        return (await self.state.partition_tokens(self.asset, [asset_partition])).tokens[asset_partition]

    def claim(self, token: Token, floor: int, rows: Mapping[str, int | None] | None = None, number: int = 0) -> PositionClaim:
        return PositionClaim(self.keys(number + 1)[number], token, floor, rows or {})

    def appends(self, positions: Sequence[PositionClaim] = (), *partitions: str, **facts: Any) -> NewRun:
        """A run that compares no asset partition."""
        return replace(append(positions, *partitions), script=script(self.asset), consumer=self.consumer, **facts)

    def merges(self, tokens: Mapping[str, Token | None], positions: Sequence[PositionClaim] = (), **facts: Any) -> NewRun:
        """A run that names the tokens of its asset partitions."""
        return replace(merge(tokens, positions), script=script(self.asset, "merge"), consumer=self.consumer, **facts)

    async def commits(self, run: NewRun, *counts: PartitionCounts) -> int:
        """Insert the run and commit it with a snapshot."""
        await self.state.insert_run(run)
        return await self.ground.publish(run, counts or ONE_ROW * len(run.partitions))

    async def completes(self, run: NewRun) -> None:
        """Insert the run and complete it without one."""
        await self.state.insert_run(run)
        await self.state.complete(run.run_id, [PartitionCounts(0, 0) for _ in run.partitions])

    async def how(self, run: NewRun) -> str:
        """What the verdict says of a run."""
        return (await self.state.verdict(run.run_id, "main", -1)).kind

    async def told(self) -> list[tuple[UUID | None, str, bool]]:
        """Events of this asset: run, asset partition, whether it changed."""
        return [(e.run_id, e.partition, e.changed) for e in await self.state.read_outbox(self.since, 10_000) if e.asset == self.asset]

    async def world(self) -> object:
        """All that a refused commit leaves as it is."""
        tokens = await self.state.partition_tokens(self.asset, ["", "a", "b"])
        return [await self.state.load(self.keys(3)), tokens, await self.state.last_snapshot("main"), await self.told()]
