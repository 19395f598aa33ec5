"""What a run asks of the lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from reactor.domain.runs import PartitionCounts, RunId
from reactor.domain.scripts import Script
from reactor.domain.spans import SourcePartition


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
