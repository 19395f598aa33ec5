"""What the runtime asks of the world: narrow protocols, each with the values that pass through it.

Authority: PostgreSQL (`State`) says what is settled, who holds a lease and how a run ended; the lake (`Lake`) holds rows; a source only
repeats what its log says. Blocking methods say so and are called in a worker thread; all others are coroutines on the event loop. Every
method may raise `Outage`; what else it raises stands with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol
from uuid import UUID

from reactor.domain.decisions import Decision
from reactor.domain.events import AssetUpdated, RunRequested
from reactor.domain.runs import PartitionCounts, RunId, RunState, Strategy, Trigger, UpstreamSnapshot
from reactor.domain.scripts import Routing, Script
from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, SourcePartition, Span, Token
from reactor.errors import Fatal

if TYPE_CHECKING:
    import pyarrow as pa


class Clock(Protocol):
    """Time, as an argument for everybody below the runtime."""

    def now(self) -> float:
        """POSIX seconds; never goes back."""
        ...


# ---------------------------------------------------------------------------------------------------------------- sources


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


# ---------------------------------------------------------------------------------------------------------------- the lake


@dataclass(frozen=True, slots=True)
class SliceInput:
    """What one asset partition of a run is made from. `start`, `end`: UTC bounds as RFC 3339 text, None for dynamic or none.

    `parts`: (source partition, lo, hi, payload of the piece): rows below `lo` are already settled and must be left out.
    """

    asset_partition: str
    start: str | None = None
    end: str | None = None
    parts: Sequence[tuple[SourcePartition, int, int, object]] = ()


@dataclass(frozen=True, slots=True)
class StageOrder:
    """Evaluate a managed script for these slices (one, or for append all due ones).

    `table_uuid`: the table that the script's positions belong to; another one under that name blocks the run. None: not known yet.
    """

    script: Script
    slices: Sequence[SliceInput]
    replace_slice: bool = False
    table_uuid: UUID | None = None


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The columns of the table as they will be: [(name, type)], and `sha256:` + hex of their compact JSON."""

    columns: tuple[tuple[str, str], ...]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Drift:
    """How the SELECT differs from the table (MT-13), by column name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    type_changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What a lake transaction is about to commit. `changed` False: nothing was written, the run completes without a snapshot.

    `counts` is aligned with the slices of the order. A commit that only quarantines has `changed` True and no rows: its assets did not change.
    """

    changed: bool
    counts: tuple[PartitionCounts, ...]


class Staged(Protocol):
    """One staged run. Its rows survive a refused commit; every method blocks and is called from one worker thread at a time."""

    @property
    def schema(self) -> SchemaVersion | None:
        """The columns of the table after the commit; None if the run leaves the table alone."""
        ...

    @property
    def drift(self) -> Drift:
        """How the SELECT differs from the table."""
        ...

    @property
    def compiled_sql(self) -> str:
        """What the run executes of the script."""
        ...

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by stage, as far as it has come."""
        ...

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Records by what became of them: committed, filtered, quarantined, tombstone, duplicate, skewed (metric `events_settled`)."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What the run's result and the log say (rows with a NULL in their key)."""
        ...

    @property
    def rows(self) -> int:
        """Staged rows."""
        ...

    @property
    def stale(self) -> bool:
        """Whether what was staged is of no more use (its instance is gone, the table has other columns by now): close it and stage again."""
        ...

    def write(self, run_id: RunId) -> Written:
        """BEGIN, the mark first, the rows. Raises `Conflict`, `RunFailed`, `RunBlocked`, `Outage`; after any of them nothing is open."""
        ...

    def commit(self) -> None:
        """The mark with its counts, keep the files, COMMIT. An exception says nothing about the outcome: ask `State.verdict`."""
        ...

    def rollback(self) -> None:
        """Give the open transaction up; harmless when none is open."""
        ...

    def settled(self, *, committed: bool) -> None:
        """The run row has spoken: link back the files that the catalog names, drop the kept links (commit.md 7)."""
        ...

    def close(self) -> None:
        """Drop what was staged."""
        ...


class Lake(Protocol):
    """All lakes of an installation, in one DuckDB instance. Methods block."""

    def stage(self, order: StageOrder) -> Staged:
        """Decode, evaluate the SELECT once, check it. Raises `RunFailed` (counted), `RunBlocked` (no retry helps), `Outage`."""
        ...

    def ensure_table(self, script: Script) -> UUID | None:
        """The uuid of the target table, which is made, empty, if the script reads `batch` and binds; None while there is none."""
        ...

    def away(self) -> Mapping[str, str]:
        """Lakes whose files cannot be reached now, each with why."""
        ...

    def rebuild(self) -> None:
        """DETACH, close, ATTACH anew: after a restored or failed-over database, an INTERNAL error or a COMMIT that never came back."""
        ...

    def close(self) -> None:
        """DETACH and close."""
        ...


# ---------------------------------------------------------------------------------------------------------------- PostgreSQL


@dataclass(frozen=True, slots=True)
class Epoch:
    """Which life of which database: another one means that everything believed must be loaded again (commit.md 5, *Restore*)."""

    started_at: str
    database_oid: int


@dataclass(frozen=True, slots=True)
class NewPosition:
    """A position to insert where there is none. `floor` is resolved already; `table_uuid`: of the lake table it feeds, if there is one."""

    key: PositionKey
    floor: int
    routing: str
    started_from: str
    topic_id: str | None = None
    table_uuid: UUID | None = None


@dataclass(frozen=True, slots=True)
class PartitionClaim:
    """What a commit makes of one asset partition. `compare`: name the token (all strategies but append from `batch`); None: no row believed."""

    asset_partition: str
    compare: bool
    believed: Token | None = None
    start: str | None = None
    end: str | None = None


@dataclass(frozen=True, slots=True)
class NewRun:
    """The run row, written before the lake transaction begins. `partitions` in the order of the slices of the order, as the counts.

    `joins`: arrivals that the run uses up, as (asset partition, event id). `timings`: seconds by stage, as far as they are known by then.
    `decisions`: what it carries out, for the decision log.
    """

    run_id: RunId
    script: Script
    consumer: Consumer
    lake: str
    trigger: Trigger
    positions: Sequence[PositionClaim]
    partitions: Sequence[PartitionClaim]
    strategy: Strategy | None = None
    schema: SchemaVersion | None = None
    compiled_sql: str = ""
    cascade: bool = True
    actor: str = ""
    drift: Drift = field(default_factory=Drift)
    joins: Sequence[tuple[str, str]] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    decisions: Sequence[Decision] = ()


@dataclass(frozen=True, slots=True)
class Arrival:
    """An input of a join that is in, for one asset partition of the consumer. `event`: what the trigger payload will say of it."""

    asset_partition: str
    event_id: str
    asset: str
    event: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended, asked on another connection (commit.md 6).

    `trigger_missing`: a snapshot carries the running run, or the lake's commit trigger would not fire: the lake halts. `ended`: failed
    or aborted. `schema_version`: the one that began with this run, None: the columns are those of before.
    """

    kind: Literal["completed", "running", "trigger_missing", "ended", "gone"]
    snapshot_id: int | None = None
    changed: bool = False
    schema_version: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionTokens:
    """Tokens of asset partitions (None: no row), the life of the database they were read in, and the table that the positions belong to."""

    tokens: Mapping[str, Token | None]
    epoch: Epoch
    table_uuid: UUID | None = None


class State(Protocol):
    """Reactor's own tables, in the database that holds the lakes' catalogs. Nothing here decides by a plain SELECT."""

    async def load(self, keys: Collection[PositionKey]) -> Mapping[PositionKey, Position]:
        """Stored positions; a key that is missing from the answer has none."""
        ...

    async def insert_positions(self, positions: Collection[NewPosition]) -> None:
        """Insert those that are absent; an existing one stays as it is."""
        ...

    async def settle(self, claims: Collection[PositionClaim]) -> tuple[Token, frozenset[PositionKey]]:
        """Move floors that no run carries; each stands alone. The token of those that moved, and the keys that were refused."""
        ...

    async def reset(self, key: PositionKey, floor: int, topic_id: str | None, started_from: str, reason: str, *,
                    believed: Token | None = None, table_uuid: UUID | None = None) -> bool:
        """`positions reset`, a jump over a lost range, a re-created topic: new floor, no fences. False: no such position.

        `believed`: the token that the decision was made on (a jump); then False also if it is another by now: load, and look again. None
        is for an operator's word only: a replica that slept would set the position back.
        """
        ...

    async def arrive(self, consumer: Consumer, arrivals: Sequence[Arrival], claims: Collection[PositionClaim]) -> Token:
        """Write arrivals of a join with the join's position, all or nothing; the new token. Raises `Conflict`: load again."""
        ...

    async def arrivals(self, consumer: Consumer) -> Sequence[Arrival]:
        """The arrivals that no run has used up, oldest first."""
        ...

    async def switch(self, key: PositionKey, believed: Token, routing: str) -> bool:
        """New routing takes over at a common cut. False: the token is another, or some stream stands elsewhere."""
        ...

    async def record_gap(self, key: PositionKey, lo: int, hi: int, reason: str) -> None:
        """Offsets `[lo, hi)` were lost before they were read; shown until acknowledged."""
        ...

    async def partition_tokens(self, asset: str, asset_partitions: Collection[str]) -> PartitionTokens:
        """Read before the lake transaction begins, and not again."""
        ...

    async def epoch(self) -> Epoch:
        """The life of the database, for the moment of ATTACH."""
        ...

    async def upstream_snapshots(self, assets: Collection[str]) -> Sequence[UpstreamSnapshot]:
        """The newest materialization of each; those never materialized have no entry."""
        ...

    async def insert_run(self, run: NewRun) -> None:
        """State `running`, with its claims; its decisions name it from the same transaction on."""
        ...

    async def complete(self, run_id: RunId, counts: Sequence[PartitionCounts]) -> None:
        """The commit of a run that made no snapshot: positions and freshness move, no event. Again for the same run: no change, same answer.

        Raises `Conflict` (a token is another, or the run is not running: decide from `verdict`).
        """
        ...

    async def append_log(self, run_id: RunId, chunk: int, text: str, keep_from: int) -> None:
        """A piece of what a run says, numbered from 0; pieces below `keep_from` go. Once more changes nothing, nor if there is no such run."""
        ...

    async def verdict(self, run_id: RunId, lake: str, snapshot_before: int) -> Verdict:
        """Run row, snapshots above `snapshot_before` with our mark and the trigger's state, in one statement."""
        ...

    async def last_snapshot(self, lake: str) -> int:
        """The newest snapshot id of a lake."""
        ...

    async def abort(self, run_id: RunId) -> RunState | None:
        """Set `aborted` if it still is running (waits for a commit on its way); the state it has then, None: no such run."""
        ...

    async def note_timings(self, run_id: RunId, timings: Mapping[str, float]) -> None:
        """Seconds by stage that were not known when the run's row was written."""
        ...

    async def purge_runs(self, days: int, rows_max: int) -> int:
        """Forget ended runs, with their logs, that are older; how many. At most `rows_max` at once."""
        ...

    async def fail(self, run_id: RunId | None, run: NewRun | None, error: str, *, final: bool) -> None:
        """A run that ended `failed`: the existing row `run_id`, or a new one for a run that failed before it had a row.

        `final`: no retry follows, the asset partitions become `failed` (snapshot and rows of the last good run stay).
        """
        ...

    async def write_decisions(self, decisions: Sequence[Decision]) -> None:
        """Insert those that are absent; of those that wait, what is newer."""
        ...

    async def purge_decisions(self, days: int, limit: int) -> int:
        """Drop at most `limit` of those that are older; how many it were."""
        ...

    async def heartbeat(self) -> None:
        """This replica is alive: at least every 10 s while it may have running runs."""
        ...

    async def abort_silent_runs(self, silent_seconds: float = 30.0) -> Collection[RunId]:
        """Abort the running runs of replicas that have not been heard of for so long."""
        ...

    async def abort_own_runs(self) -> None:
        """Abort all running runs of this replica: a database that was restored, or failed over, may hold some that nobody here knows of.

        One that is under way is refused, and written again.
        """
        ...

    async def pauses(self) -> Collection[Consumer]:
        """The consumers of whom no run is to start."""
        ...

    def commit_lock(self, lake: str, timeout_seconds: float) -> AbstractAsyncContextManager[bool]:
        """The advisory lock around COMMIT; yields False when it timed out (go on: the token keeps the truth)."""
        ...

    async def lease(self, name: str, holder: str, seconds: float) -> bool:
        """Take or renew a lease; False: somebody else holds it."""
        ...

    async def release(self, name: str, holder: str) -> None:
        """Give it back, if it is ours."""
        ...

    async def read_outbox(self, lo: int, limit: int) -> Sequence[AssetUpdated]:
        """Number what is committed and unnumbered, then the events at offsets >= lo, in order."""
        ...

    async def read_published(self, lo: int, limit: int) -> tuple[int, Sequence[Mapping[str, object]]]:
        """What publishers send (CloudEvents, conventions 1) of at most `limit` rows from offset `lo` on, and the offset behind them."""
        ...

    async def outbox_next(self) -> int:
        """The next offset of the outbox: *now*, for a new subscriber."""
        ...

    async def request_run(self, *, script: str, partition: str, actor: str, reason: str = "manual", cascade: bool = True,
                          replace_slice: bool = False, arguments: Mapping[str, object] | None = None) -> tuple[int, str]:
        """Ask for a run: its offset in the inbox, and the event id that the trigger of its runs will name."""
        ...

    async def read_inbox(self, lo: int, limit: int) -> Sequence[RunRequested]:
        """Runs asked for by hand, at offsets >= lo, in order."""
        ...
