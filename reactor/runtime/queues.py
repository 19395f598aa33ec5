"""The outbox and the inbox as sources: read in order by one replica at a time, which holds their lease.

The lease saves work, the token keeps the truth: a replica that slept through its lease may offer what another one has already run, and
its commit is refused. Polling is the truth too; a hint (NOTIFY, an own commit) only makes it look sooner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from reactor.domain.events import AssetUpdated, RunRequested, SourceEvent
from reactor.domain.spans import SourcePartition, Span
from reactor.errors import Outage
from reactor.ports import Clock, LogBounds, State
from reactor.runtime.intake import SourceIntake
from reactor.runtime.loop import LoopEnded

logger = logging.getLogger(__name__)

LEASE_SECONDS = 15.0
RENEW_SECONDS = 5.0
POLL_SECONDS = 0.5
"""Without a hint."""
EVENTS_PER_SPAN_MAX = 500


@dataclass(slots=True)
class QueueSource:
    """One queue and one tag. `read(lo, limit)`: events from an offset on; `end()`: the next offset.

    `looked_at`: when this replica last read it (POSIX seconds).
    """

    partition: SourcePartition
    lease: str
    holder: str
    state: State
    clock: Clock
    read_events: Callable[[int, int], Awaitable[Sequence[SourceEvent]]]
    end: Callable[[], Awaitable[int]]
    reached: bool = False
    trouble: str = ""
    looked_at: float | None = None
    paused: bool = False
    hint: asyncio.Event = field(default_factory=asyncio.Event)
    _end_at_start: int = 0

    async def run(self, intake: SourceIntake) -> None:
        """Take the lease, read while it is held, give it back; for ever."""
        while True:
            try:
                if await self.state.lease(self.lease, self.holder, LEASE_SECONDS):
                    await self._hold(intake)
                self.reached, self.trouble = True, ""
            except Outage as error:
                self.trouble = str(error)
            await anyio.sleep(1.0)

    async def _hold(self, intake: SourceIntake) -> None:
        self._end_at_start = await self.end()
        starts = await intake.assigned({self.partition: LogBounds(None, 0, self._end_at_start)})
        try:
            if self.partition in starts:
                await self._read(intake, starts[self.partition])
            else:
                await self._wait_for_listeners()
        finally:
            with anyio.CancelScope(shield=True):
                with suppress(LoopEnded):
                    await intake.revoked([self.partition])
                await self._give_back()

    async def _read(self, intake: SourceIntake, lo: int) -> None:
        """Until the lease is lost, or cannot be renewed in time."""
        renewed_at = renew_tried_at = self.clock.now()
        while self.clock.now() - renewed_at < LEASE_SECONDS:
            try:
                if self.clock.now() - renew_tried_at >= RENEW_SECONDS:
                    renew_tried_at = self.clock.now()
                    if not await self.state.lease(self.lease, self.holder, LEASE_SECONDS):
                        return
                    renewed_at = renew_tried_at
                self.hint.clear()
                self.looked_at = self.clock.now()
                spans = [] if self.paused else await self._spans(lo, None)
                self.trouble = ""
            except Outage as error:
                self.trouble = str(error)
                await anyio.sleep(POLL_SECONDS)
                continue
            for span in spans:
                await intake.offer_events(span)
                lo = span.hi
            if not spans:
                with anyio.move_on_after(POLL_SECONDS):
                    await self.hint.wait()

    async def _wait_for_listeners(self) -> None:
        """Nobody here reads it: hold nothing up, look again soon."""
        await anyio.sleep(POLL_SECONDS)

    async def read(self, lo: int, hi: int) -> Sequence[Span]:
        """A reader of one's own: at least one span that begins at `lo`; what the queue does not hold any more is a hole."""
        return await self._spans(lo, hi) or [Span(self.partition, lo, hi, self.clock.now(), events=())]

    async def _spans(self, lo: int, hi: int | None) -> list[Span]:
        events = whole_snapshots(await self.read_events(lo, EVENTS_PER_SPAN_MAX), EVENTS_PER_SPAN_MAX)
        mine = [e for e in events if hi is None or e.offset < hi]
        if not mine:
            return []
        to = mine[-1].offset + 1
        if hi is not None and len(mine) < len(events):
            to = hi
        first = mine[0]
        at = first.committed_at if isinstance(first, AssetUpdated) else first.requested_at
        arrived_at = at if to <= self._end_at_start else self.clock.now()
        return [Span(self.partition, lo, to, arrived_at, sum(e.size_bytes for e in mine), events=tuple(mine))]

    async def _give_back(self) -> None:
        try:
            await self.state.release(self.lease, self.holder)
        except Outage:
            return  # it runs out by itself


def whole_snapshots(events: Sequence[SourceEvent], limit: int) -> Sequence[SourceEvent]:
    """Of a full read, what does not cut a snapshot in two: updates of one snapshot reach a consumer as one run."""
    if len(events) < limit:
        return events
    last = events[-1]
    if isinstance(last, RunRequested) or last.snapshot_id is None:
        return events
    kept = [e for e in events if not (isinstance(e, AssetUpdated) and (e.lake, e.snapshot_id) == (last.lake, last.snapshot_id))]
    return kept or events
