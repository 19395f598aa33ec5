"""What passes between a source and the runtime, and how events leave."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reactor.domain.scripts import Routing
from reactor.domain.spans import SourcePartition, Span
from reactor.errors import Fatal

if TYPE_CHECKING:
    import pyarrow as pa


class Clock(Protocol):
    """Time, as an argument for everybody below the runtime."""

    def now(self) -> float:
        """POSIX seconds; never goes back."""
        ...


@dataclass(frozen=True, slots=True)
class LogBounds:
    """What a log holds: offsets `[start, end)`, and the identity of the log itself (Kafka: `<cluster id>/<topic id>`)."""

    topic_id: str | None
    start: int
    end: int


class OutOfRange(Fatal):
    """A reader of one's own was asked for offsets that the log does not hold. `bounds`: what it holds, None: there is no such log."""

    def __init__(self, partition: SourcePartition, offset: int, bounds: LogBounds | None) -> None:
        held = f"it holds {bounds.start} to {bounds.end}" if bounds else "there is no such log"
        super().__init__(f"{partition} has no offset {offset}: {held}.")
        self.partition, self.offset, self.bounds = partition, offset, bounds


@dataclass(frozen=True, slots=True)
class RawSpan:
    """Consecutive offsets `[lo, hi)` of one source partition as one Arrow table.

    Columns: `offset` int64, `timestamp` timestamp[ms, UTC] (null: the record has none), `key` binary, `value` binary (null: a tombstone),
    `headers` list<struct<name: string, value: binary>>. Holes (compaction, markers, aborted records) have no row but belong to the span.
    """

    source_partition: SourcePartition
    lo: int
    hi: int
    records: pa.Table
    size_bytes: int


class Intake(Protocol):
    """Where a source hands over; the runtime's side of a source. Calls of one source never overlap; a revoke cancels the one under way.

    A method that raises a `Retryable` error is called again; any other error ends `Source.run`.
    """

    async def assigned(self, bounds: Mapping[SourcePartition, LogBounds]) -> Mapping[SourcePartition, int]:
        """These are ours now, and not paused: from which offset to read each. One that is missing from the answer is halted.

        An assignment may come in several calls (a topic that is just being made is told of later).
        """
        ...

    async def revoked(self, partitions: Collection[SourcePartition]) -> None:
        """These are no longer ours: returns when nothing of them can be committed any more, or after 10 s."""
        ...

    async def offer(self, span: RawSpan) -> None:
        """A span of an assigned source partition, in order. Never waits for the lake; the runtime calls `pause` when it has enough."""
        ...

    async def out_of_range(self, partition: SourcePartition, bounds: LogBounds) -> int | None:
        """The next offset is no longer (or not yet) in the log, or the log is another one: where to go on, or None: it is halted.

        Asked again every few seconds about each one that is halted, so that a reset takes effect while running.
        """
        ...


class Source(Protocol):
    """A reader group over the source partitions of one cluster. It never seeks back by itself."""

    async def subscribe(self, topics: Collection[str]) -> None:
        """Read these topics (at least one) from now on: `run` goes on, everything is revoked, and what is still wanted is assigned anew."""
        ...

    async def run(self, intake: Intake) -> None:
        """Read until cancelled (`revoked` is not called then). An outage is waited out inside, with backoff: `reached`, `trouble`."""
        ...

    @property
    def reached(self) -> bool:
        """Whether the source has answered at least once."""
        ...

    @property
    def trouble(self) -> str:
        """What keeps it from reading now, and what to do, in words for health; empty: nothing does."""
        ...

    def pause(self, partitions: Collection[SourcePartition]) -> None:
        """Hand over nothing more of these until `resume`; the group membership stays."""
        ...

    def resume(self, partitions: Collection[SourcePartition]) -> None:
        """Go on where it was paused."""
        ...

    async def read(self, partition: SourcePartition, lo: int, hi: int, size_bytes_max: int) -> Sequence[RawSpan]:
        """A reader of one's own (assigned, no group): spans from `lo` on, at most to `hi`, about `size_bytes_max`, at least one if lo < hi.

        Raises `OutOfRange`.
        """
        ...

    async def bounds(self, partitions: Collection[SourcePartition]) -> Mapping[SourcePartition, LogBounds]:
        """What the logs hold now (`end`: the last stable offset). One that does not exist, or cannot be asked now, is missing."""
        ...

    async def offset_at(self, partition: SourcePartition, timestamp_ms: int, bounds: LogBounds) -> int:
        """The first offset whose record is not older than this; the log's end if there is none. Raises `Outage`."""
        ...

    async def commit(self, offsets: Mapping[SourcePartition, int]) -> None:
        """The group offset, a courtesy: idempotent, ignored for what was revoked, never raises."""
        ...


class Splitter(Protocol):
    """Tells which rows of a raw span go to which asset partition (blocking; a pure function of its arguments)."""

    def split(self, raw: RawSpan, routings: Collection[Routing], arrived_at: float) -> Span:
        """One `Piece` per routing and asset partition. Records that have no slice go to `UNROUTED`. Payloads are what `Lake.stage` reads."""
        ...


class Publisher(Protocol):
    """Somebody outside who is told of commits: at least once, never before the commit, in the order of the outbox."""

    async def publish(self, events: Sequence[Mapping[str, object]]) -> None:
        """CloudEvents as structured JSON objects (conventions 1). Returns when all are acknowledged; raises `Outage` otherwise."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
