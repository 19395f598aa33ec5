"""Positions and fences: how far whom has settled what, and the arrivals of joins, which move with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID, uuid4

from asyncpg import Record

from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, SourcePartition, Token
from reactor.ports import Arrival, NewPosition
from reactor.state.database import Part


class Positions(Part):
    """Rows of `position`, `fence`, `source_gap`, `join_event`."""

    async def load(self, keys: Collection[PositionKey]) -> Mapping[PositionKey, Position]:
        """Stored positions; a key that is missing from the answer has none."""
        flat = [_columns(key) for key in keys]
        rows = await self._db.rows("load_positions", *([columns[i] for columns in flat] for i in range(3)))
        return {key_of(row): position_of(row) for row in rows}

    async def positions(self, consumer: str | None = None) -> Mapping[PositionKey, Position]:
        """All stored positions, or those of one consumer, in the order of their key."""
        return {key_of(row): position_of(row) for row in await self._db.rows("list_positions", consumer)}

    async def insert_positions(self, positions: Collection[NewPosition]) -> None:
        """Insert those that are absent; an existing one stays as it is."""
        await self._db.rows("insert_positions", [
            {**_named(p.key), "floor": p.floor, "routing": p.routing, "started_from": p.started_from, "topic_id": p.topic_id,
             "table_uuid": p.table_uuid and str(p.table_uuid)}
            for p in positions])

    async def settle(self, claims: Collection[PositionClaim]) -> tuple[Token, frozenset[PositionKey]]:
        """Move floors that no run carries; each stands alone. The token of those that moved, and the keys that were refused."""
        me = Token(uuid4())
        return me, frozenset(key_of(row) for row in await self._db.rows("settle", me, [claim_json(claim) for claim in claims]))

    async def reset(self, key: PositionKey, floor: int, topic_id: str | None, started_from: str, reason: str, *,
                    believed: Token | None = None, table_uuid: UUID | None = None) -> bool:
        """New floor, no fences, a token of its own. False: there is no such position, or its token is not `believed`."""
        return bool(await self._db.value("reset", *_columns(key), believed, floor, topic_id, started_from, table_uuid, reason))

    async def switch(self, key: PositionKey, believed: Token, routing: str) -> bool:
        """New routing takes over at a common cut. False: the token is another, or some stream stands elsewhere."""
        return bool(await self._db.value("switch", *_columns(key), believed, routing))

    async def record_gap(self, key: PositionKey, lo: int, hi: int, reason: str) -> None:
        """Offsets `[lo, hi)` were lost before they were read. Recording a gap again changes nothing."""
        await self._db.value("record_gap", *_columns(key), lo, hi, reason)

    async def acknowledge_gaps(self, consumer: str | None, actor: str) -> int:
        """Somebody has seen the open gaps (of one consumer, or all): how many they were."""
        return len(await self._db.rows("acknowledge_gaps", consumer, actor))

    async def arrive(self, consumer: Consumer, arrivals: Sequence[Arrival], claims: Collection[PositionClaim]) -> Token:
        """Write arrivals of a join with the join's position, all or nothing; the new token. Raises `Conflict`."""
        me = Token(uuid4())
        events = [{"partition": a.asset_partition, "event_id": a.event_id, "asset": a.asset, "event": dict(a.event)} for a in arrivals]
        await self._db.value("arrive", me, consumer, events, [claim_json(claim) for claim in claims])
        return me

    async def arrivals(self, consumer: Consumer) -> Sequence[Arrival]:
        """The arrivals that no run has used up, oldest first."""
        return [Arrival(row["partition"], row["event_id"], row["asset"], row["event"]) for row in await self._db.rows("arrivals", consumer)]


def claim_json(claim: PositionClaim) -> dict[str, object]:
    """A claim as the functions of `commit.sql` read it."""
    return {**_named(claim.key), "last_run": str(claim.believed), "floor": claim.floor, "rows": dict(claim.rows)}


def key_of(row: Record) -> PositionKey:
    """The key columns of a row."""
    return PositionKey(Consumer(row["consumer"]), SourcePartition(row["source"], row["source_partition"]))


def position_of(row: Record) -> Position:
    """A row of `position` with its fences."""
    return Position(
        row["floor"], Token(row["last_run"]), row["routing"], row["topic_id"], row["started_from"], row["fences"] or {}, row["table_uuid"])


def _columns(key: PositionKey) -> tuple[str, str, str]:
    return key.consumer, key.source_partition.source, key.source_partition.number


def _named(key: PositionKey) -> dict[str, object]:
    return dict(zip(("consumer", "source", "source_partition"), _columns(key), strict=True))
