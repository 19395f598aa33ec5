"""A reader of scripted logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from reactor.domain.spans import SourcePartition
from reactor.errors import Retryable
from reactor.ports import Intake, LogBounds, OutOfRange, RawSpan
from reactor.testing.logs import CRASH, PAUSE, ScriptedLogs

T = TypeVar("T")

AGAIN_SECONDS = 0.1
"""After which a call of the intake that was refused for now is made again."""
HALTED_SECONDS = 1.0
"""After which the intake is asked again about what is halted."""


class Crashed(Exception):
    """A reader met `CRASH`."""


@dataclass(slots=True, eq=False)
class ScriptedSource:
    """`ports.Source` over `ScriptedLogs`. `positions`: next offset of each source partition that it reads; None: halted."""

    logs: ScriptedLogs
    group_id: str
    topics: Collection[str]
    reached: bool = False
    trouble: str = ""
    positions: dict[SourcePartition, int | None] = field(default_factory=dict)
    paused: set[SourcePartition] = field(default_factory=set)

    async def subscribe(self, topics: Collection[str]) -> None:
        """See `ports.Source`. What is still wanted is not even revoked."""
        self.logs.left(self)
        self.topics = topics
        self.logs.joined(self)

    async def run(self, intake: Intake) -> None:
        """See `ports.Source`. Returns at an `EOF`; raises `Crashed`."""
        self.logs.joined(self)
        self.reached = True
        try:
            while True:
                change = self.logs.next_change
                await self._follow_group(intake)
                if await self._hand_over(intake):
                    return
                with anyio.move_on_after(HALTED_SECONDS):
                    await change.wait()
                await self._look_at_halted(intake)
        finally:
            self.logs.left(self)

    async def _follow_group(self, intake: Intake) -> None:
        owned = self.logs.owned_by(self)
        if gone := self.positions.keys() - owned:
            for partition in gone:
                del self.positions[partition]
            self.paused -= gone
            await _until_taken(lambda: intake.revoked(gone))
        new = owned - self.positions.keys()
        if gone or new:  # a group tells what is new, even nothing, after what is gone: then what does not come back is let go
            starts = await _until_taken(lambda: intake.assigned(self.logs.bounds(new)))
            self.positions |= {partition: starts.get(partition) for partition in new}

    async def _hand_over(self, intake: Intake) -> bool:
        """Whatever is there. True: an `EOF` was met."""
        for partition in list(self.positions):
            lo = self.positions[partition]
            if lo is None or partition in self.paused:
                continue
            (bounds,) = self.logs.bounds([partition]).values()
            if not bounds.start <= lo <= bounds.end:
                lo = self.positions[partition] = await _asked(intake, partition, bounds)
            if lo is not None and await self._offer(intake, partition, lo):
                return True
        return False

    async def _offer(self, intake: Intake, partition: SourcePartition, lo: int) -> bool:
        span, sentinel = self.logs.upcoming(partition, lo)
        if span is not None:
            await _until_taken(lambda: intake.offer(span))
            self.positions[partition] = span.hi
        if sentinel is None or sentinel is PAUSE:
            return False
        self.logs.met(partition, sentinel)
        if sentinel is CRASH:
            raise Crashed
        return True

    async def _look_at_halted(self, intake: Intake) -> None:
        for partition, position in list(self.positions.items()):
            if position is None and (bounds := self.logs.bounds([partition]).get(partition)):
                self.positions[partition] = await _asked(intake, partition, bounds)

    def pause(self, partitions: Collection[SourcePartition]) -> None:
        """See `ports.Source`."""
        self.paused |= set(partitions)

    def resume(self, partitions: Collection[SourcePartition]) -> None:
        """See `ports.Source`."""
        self.paused -= set(partitions)
        self.logs.wake()

    async def read(self, partition: SourcePartition, lo: int, hi: int, size_bytes_max: int) -> Sequence[RawSpan]:
        """See `ports.Source`."""
        bounds = self.logs.bounds([partition]).get(partition)
        if bounds is None or not bounds.start <= lo <= bounds.end:
            raise OutOfRange(partition, lo, bounds)
        hi = min(hi, bounds.end)
        return [self.logs.span(partition, lo, hi, size_bytes_max)] if lo < hi else []

    async def bounds(self, partitions: Collection[SourcePartition]) -> Mapping[SourcePartition, LogBounds]:
        """See `ports.Source`."""
        return self.logs.bounds(partitions)

    async def offset_at(self, partition: SourcePartition, timestamp_ms: int, bounds: LogBounds) -> int:
        """See `ports.Source`."""
        records = self.logs.span(partition, bounds.start, bounds.end).records
        stamped = zip(records["offset"].to_pylist(), records["timestamp"].cast("int64").to_pylist(), strict=True)
        return next((offset for offset, at in stamped if at is not None and at >= timestamp_ms), bounds.end)

    async def commit(self, offsets: Mapping[SourcePartition, int]) -> None:
        """See `ports.Source`."""
        self.logs.group_offsets |= {(self.group_id, p): offset for p, offset in offsets.items() if p in self.positions}


async def _asked(intake: Intake, partition: SourcePartition, bounds: LogBounds) -> int | None:
    return await _until_taken(lambda: intake.out_of_range(partition, bounds))


async def _until_taken(call: Callable[[], Awaitable[T]]) -> T:
    """A call of the intake, again as long as it raises `Retryable`."""
    while True:
        try:
            return await call()
        except Retryable:
            await anyio.sleep(AGAIN_SECONDS)
