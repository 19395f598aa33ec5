"""What the engine asks for (imperative) and what it is told (past tense). Each effect with a ticket is answered by exactly one later input.

Times are POSIX seconds. A `Feed` is a source partition as one group of readers sees it: replicas run tags, and each tag has a group of
its own, so two tags that read one topic have two feeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NewType

from reactor.domain.decisions import Decision
from reactor.domain.scripts import Script
from reactor.domain.spans import Consumer, Piece, Position, PositionClaim, PositionKey, SourcePartition, Span, Token

Ticket = NewType("Ticket", int)


class Feed(NamedTuple):
    """A source partition and the tag whose readers share it."""

    tag: str
    source_partition: SourcePartition


@dataclass(frozen=True, slots=True)
class RunSlice:
    """One asset partition of a run: (source partition, to, pieces) of each source partition that feeds it. `due_at`: since when it was due."""

    asset_partition: str
    parts: tuple[tuple[SourcePartition, int, tuple[Piece, ...]], ...]
    due_at: float | None = None


# -- effects


@dataclass(frozen=True, slots=True)
class StartRun:
    """Stage these slices and commit them with these claims. Answered by `Outcome`.

    `last_attempt`: a failure is final. `exclusive`: needs the lane's lease. `attempt` counts from 1.
    """

    ticket: Ticket
    consumer: Consumer
    script: Script
    slices: tuple[RunSlice, ...]
    claims: tuple[PositionClaim, ...]
    attempt: int
    last_attempt: bool
    exclusive: bool


@dataclass(frozen=True, slots=True)
class WriteAgain:
    """The staged slices of a refused run in a new transaction with these claims. Answered by `Outcome`."""

    ticket: Ticket
    claims: tuple[PositionClaim, ...]
    refusals: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Drop what a refused run has staged. Not answered."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Settle:
    """Move these floors; no run carries them. Answered by `Settled`."""

    ticket: Ticket
    claims: tuple[PositionClaim, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Load these positions. Answered by `Engine.loaded`."""

    keys: tuple[PositionKey, ...]


@dataclass(frozen=True, slots=True)
class SwitchRouting:
    """New routing at a common cut. Answered by `Switched`."""

    ticket: Ticket
    key: PositionKey
    believed: Token
    routing: str


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A reader of one's own: offsets `[lo, hi)`, all asset partitions or one (a blocked stream). Answered by `RangeRead`."""

    ticket: Ticket
    feed: Feed
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Nobody takes the shared reader's spans: hold it."""

    feed: Feed


@dataclass(frozen=True, slots=True)
class Resume:
    """Somebody does again."""

    feed: Feed


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """The group offset, a courtesy."""

    feed: Feed
    offset: int


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a span for one lane (DP-12). Not answered."""

    decisions: tuple[Decision, ...]


Effect = StartRun | WriteAgain | Discard | Settle | Load | SwitchRouting | ReadRange | Pause | Resume | CommitPosition | Decided


# -- inputs


@dataclass(frozen=True, slots=True)
class Committed:
    """The run is completed; `token` is its id."""

    ticket: Ticket
    token: Token


@dataclass(frozen=True, slots=True)
class Refused:
    """Not completed, for whatever reason but the script's: what is stored now of each claimed position (missing: there is none)."""

    ticket: Ticket
    stored: Mapping[PositionKey, Position]


@dataclass(frozen=True, slots=True)
class Failed:
    """The script's own work failed. `blocking`: no retry helps."""

    ticket: Ticket
    error: str
    blocking: bool = False


@dataclass(frozen=True, slots=True)
class Deferred:
    """It was not tried (the lane's lease is held elsewhere, or a part was away before anything was written)."""

    ticket: Ticket


Outcome = Committed | Refused | Failed | Deferred


@dataclass(frozen=True, slots=True)
class Settled:
    """`token` is stored where the key is not in `refused`; there, what is stored instead (None: no such position)."""

    ticket: Ticket
    token: Token
    refused: Mapping[PositionKey, Position | None]


@dataclass(frozen=True, slots=True)
class Switched:
    """Whether the new routing is stored."""

    ticket: Ticket
    done: bool


@dataclass(frozen=True, slots=True)
class RangeRead:
    """Spans from the asked offset on, contiguous; empty: the source was away, ask again."""

    ticket: Ticket
    spans: Sequence[Span]
