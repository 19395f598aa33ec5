"""Where a consumer begins on a source partition that it has never read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from reactor.domain.scripts import Edge, Script
from reactor.domain.spans import Consumer, PositionKey, SourcePartition
from reactor.ports import LogBounds, Source

EARLIEST, LATEST = "earliest", "latest"


class KnownPositions(Protocol):
    """What of the state tells whether a consumer has read a source before."""

    async def positions(self, consumer: str | None = None) -> Mapping[PositionKey, object]:
        """Stored positions of a consumer."""
        ...


class PositionStarts:
    """Implements `intake.Starts`. `scripts`: of all consumers, at any time; `resets`: cluster → `auto_offset_reset`; `sources`: cluster → whom to ask for the offset of a time.

    Kafka: the edge's `start=`, else the cluster's setting; a source partition that appears later is read from its beginning. The outbox:
    now, unless `start=earliest`; the past of a new subscriber is a backfill. The inbox: whatever was asked of it and nobody has done.
    """

    def __init__(self, state: KnownPositions, scripts: Mapping[Consumer, Script], resets: Mapping[str, str]) -> None:
        self._state, self._resets, self._scripts = state, resets, scripts
        self.sources: dict[str, Source] = {}

    async def offset(self, consumer: Consumer, partition: SourcePartition, bounds: LogBounds) -> tuple[int, str]:
        """The offset, and the words that it was resolved from."""
        scheme = partition.source.partition(":")[0]
        if scheme == "inbox":
            return 0, EARLIEST
        if scheme == "outbox":
            assets = [e for e in self._edges(consumer) if e.kind == "asset"]
            early = any(e.start == EARLIEST for e in assets)
            return (0, EARLIEST) if early else (bounds.end, LATEST)
        known = await self._state.positions(consumer)
        if any(key.source_partition.source == partition.source for key in known):
            return bounds.start, EARLIEST
        cluster = partition.source.removeprefix("kafka://").partition("/")[0]
        edge = next((e for e in self._edges(consumer) if e.uri == partition.source), None)
        start = (edge.start if edge else None) or self._resets.get(cluster, EARLIEST)
        if start == EARLIEST:
            return bounds.start, start
        if start == LATEST:
            return bounds.end, start
        at = int(datetime.fromisoformat(start).timestamp() * 1000)
        return await self.sources[cluster].offset_at(partition, at, bounds), start

    def _edges(self, consumer: Consumer) -> Sequence[Edge]:
        script = self._scripts.get(consumer)
        return script.edges if script else ()
