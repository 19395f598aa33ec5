"""What operators look at: runs, materialized partitions, tables, schema versions, gaps. Read only; nothing is decided by these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from reactor.domain.assets import LakeTable
from reactor.domain.runs import RunId, RunState
from reactor.state.database import Part


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run, as lists show it. Rows are sums over its asset partitions, None until it has completed."""

    run_id: UUID
    root_run_id: UUID
    script: str
    asset: str | None
    lake: str
    partition: str
    state: RunState
    reason: str
    attempt: int
    actor: str
    replica: str
    snapshot_id: int | None
    rows_inserted: int | None
    rows_deleted: int | None
    error: str | None
    fired_at: datetime
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunRecord(RunSummary):
    """All that is kept of one run. `timings`: seconds by stage; `claims`: what its commit made, or would have made, of the state."""

    script_version: str
    consumer: str
    strategy: str | None
    cascade: bool
    trigger: Mapping[str, object]
    claims: Mapping[str, object]
    drift: Mapping[str, Sequence[str]]
    timings: Mapping[str, float]
    compiled_sql: str


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of what a run said. The first that is kept has a number above 0 if it said more than is kept."""

    chunk: int
    text: str
    logged_at: datetime


@dataclass(frozen=True, slots=True)
class MaterializedPartition:
    """The state of one asset partition. Snapshot and rows are those of the last good run, whatever `status` says."""

    partition: str
    status: Literal["running", "materialized", "failed"]
    error: str | None
    snapshot_id: int | None
    previous_snapshot_id: int | None
    rows_inserted: int | None
    rows_deleted: int | None
    schema_version: int | None
    updated_at: datetime | None
    checked_at: datetime | None
    failed_at: datetime | None


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A materialized asset: its newest snapshot and how many of its partitions are in which state."""

    asset: str
    snapshot_id: int | None
    updated_at: datetime | None
    checked_at: datetime | None
    schema_version: int | None
    materialized: int
    failed: int


@dataclass(frozen=True, slots=True)
class SchemaRecord:
    """One schema version; `columns` as [name, type]."""

    version: int
    fingerprint: str
    columns: Sequence[Sequence[str]]
    run_id: UUID
    snapshot_id: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `[lo, hi)` that were lost before they were read."""

    id: int
    consumer: str
    source: str
    source_partition: str
    lo: int
    hi: int
    reason: str
    found_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None


class Listing(Part):
    """Lists for the CLI, the API and the console."""

    async def runs(
        self, of: str | None = None, state: RunState | None = None, before: RunId | None = None, limit: int = 50,
    ) -> Sequence[RunSummary]:
        """Newest first; `of`: an asset or a script's path; `before`: the last run id of the page before."""
        return [RunSummary(**row) for row in await self._db.rows("list_runs", self._workspace, of, state, before, limit)]

    async def run(self, run_id: RunId) -> RunRecord | None:
        """One run, whole."""
        row = await self._db.row("get_run", run_id)
        return RunRecord(**row) if row else None

    async def runs_between(self, lo: UUID, hi: UUID, limit: int) -> Sequence[RunId]:
        """Ids in `[lo, hi]`, newest first."""
        return [RunId(row["id"]) for row in await self._db.rows("runs_between", self._workspace, lo, hi, limit)]

    async def log(self, run_id: RunId, chunk: int = 0) -> tuple[RunState, Sequence[LogChunk]] | None:
        """The state of a run and what it said from this chunk on; if it has ended then, that is all. None: no such run."""
        rows = await self._db.rows("run_log", run_id, chunk)
        if not rows:
            return None
        return rows[0]["state"], [LogChunk(r["chunk"], r["text"], r["logged_at"]) for r in rows if r["chunk"] is not None]

    async def runs_of_request(self, event_id: str) -> Sequence[RunSummary]:
        """What came of a request: the runs whose trigger names it, oldest first; none yet while it waits."""
        return [RunSummary(**row) for row in await self._db.rows("runs_of_request", event_id)]

    async def partitions(self, asset: str) -> Sequence[MaterializedPartition]:
        """Known asset partitions, newest key first; `running` is what a live run writes now."""
        return [MaterializedPartition(**row) for row in await self._db.rows("list_partitions", self._workspace, asset)]

    async def tables(self) -> Sequence[TableSummary]:
        """All materialized assets."""
        return [TableSummary(**row) for row in await self._db.rows("list_tables", self._workspace)]

    async def row_counts(self, lake: str) -> Mapping[str, int]:
        """Rows of each table of a lake, by asset URI, as its catalog counts them. Raises `StateForbids` if the lake is not there yet."""
        rows = await self._db.rows("list_row_counts", lake=lake)
        return {LakeTable(lake, row["schema"], row["table"]).uri: row["rows"] for row in rows}

    async def schemas(self, asset: str) -> Sequence[SchemaRecord]:
        """Schema versions, newest first: the first is the contract."""
        return [SchemaRecord(**row) for row in await self._db.rows("list_schemas", self._workspace, asset)]

    async def gaps(self, *, acknowledged: bool = False) -> Sequence[Gap]:
        """Lost ranges, oldest first; acknowledged ones only if asked for."""
        return [Gap(**row) for row in await self._db.rows("list_gaps", acknowledged)]
