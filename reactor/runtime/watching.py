"""What is looked at now and then: that this replica lives and others do, what is halted, how far sources are, what metrics show."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from reactor.core.effects import Effect, Feed
from reactor.core.engine import Engine
from reactor.core.lanes import Lane
from reactor.domain.runs import RunId
from reactor.domain.spans import PositionKey, SourcePartition
from reactor.ports import Clock
from reactor.runtime.hands import Feeding, QueueFeeding
from reactor.runtime.loop import Loop
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)

RUNS_KEPT_DAYS: Final = 90
PURGE_RUNS: Final = 10_000
"""Rows of one statement."""
SILENT_SECONDS = 30.0
"""A replica that has not been heard of for so long is dead: its runs are aborted."""


class TableCounts(Protocol):
    """How the asset partitions of one table stand."""

    @property
    def asset(self) -> str:
        """Its URI."""
        ...

    @property
    def checked_at(self) -> datetime | None:
        """The end of the last completed run."""
        ...

    @property
    def materialized(self) -> int:
        """Asset partitions whose last run was completed."""
        ...

    @property
    def failed(self) -> int:
        """Asset partitions whose last run failed."""
        ...


class Liveness(Protocol):
    """What of the state tells who lives, how tables stand, and what is over."""

    async def heartbeat(self) -> None:
        """This replica is alive."""
        ...

    async def abort_silent_runs(self, silent_seconds: float) -> Collection[RunId]:
        """Abort the running runs of dead replicas."""
        ...

    async def purge_runs(self, days: int, rows_max: int) -> int:
        """Forget ended runs that are older; how many."""
        ...

    async def tables(self) -> Sequence[TableCounts]:
        """All materialized assets."""
        ...


@dataclass(frozen=True, slots=True)
class LaneGlance:
    """One lane at a moment. `writes`: a table of the lake. `slices_running`: asset partitions of its run.

    `oldest_due_at`: POSIX seconds, None when nothing is due, or it waits because somebody has paused the lane.
    """

    writes: bool
    slices_running: int
    slices_open: int
    slices_due: int
    slices_blocked: int
    oldest_due_at: float | None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Glance:
    """The engine at a moment: lanes by consumer, and of each feed that is ours the first offset that waits for any of its consumers."""

    lanes: Mapping[str, LaneGlance]
    waiting_from: Mapping[Feed, int]


def glance(engine: Engine, now: float) -> Glance:
    """What metrics and the live view show."""
    waiting_from: dict[Feed, int] = {}
    for feed, head in engine.feeds.heads.items():
        ledgers = [ledger for _, ledger in engine.feeds.ledgers(feed)]
        if not any(ledger.parked for ledger in ledgers):
            waiting_from[feed] = min((ledger.waiting_from for ledger in ledgers), default=head)
    return Glance({str(lane.consumer): _lane(lane, now) for lane in engine.lanes.values()}, waiting_from)


def _lane(lane: Lane, now: float) -> LaneGlance:
    slices_open, slices_due = lane.debouncer.counts
    blocked = {d for ledger in lane.ledgers.values() for d in ledger.blocked}
    due = lane.debouncer.take_due(now)
    running = len(lane.running.asset_partitions) if lane.running else 0
    oldest_due_at = None if lane.paused else min(due.values(), default=None)
    return LaneGlance(lane.script.managed is not None, running, slices_open, slices_due, len(blocked), oldest_due_at, lane.paused)


def duplicates(engine: Engine, _now: float) -> Mapping[str, int]:
    """Records by consumer that came again since this was last asked, and were left out because a commit has settled them."""
    counted: Counter[str] = Counter()
    for lane in engine.lanes.values():
        for ledger in lane.ledgers.values():
            counted[str(lane.consumer)] += ledger.duplicate_rows
            ledger.duplicate_rows = 0
    return counted


@dataclass(slots=True)
class Watcher:
    """Turns glances into metrics. `feedings`: (tag, source) → what reads it."""

    loop: Loop
    state: Liveness
    clock: Clock
    telemetry: Telemetry
    feedings: Mapping[tuple[str, str], Feeding]
    _shown: frozenset[SourcePartition] = frozenset()

    async def keep_alive(self) -> None:
        """Be heard of, and clear up after those who are not."""
        await self.state.heartbeat()
        for run_id in await self.state.abort_silent_runs(SILENT_SECONDS):
            logger.warning("the run is given up: its replica fell silent", extra={"event": "run_aborted", "run_id": str(run_id)})

    async def forget_old_runs(self) -> None:
        """Records of runs are kept for `RUNS_KEPT_DAYS` (OB-11)."""
        while await self.state.purge_runs(RUNS_KEPT_DAYS, PURGE_RUNS) == PURGE_RUNS:
            continue

    async def look_at_halted(self) -> None:
        """A reset takes effect while running: what is halted is loaded, and so examined, again."""
        for feeding in self.feedings.values():
            if halted := list(feeding.intake.halted):
                self.loop.tell(partial(_reload, halted))

    async def look(self) -> None:
        """Heartbeats, lanes, lag and positions, as gauges."""
        t = self.telemetry
        t.heartbeat.labels("loop").set(self.loop.turned_at)
        if looked_at := [f.queue.looked_at for f in self.feedings.values() if isinstance(f, QueueFeeding) and f.queue.looked_at is not None]:
            t.heartbeat.labels("outbox").set(max(looked_at))
        seen = await self.loop.ask(glance)
        for consumer, lane in seen.lanes.items():
            t.runs.labels(consumer, "running").set(int(lane.slices_running > 0))
            t.runs.labels(consumer, "queued").set(lane.slices_due)
            t.asset_paused.labels(consumer).set(int(lane.paused))
            for state, n in (("open", lane.slices_open), ("due", lane.slices_due), ("blocked", lane.slices_blocked)):
                t.slices.labels(consumer, state).set(n)
            if lane.oldest_due_at is not None:
                t.slice_oldest_due.labels(consumer).set(lane.oldest_due_at)
            else:
                t.forget(t.slice_oldest_due, consumer)
        for consumer, n in (await self.loop.ask(duplicates)).items():
            if n:
                t.events_settled.labels(consumer, "duplicate").inc(n)
        await self._look_at_sources(seen)

    async def look_at_tables(self) -> None:
        """What their asset partitions are, whoever made them."""
        t = self.telemetry
        tables = {table.asset: table for table in await self.state.tables()}
        for asset, lane in (await self.loop.ask(glance)).lanes.items():
            if not lane.writes:
                continue
            table = tables.get(asset)
            t.asset_partitions.labels(asset, "running").set(lane.slices_running)
            t.asset_partitions.labels(asset, "failed").set(table.failed if table else 0)
            t.asset_partitions.labels(asset, "materialized").set(table.materialized if table else 0)
            if table and table.checked_at is not None:
                t.asset_last_success.labels(asset).set(table.checked_at.timestamp())

    async def _look_at_sources(self, seen: Glance) -> None:
        """The series of what went elsewhere go; those of a source that cannot be asked stay as they were."""
        shown: dict[SourcePartition, tuple[Feed, int]] = {}
        for feed, offset in seen.waiting_from.items():  # two tags may read one source partition: the one that is behind counts
            _, lowest = shown.get(feed.source_partition, (feed, offset))
            shown[feed.source_partition] = (feed, min(offset, lowest))
        for partition, (feed, offset) in shown.items():
            self.telemetry.source_position.labels(*partition).set(offset)
            feeding = self.feedings.get((feed.tag, partition.source))
            bounds = await feeding.bounds(partition) if feeding else None
            if bounds is not None:
                self.telemetry.source_lag.labels(*partition).set(max(0, bounds.end - offset))
        for gone in self._shown - shown.keys():
            self.telemetry.forget(self.telemetry.source_lag, *gone)
            self.telemetry.forget(self.telemetry.source_position, *gone)
        for source in {gone.source for gone in self._shown} - {partition.source for partition in shown}:
            self.telemetry.forget(self.telemetry.source_events, source)
        self._shown = frozenset(shown)


def _reload(keys: Sequence[PositionKey], engine: Engine, _now: float) -> Sequence[Effect]:
    return engine.reload(keys)
