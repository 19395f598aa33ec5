"""Spans and positions: how far whom has read what.

A *source partition* is one ordered log (a Kafka topic-partition, the outbox, the inbox). A *span* is consecutive offsets of one source
partition, as the source handed them over; a *piece* is what of a span goes to one asset partition of one routing. The core moves pieces
and never looks into them. A *position* says how far a consumer has settled a source partition: all below `floor` for every stream, and
`fences` are the exceptions (above the floor: further; below: blocked). The same words name the tables `position` and `fence`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NewType
from uuid import UUID

Consumer = NewType("Consumer", str)
"""Who reads: the URI of a managed asset, or the path of a program's script."""
Token = NewType("Token", UUID)
"""`last_run`: the last run or operation that changed a row. A commit names the one it believes."""

WHOLE = ""
"""The asset partition of an asset that has none."""
UNROUTED = "!"
"""The asset partition of records that have none (no event time, bad key): a slice like any other, all of it quarantined."""


class SourcePartition(NamedTuple):
    """One ordered log: `kafka://main/orders` and `0`; `outbox://prod` and ``."""

    source: str
    number: str

    def __str__(self) -> str:
        return f"{self.source}/{self.number}" if self.number else self.source


class PositionKey(NamedTuple):
    """The key of a position row."""

    consumer: Consumer
    source_partition: SourcePartition


@dataclass(frozen=True, slots=True)
class Position:
    """What is stored of one consumer on one source partition. `fences`: asset partition → next offset, only where it is not the floor.

    `table_uuid`: the lake table that it feeds (commit.md 7), None while that is not known or there is none.
    """

    floor: int
    token: Token
    routing: str
    topic_id: str | None = None
    started_from: str = ""
    fences: Mapping[str, int] = field(default_factory=dict)
    table_uuid: UUID | None = None

    def at(self, asset_partition: str) -> int:
        """Next offset of a stream."""
        return self.fences.get(asset_partition, self.floor)

    @property
    def low(self) -> int:
        """Where reading would have to start so that no stream misses a record: lag, gaps and the group offset are measured from here."""
        return min((self.floor, *self.fences.values()))


@dataclass(frozen=True, slots=True)
class PositionClaim:
    """What a commit makes of one position: it holds only if `believed` is still the stored token.

    `rows` is the difference of the fence rows: asset partition → next offset, or None where the row goes.
    """

    key: PositionKey
    believed: Token
    floor: int
    rows: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one span for one asset partition. Offsets are half-open: `[lo, hi)`; rows and bytes are upper bounds once `lo` was raised.

    `size_bytes`: of the records as they came; `beside_bytes`: of what was read from them and waits beside them. `first`: nothing of its slice
    waited when it came, so what is decided of the slice begins with it.
    """

    lo: int
    hi: int
    rows: int
    size_bytes: int
    payload: object
    first: bool = False
    beside_bytes: int = 0

    @property
    def memory_bytes(self) -> int:
        """What it holds while it waits."""
        return self.size_bytes + self.beside_bytes


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive offsets `[lo, hi)` of one source partition; `lo` is where the span before ended, so holes belong to a span.

    `events`: of a queue, routed by the core; None: records, split by the source. `pieces`: fingerprint of a routing that records were split by →
    asset partition → piece; whoever reads by another routing has to have them read again. `arrived_at`: POSIX seconds.
    """

    source_partition: SourcePartition
    lo: int
    hi: int
    arrived_at: float
    size_bytes: int = 0
    pieces: Mapping[str, Mapping[str, Piece]] = field(default_factory=dict)
    events: tuple[object, ...] | None = None


def outbox_of(workspace: str) -> SourcePartition:
    """Where the commits of a workspace are read, in commit order."""
    return SourcePartition(f"outbox://{workspace}", "")


def inbox_of(workspace: str) -> SourcePartition:
    """Where a workspace is asked for runs."""
    return SourcePartition(f"inbox://{workspace}", "")
