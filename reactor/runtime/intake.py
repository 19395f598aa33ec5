"""The runtime's side of a source: positions before the first read, spans split on their way to the loop, hand-over on revoke.

A position is inserted before anything is read for it, with its start resolved to an offset. What is stored is compared with what the log
holds (`core.examination`): a lost range is jumped over, recorded and shown; a log that is another one halts those who read it, and they
are asked about again while it lasts. Spans are split here, in a worker thread unless they are small, so the loop only moves them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol
from uuid import UUID

import anyio
from anyio import to_thread

from reactor.core.effects import Feed
from reactor.core.engine import Engine
from reactor.core.examination import Anew, Fits, Halted, Lost, examine
from reactor.domain.scripts import Routing
from reactor.domain.spans import Consumer, Position, PositionKey, SourcePartition, Span
from reactor.ports import Clock, LogBounds, NewPosition, RawSpan, Splitter, State
from reactor.runtime.loop import Loop
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)

INLINE_BYTES_MAX = 65_536
"""A span up to this size is split where it is: to hand it to a thread takes as long, and keeps the loop as busy. But by routings that have split
before: compiled code is loaded, or even made, at its first call."""
WARM_MAX = 1000
"""Sets of routings that are remembered for that."""
REVOKE_SECONDS = 10.0
"""How long running runs may hold what is being revoked; then their token decides."""


class Starts(Protocol):
    """Where a consumer begins on a source that it has never read."""

    async def offset(self, consumer: Consumer, partition: SourcePartition, bounds: LogBounds) -> tuple[int, str]:
        """The offset, and what it was resolved from (`earliest`, `latest`, a time)."""
        ...


@dataclass(slots=True)
class SourceIntake:
    """Implements `ports.Intake` for one group of readers.

    `table_uuid`: of the lake table that a consumer feeds (blocking). `halted`: what is not read, and why. `ends`: the log ends that were seen at assignment: what lies below them has waited already.
    `bounds`: what the logs held when last seen. `ephemeral`: the broker keeps nothing, so another log begins anew by itself.
    """

    tag: str
    loop: Loop
    state: State
    splitter: Splitter
    clock: Clock
    starts: Starts
    table_uuid: Callable[[Consumer], UUID | None]
    telemetry: Telemetry
    ephemeral: bool = False
    halted: dict[PositionKey, str] = field(default_factory=dict)
    bounds: dict[SourcePartition, LogBounds] = field(default_factory=dict)
    ends: dict[SourcePartition, int] = field(default_factory=dict)
    _parked: set[SourcePartition] = field(default_factory=set)
    _warm: set[frozenset[str]] = field(default_factory=set)

    # -- ports.Intake

    async def assigned(self, bounds: Mapping[SourcePartition, LogBounds]) -> Mapping[SourcePartition, int]:
        """Positions are made and loaded, then the engine says where to start."""
        await self._forget(self._parked - bounds.keys())
        self._parked.clear()
        self.bounds |= bounds
        self.ends |= {p: b.end for p, b in bounds.items()}
        for source in {p.source for p in bounds}:
            self.telemetry.source_events.labels(source)
        starts: dict[SourcePartition, int] = {}
        for partition, found in bounds.items():
            start = await self._start(partition, found)
            if start is not None:
                starts[partition] = start
        logger.info("assigned %d source partitions", len(bounds), extra={"event": "source_assigned", "source": _names(bounds)})
        return starts

    async def revoked(self, partitions: Collection[SourcePartition]) -> None:
        """No new runs of these; running ones get `REVOKE_SECONDS`, then floors are settled and what was read stays parked."""
        feeds = [Feed(self.tag, p) for p in partitions]
        await self.loop.ask(lambda engine, _: engine.park(feeds))
        with anyio.move_on_after(REVOKE_SECONDS):
            await self.loop.until(lambda engine: not engine.busy(feeds))
            self.loop.tell(lambda engine, _: engine.settle({lane.consumer: lane for f in feeds for lane in engine.feeds.listeners(f)}.values()))
            await self.loop.until(lambda engine: not engine.busy(feeds))
        self._parked |= set(partitions)
        logger.info("revoked %d source partitions", len(partitions), extra={"event": "source_revoked", "source": _names(partitions)})

    async def offer(self, span: RawSpan) -> None:
        """Split it, and hand it to the loop; spans of one group stay in order."""
        feed = Feed(self.tag, span.source_partition)
        await self.loop.offer(feed, await self.split(feed, span))

    async def offer_events(self, span: Span) -> None:
        """A span of events is routed by the core."""
        self.telemetry.source_events.labels(span.source_partition.source).inc(len(span.events or ()))
        await self.loop.offer(Feed(self.tag, span.source_partition), span)

    async def out_of_range(self, partition: SourcePartition, bounds: LogBounds) -> int | None:
        """Look at the positions again: a jump, a reset, or still halted."""
        feed = Feed(self.tag, partition)
        await self.loop.ask(lambda engine, _: engine.unassigned([feed]))
        self.bounds[partition], self.ends[partition] = bounds, bounds.end
        return await self._start(partition, bounds)

    # -- what the service asks

    async def closed(self) -> None:
        """Its reader has ended, and nobody comes after it: let go of everything."""
        await self.revoked(list(self.bounds))
        await self._forget(self._parked)
        self._parked.clear()

    async def split(self, feed: Feed, raw: RawSpan) -> Span:
        """The span, with a piece for every routing that somebody of this feed reads by."""
        self.telemetry.source_events.labels(raw.source_partition.source).inc(raw.records.num_rows)
        routings = self.loop.look(lambda engine: frozenset(ledger.routing for _, ledger in engine.feeds.ledgers(feed)))
        split = partial(self.splitter.split, raw, [Routing.parse(r) for r in routings], self._arrived_at(raw))
        if raw.size_bytes <= INLINE_BYTES_MAX and routings in self._warm:
            return split()
        span = await to_thread.run_sync(split)
        if raw.records.num_rows:
            self._warm = {*self._warm, routings} if len(self._warm) < WARM_MAX else {routings}
        return span

    async def positions(self, partition: SourcePartition, bounds: LogBounds, consumers: Mapping[Consumer, str]) -> Mapping[Consumer, Position]:
        """Stored positions of these consumers (with the routing that new ones begin by); who is halted is missing."""
        keys = {PositionKey(consumer, partition): routing for consumer, routing in consumers.items()}
        stored = await self.state.load(keys)
        new = []
        for key, routing in keys.items():
            if key not in stored:
                offset, text = await self.starts.offset(key.consumer, partition, bounds)
                uuid = await to_thread.run_sync(self.table_uuid, key.consumer)
                new.append(NewPosition(key, offset, routing, text, bounds.topic_id, uuid))
        if new:
            await self.state.insert_positions(new)
            stored = await self.state.load(keys)
        found: dict[Consumer, Position] = {}
        for key, position in stored.items():
            if (fit := await self._examined(key, position, bounds)) is not None:
                found[key.consumer] = fit
        return found

    # -- inside

    async def _forget(self, partitions: Collection[SourcePartition]) -> None:
        """What was parked and did not come back."""
        feeds = [Feed(self.tag, p) for p in partitions]
        await self.loop.ask(lambda engine, _: engine.unassigned(feeds))
        for p in partitions:
            self.bounds.pop(p, None)
            self.ends.pop(p, None)
        self.halted = {k: why for k, why in self.halted.items() if k.source_partition not in partitions}

    async def _start(self, partition: SourcePartition, bounds: LogBounds) -> int | None:
        feed = Feed(self.tag, partition)
        consumers = await self.loop.ask(lambda engine, _: {lane.consumer: lane.routing for lane in engine.feeds.listeners(feed)})
        positions = await self.positions(partition, bounds, consumers)
        if not positions:
            return None

        def assign(engine: Engine, now: float) -> int:
            return engine.assigned(feed, positions, now)

        return await self.loop.ask(assign)

    async def _examined(self, key: PositionKey, position: Position, bounds: LogBounds) -> Position | None:
        verdict = examine(key, position, bounds.topic_id, bounds.start, bounds.end, ephemeral=self.ephemeral)
        where = {"asset": key.consumer, "source": key.source_partition.source, "source_partition": key.source_partition.number}
        match verdict:
            case Halted():
                if self.halted.get(key) != verdict.message:  # it is looked at again every few seconds
                    logger.error(verdict.message, extra={"event": "source_halted", **where})
                self.halted[key] = verdict.message
                return None
            case Lost():
                message = f"{key.source_partition}: offsets {verdict.lo} to {verdict.hi} were gone before {key.consumer} had read them."
                logger.error(message, extra={"event": "source_gap_found", **where})
                await self.state.record_gap(key, verdict.lo, verdict.hi, "retention passed the position")
                await self.state.settle([verdict.claim])
            case Anew():
                await self.state.reset(key, verdict.floor, bounds.topic_id, "earliest", "the broker keeps nothing: another log", believed=position.token)
            case _:
                pass
        self.halted.pop(key, None)
        return position if isinstance(verdict, Fits) else (await self.state.load([key])).get(key)

    def _arrived_at(self, raw: RawSpan) -> float:
        """What was in the log at assignment has waited since its record's time, so a service that dies every 25 s still commits."""
        now = self.clock.now()
        if raw.hi > self.ends.get(raw.source_partition, 0) or not raw.records.num_rows:
            return now
        first = raw.records.column("timestamp")[0].as_py()
        return min(now, first.timestamp()) if first is not None else now


def _names(partitions: Collection[SourcePartition]) -> str:
    return ", ".join(sorted({p.source for p in partitions}))
