"""What is looked at now and then: that this replica lives and others do, what is halted, how far sources are, what metrics show."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from reactor.core.effects import Effect, Feed
from reactor.core.engine import Engine
from reactor.domain.spans import PositionKey
from reactor.ports import Clock
from reactor.runtime.hands import Feeding
from reactor.runtime.loop import Loop
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)

SILENT_SECONDS = 30.0
"""A replica that has not been heard of for so long is dead: its runs are aborted."""


class Liveness(Protocol):
    """What of the state tells who lives."""

    async def heartbeat(self) -> None:
        """This replica is alive."""
        ...

    async def abort_silent_runs(self, silent_seconds: float) -> object:
        """Abort the running runs of dead replicas."""
        ...


@dataclass(frozen=True, slots=True)
class LaneGlance:
    """One lane at a moment. `oldest_due_at`: POSIX seconds, None when nothing is due, or it waits because somebody has paused the lane."""

    running: bool
    slices_open: int
    slices_due: int
    slices_blocked: int
    oldest_due_at: float | None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Glance:
    """The engine at a moment: lanes by consumer, and of each feed the lowest position of its consumers."""

    lanes: Mapping[str, LaneGlance]
    lows: Mapping[Feed, int]


def glance(engine: Engine, now: float) -> Glance:
    """What metrics and the live view show."""
    lanes = {}
    for lane in engine.lanes.values():
        slices_open, slices_due = lane.debouncer.counts
        blocked = {d for ledger in lane.ledgers.values() for d in ledger.blocked}
        due = lane.debouncer.take_due(now)
        oldest_due_at = None if lane.paused else min(due.values(), default=None)
        lanes[str(lane.consumer)] = LaneGlance(lane.running is not None, slices_open, slices_due, len(blocked), oldest_due_at, lane.paused)
    lows = {feed: min((ledger.low for _, ledger in engine.feeds.ledgers(feed)), default=0) for feed in engine.feeds.heads}
    return Glance(lanes, lows)


@dataclass(slots=True)
class Watcher:
    """Turns glances into metrics. `feedings`: (tag, source) → what reads it."""

    loop: Loop
    state: Liveness
    clock: Clock
    telemetry: Telemetry
    feedings: Mapping[tuple[str, str], Feeding]
    _shown: set[tuple[str, str]] = field(default_factory=set)

    async def keep_alive(self) -> None:
        """Be heard of, and clear up after those who are not."""
        await self.state.heartbeat()
        await self.state.abort_silent_runs(SILENT_SECONDS)

    async def look_at_halted(self) -> None:
        """A reset takes effect while running: what is halted is loaded, and so examined, again."""
        for feeding in self.feedings.values():
            if halted := list(feeding.intake.halted):
                self.loop.tell(partial(_reload, halted))

    async def look(self) -> None:
        """Lanes, lag and positions, as gauges."""
        t = self.telemetry
        t.heartbeat.labels("loop").set(self.loop.turned_at)
        seen = await self.loop.ask(glance)
        for consumer, lane in seen.lanes.items():
            t.runs.labels(consumer, "running").set(int(lane.running))
            t.runs.labels(consumer, "queued").set(lane.slices_due)
            t.asset_paused.labels(consumer).set(int(lane.paused))
            for state, n in (("open", lane.slices_open), ("due", lane.slices_due), ("blocked", lane.slices_blocked)):
                t.slices.labels(consumer, state).set(n)
            if lane.oldest_due_at is not None:
                t.slice_oldest_due.labels(consumer).set(lane.oldest_due_at)
            else:
                t.forget(t.slice_oldest_due, consumer)
        await self._look_at_sources(seen)

    async def _look_at_sources(self, seen: Glance) -> None:
        shown: set[tuple[str, str]] = set()
        for feed, low in seen.lows.items():
            feeding = self.feedings.get((feed.tag, feed.source_partition.source))
            bounds = await feeding.bounds(feed.source_partition) if feeding else None
            if bounds is None:
                continue
            labels = (feed.source_partition.source, feed.source_partition.number)
            shown.add(labels)
            self.telemetry.source_lag.labels(*labels).set(max(0, bounds.end - low))
            self.telemetry.source_position.labels(*labels).set(low)
        for gone in self._shown - shown:
            self.telemetry.forget(self.telemetry.source_lag, *gone)
            self.telemetry.forget(self.telemetry.source_position, *gone)
        self._shown = shown


def _reload(keys: Sequence[PositionKey], engine: Engine, _now: float) -> Sequence[Effect]:
    return engine.reload(keys)
