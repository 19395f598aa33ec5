"""What a PostgreSQL with its lakes holds, in memory, and the commit, which is one transaction over all of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Literal
from uuid import UUID

from reactor.domain.events import AssetUpdated, RunRequested
from reactor.domain.runs import PartitionCounts, RunId, RunState
from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, Token
from reactor.errors import Conflict, Outage, StateForbids
from reactor.ports import Arrival, NewRun, PartitionClaim
from reactor.testing.memory_events import Happened, cloud_event, told

Row = Mapping[str, object]
"""A row of a table: column → value."""
RowId = tuple[RunId, int]
"""The run that made a row, and its number there."""
NOTHING = PartitionCounts(0, 0)


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """A table of a lake. `rows`: (asset partition, row) of each. `columns` is empty until the first rows say what it has."""

    uuid: UUID
    sliced: bool
    columns: tuple[tuple[str, str], ...] = ()
    rows: Mapping[RowId, tuple[str, Row]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as it is stored."""

    run: NewRun
    replica: str
    timings: Mapping[str, float]
    state: RunState = "running"
    snapshot_id: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """The state of an asset partition. Snapshot, version and counts are those of the last run that changed it."""

    token: Token
    status: Literal["materialized", "failed"] = "materialized"
    snapshot_id: int | None = None
    previous_snapshot_id: int | None = None
    schema_version: int | None = None
    counts: PartitionCounts = NOTHING


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """A schema version of an asset, and the run and snapshot that it began with."""

    fingerprint: str
    run_id: RunId
    snapshot_id: int


@dataclass(slots=True)
class Tables:
    """All that is stored. Values are never changed in place, so a copy of the dicts is a copy of it all.

    `snapshots`: of each lake, by id: the run whose mark it carries, None for a table made ahead. `outbox`: by offset, with the CloudEvent.
    `decisions`: by key, when each was taken (POSIX seconds).
    """

    snapshots: dict[str, tuple[RunId | None, ...]] = field(default_factory=dict)
    content: dict[str, MemoryTable] = field(default_factory=dict)
    positions: dict[PositionKey, Position] = field(default_factory=dict)
    gaps: dict[tuple[PositionKey, int, int], str] = field(default_factory=dict)
    arrivals: dict[tuple[Consumer, str, str], Arrival] = field(default_factory=dict)
    runs: dict[RunId, RunRow] = field(default_factory=dict)
    logs: dict[tuple[RunId, int], str] = field(default_factory=dict)
    partitions: dict[tuple[str, str], PartitionRow] = field(default_factory=dict)
    schemas: dict[str, tuple[SchemaRow, ...]] = field(default_factory=dict)
    decisions: dict[object, float] = field(default_factory=dict)
    outbox: dict[int, tuple[AssetUpdated, Mapping[str, object]]] = field(default_factory=dict)
    inbox: dict[int, RunRequested] = field(default_factory=dict)
    leases: dict[str, tuple[str, float]] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    pauses: dict[Consumer, str] = field(default_factory=dict)

    def copy(self) -> Tables:
        """As they are now."""
        return Tables(**{each.name: dict(getattr(self, each.name)) for each in fields(self)})

    def restore(self, before: Tables) -> None:
        """As they were then, in place: who holds them goes on with them."""
        for each in fields(self):
            stored = getattr(self, each.name)
            stored.clear()
            stored.update(getattr(before, each.name))


class MemoryDatabase:
    """What `MemoryState` and `MemoryLake` share; any thread may use it.

    A test may read `tables`, and say: `now` (the database's clock, POSIX seconds), `away` (why it does not answer: everything raises `Outage`),
    `untriggered` (lakes that publish rows without the commit trigger), `answers_lost` (how many COMMITs from now on happen without an
    answer), `life` (another one is another epoch).
    """

    def __init__(self, lakes: Collection[str] = ("main",), *, installation: str = "local", workspace: str = "prod",
                 now: Callable[[], float] = time.time) -> None:
        self.installation, self.workspace, self.now = installation, workspace, now
        self.tables = Tables(snapshots=dict.fromkeys(lakes, (None,)))
        self.away, self.untriggered, self.answers_lost, self.life = "", set[str](), 0, 1
        self.commit_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._lock = threading.RLock()

    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        """Nothing else happens meanwhile; all that is written within stays, or, if it raises, nothing of it. Raises `Outage`."""
        with self._lock:
            if self.away:
                raise Outage(self.away)
            before = self.tables.copy()
            try:
                yield self.tables
            except BaseException:
                self.tables.restore(before)
                raise

    def last_snapshot(self, lake: str) -> int:
        """The newest snapshot id. Raises `StateForbids`: there is no such lake."""
        if lake not in self.tables.snapshots:
            raise StateForbids(f"there is no lake {lake}")
        return len(self.tables.snapshots[lake]) - 1

    def publish(self, lake: str, run_id: RunId | None, counts: Sequence[PartitionCounts] = ()) -> int:
        """The end of a lake transaction: a snapshot, and what the trigger does with its mark. Its id. Raises `Conflict`: nothing of it is."""
        with self.transaction() as tables:
            snapshot_id = self.last_snapshot(lake) + 1
            tables.snapshots[lake] = (*tables.snapshots[lake], run_id)
            if run_id is not None and lake not in self.untriggered:
                self.complete(run_id, counts, lake, snapshot_id)
            return snapshot_id

    def complete(self, run_id: RunId, counts: Sequence[PartitionCounts], lake: str | None = None, snapshot_id: int | None = None) -> None:
        """What a commit makes of the state, by the claims in the run's row; without a snapshot, nothing has changed. Raises `Conflict`."""
        with self.transaction() as tables:
            row = tables.runs.get(run_id)
            if row is None or row.state != "running" or lake not in {None, row.run.lake} or len(counts) != len(row.run.partitions):
                raise Conflict("reactor RF002: the run is not running, or its mark has no counts")
            tables.runs[run_id] = replace(row, state="completed", snapshot_id=snapshot_id)
            run = row.run
            if self.move(Token(run_id), run.positions):
                raise Conflict("reactor RF001: position")
            version, fresh = self._schema(run, snapshot_id)
            for claim, count in zip(run.partitions, counts, strict=True):
                changed = snapshot_id is not None and (fresh or count != NOTHING)
                stands = replace(self._stands(run, claim), token=Token(run_id), status="materialized")
                tables.partitions[asset_of(run), claim.asset_partition] = stands if not changed else replace(
                    stands, snapshot_id=snapshot_id, previous_snapshot_id=stands.snapshot_id, schema_version=version, counts=count)
            for join in run.joins:
                if tables.arrivals.pop((run.consumer, *join), None) is None:
                    raise Conflict("reactor RF001: join")
            self._tell(run, snapshot_id, schema_changed=fresh)

    def move(self, me: Token, claims: Collection[PositionClaim]) -> frozenset[PositionKey]:
        """Move the positions whose token is the believed one; the others."""
        with self.transaction() as tables:
            refused = set()
            for claim in claims:
                stored = tables.positions.get(claim.key)
                if stored is None or stored.token != claim.believed:
                    refused.add(claim.key)
                    continue
                fences = {name: at for name, at in {**stored.fences, **claim.rows}.items() if at is not None}
                tables.positions[claim.key] = replace(stored, floor=claim.floor, token=me, fences=fences)
            return frozenset(refused)

    def _schema(self, run: NewRun, snapshot_id: int | None) -> tuple[int | None, bool]:
        """The schema version of the asset after the run, and whether it begins with it."""
        asset, known = asset_of(run), self.tables.schemas.get(asset_of(run), ())
        if snapshot_id is None or run.schema is None or (known and known[-1].fingerprint == run.schema.fingerprint):
            return len(known) or None, False
        self.tables.schemas[asset] = (*known, SchemaRow(run.schema.fingerprint, run.run_id, snapshot_id))
        return len(known) + 1, True

    def _stands(self, run: NewRun, claim: PartitionClaim) -> PartitionRow:
        """The state of an asset partition before the run. Raises `Conflict`: it is not what the run believes."""
        stored = self.tables.partitions.get((asset_of(run), claim.asset_partition))
        if claim.compare and (stored.token if stored else None) != claim.believed:
            raise Conflict("reactor RF001: asset partition")
        return stored or PartitionRow(Token(run.run_id))

    def _tell(self, run: NewRun, snapshot_id: int | None, *, schema_changed: bool) -> None:
        """An event for each asset partition; what the run did not change is internal."""
        source, at = f"reactor://{self.installation}/{self.workspace}/{run.lake}", self.now()
        for claim in sorted(run.partitions, key=lambda claim: claim.asset_partition):
            row = self.tables.partitions[asset_of(run), claim.asset_partition]
            changed = snapshot_id is not None and row.snapshot_id == snapshot_id
            happened = Happened(
                asset_of(run), claim, at, snapshot_id if changed else None, row.previous_snapshot_id, row.schema_version,
                row.counts if changed else NOTHING, changed=changed, schema_changed=schema_changed)
            event, offset = cloud_event(source, run, happened), len(self.tables.outbox)
            self.tables.outbox[offset] = told(offset, run, happened, event), event


def asset_of(run: NewRun) -> str:
    """What a run materializes; empty for one that makes nothing, which has no asset partitions either."""
    target = run.script.header.materialize
    return target.asset if target else ""
