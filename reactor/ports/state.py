"""What the runtime asks of PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol
from uuid import UUID

from reactor.domain.decisions import Decision
from reactor.domain.events import AssetUpdated, RunRequested
from reactor.domain.runs import PartitionCounts, RunId, RunState, Strategy, Trigger, UpstreamSnapshot
from reactor.domain.scripts import Script
from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, Token
from reactor.ports.lake import Drift, SchemaVersion


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
    """Tokens of asset partitions (None: no row), the life of the database they were read in, and the table that the positions belong to.

    `materialized`: those of which a snapshot is known.
    """

    tokens: Mapping[str, Token | None]
    epoch: Epoch
    table_uuid: UUID | None = None
    materialized: frozenset[str] = frozenset()


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
