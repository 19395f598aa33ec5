"""Carries effects out, each in a task of its own, and tells the loop what came of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, assert_never

import anyio
from anyio.abc import TaskGroup

from reactor.core.effects import (
    CommitPosition,
    Decided,
    Discard,
    Effect,
    Feed,
    Load,
    Outcome,
    Pause,
    RangeRead,
    ReadRange,
    Refused,
    Resume,
    Settle,
    Settled,
    StartRun,
    Switched,
    SwitchRouting,
    WriteAgain,
)
from reactor.core.engine import Engine
from reactor.core.lanes import Lane
from reactor.domain.spans import Consumer, Position, PositionKey, SourcePartition, Span
from reactor.errors import Outage
from reactor.ports import LogBounds, OutOfRange, Source, State
from reactor.runtime.deciding import DecisionLog
from reactor.runtime.executor import Executor
from reactor.runtime.intake import SourceIntake
from reactor.runtime.loop import Loop
from reactor.runtime.outages import until_it_answers
from reactor.runtime.queues import QueueSource

logger = logging.getLogger(__name__)

OWN_READ_BYTES_MAX = 16 * 1024 * 1024
"""What a reader of one's own brings at once."""
OWN_READ_RETRY_SECONDS = 1.0


class Feeding(Protocol):
    """What the hands need of a source, whatever it is."""

    intake: SourceIntake

    async def run(self) -> None:
        """Read until cancelled."""
        ...

    async def read(self, feed: Feed, lo: int, hi: int) -> Sequence[Span]:
        """Spans from `lo` on; at least one. Raises `Outage`, `OutOfRange`."""
        ...

    async def bounds(self, partition: SourcePartition) -> LogBounds | None:
        """What the log holds now; None: there is no such log, or it cannot be asked."""
        ...

    def pause(self, partition: SourcePartition, *, paused: bool) -> None:
        """Hold or release the shared reader."""
        ...

    async def commit(self, offsets: Mapping[SourcePartition, int]) -> None:
        """The group offset, a courtesy."""
        ...


@dataclass(slots=True, eq=False)
class ExternalFeeding:
    """A `ports.Source` behind its intake."""

    source: Source
    intake: SourceIntake

    async def run(self) -> None:
        """Its reader group."""
        await self.source.run(self.intake)

    async def read(self, feed: Feed, lo: int, hi: int) -> Sequence[Span]:
        """Read and split."""
        raws = await self.source.read(feed.source_partition, lo, hi, OWN_READ_BYTES_MAX)
        return [await self.intake.split(feed, raw) for raw in raws]

    async def bounds(self, partition: SourcePartition) -> LogBounds | None:
        """Ask the source."""
        return (await self.source.bounds([partition])).get(partition)

    def pause(self, partition: SourcePartition, *, paused: bool) -> None:
        """Of this source partition only."""
        (self.source.pause if paused else self.source.resume)([partition])

    async def commit(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Hand it over."""
        await self.source.commit(offsets)


@dataclass(slots=True, eq=False)
class QueueFeeding:
    """The outbox or the inbox behind its intake."""

    queue: QueueSource
    intake: SourceIntake

    async def run(self) -> None:
        """While its lease is ours."""
        await self.queue.run(self.intake)

    async def subscribe(self, consumers: Mapping[Consumer, str]) -> None:
        """New subscribers start now, although another replica may read the queue, and know nothing of them, for a long time yet.

        `consumers`: with the routing that they begin by.
        """
        await self.intake.positions(self.queue.partition, LogBounds(None, 0, await self.queue.end()), consumers)

    async def read(self, feed: Feed, lo: int, hi: int) -> Sequence[Span]:
        """Events need no split."""
        return await self.queue.read(lo, min(hi, await self.queue.end())) if feed.source_partition == self.queue.partition else ()

    async def bounds(self, partition: SourcePartition) -> LogBounds | None:
        """From 0 to the next offset."""
        return LogBounds(None, 0, await self.queue.end()) if partition == self.queue.partition else None

    def pause(self, partition: SourcePartition, *, paused: bool) -> None:
        """The queue has one source partition."""
        if partition == self.queue.partition:
            self.queue.paused = paused
            self.queue.hint.set()

    async def commit(self, offsets: Mapping[SourcePartition, int]) -> None:
        """There is no group."""


@dataclass(slots=True)
class Hands:
    """Implements `loop.Hands`. `feedings`: (tag, source) → what reads it, at any time."""

    loop: Loop
    state: State
    executor: Executor
    decisions: DecisionLog
    tasks: TaskGroup
    feedings: Mapping[tuple[str, str], Feeding] = field(default_factory=dict)

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Start a task for whatever takes time."""
        start = self.tasks.start_soon
        for effect in effects:
            match effect:
                case StartRun():
                    start(self._run, effect)
                case WriteAgain():
                    start(self._again, effect)
                case Discard():
                    start(self.executor.discard, effect.ticket)
                case Settle():
                    start(self._settle, effect)
                case Load():
                    start(self._load, effect.keys)
                case SwitchRouting():
                    start(self._switch, effect)
                case ReadRange():
                    start(self._read, effect)
                case Pause() | Resume():
                    self._pause(effect.feed, paused=isinstance(effect, Pause))
                case CommitPosition():
                    start(self._commit, effect)
                case Decided():
                    self.decisions.note(effect.decisions)
                case _:
                    assert_never(effect)

    def _feeding(self, feed: Feed) -> Feeding | None:
        """None: nobody reads it any more."""
        return self.feedings.get((feed.tag, feed.source_partition.source))

    def _pause(self, feed: Feed, *, paused: bool) -> None:
        if feeding := self._feeding(feed):
            feeding.pause(feed.source_partition, paused=paused)
            source, number = feed.source_partition
            extra = {"event": "source_paused" if paused else "source_resumed", "source": source, "source_partition": number}
            logger.info("%s: %s", feed.source_partition, "held, nobody has room for more" if paused else "read on", extra=extra)

    async def _commit(self, effect: CommitPosition) -> None:
        if feeding := self._feeding(effect.feed):
            await feeding.commit({effect.feed.source_partition: effect.offset})

    async def _run(self, effect: StartRun) -> None:
        await self._answer(await self.executor.start(effect))

    async def _again(self, effect: WriteAgain) -> None:
        await self._answer(await self.executor.again(effect))

    async def _answer(self, outcome: Outcome) -> None:
        """The lane goes on while what is left of the run is put away."""
        self.loop.tell(lambda engine, now: engine.outcome(outcome, now))
        if not isinstance(outcome, Refused):
            await self.executor.discard(outcome.ticket)

    async def _settle(self, effect: Settle) -> None:
        token, keys = await until_it_answers(partial(self.state.settle, effect.claims))
        stored = await until_it_answers(partial(self.state.load, keys)) if keys else {}
        settled = Settled(effect.ticket, token, {key: stored.get(key) for key in keys})
        self.loop.tell(lambda engine, _: engine.settled(settled))

    async def _switch(self, effect: SwitchRouting) -> None:
        done = await until_it_answers(partial(self.state.switch, effect.key, effect.believed, effect.routing))
        self.loop.tell(lambda engine, _: engine.switched(Switched(effect.ticket, done)))

    async def _load(self, keys: Collection[PositionKey]) -> None:
        """Through the intake, which makes what is absent and examines what is there."""
        for key in keys:
            lane = await self.loop.ask(partial(_lane, key))
            feeding = self.feedings.get((lane.tag, key.source_partition.source)) if lane else None
            if lane is None or feeding is None:
                continue
            found = await until_it_answers(partial(self._position, feeding, key, lane.routing))
            if found is not None:
                self._loaded({key: found})

    def _loaded(self, positions: Mapping[PositionKey, Position]) -> None:
        def loaded(engine: Engine, now: float) -> Sequence[Effect]:
            engine.loaded(positions, now)
            return ()

        self.loop.tell(loaded)

    async def _position(self, feeding: Feeding, key: PositionKey, routing: str) -> Position | None:
        bounds = await feeding.bounds(key.source_partition)
        if bounds is None:
            raise Outage(f"{key.source_partition} cannot be asked what it holds")
        return (await feeding.intake.positions(key.source_partition, bounds, {key.consumer: routing})).get(key.consumer)

    async def _read(self, effect: ReadRange) -> None:
        """Answered in any case; a range that was lost has its positions examined anew."""
        spans: Sequence[Span] = ()
        feeding = self._feeding(effect.feed)
        try:
            spans = await feeding.read(effect.feed, effect.lo, effect.hi) if feeding else ()
        except Outage:
            await anyio.sleep(OWN_READ_RETRY_SECONDS)
        except OutOfRange:
            self.loop.tell(lambda engine, _: engine.reload_behind(effect.feed, effect.lo))
        self.loop.tell(lambda engine, now: engine.range_read(RangeRead(effect.ticket, spans), now))


def _lane(key: PositionKey, engine: Engine, _now: float) -> Lane | None:
    return engine.lanes.get(key.consumer)
