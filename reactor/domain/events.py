"""Events that the core routes: rows of the outbox (something was committed) and of the inbox (somebody asked for a run)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class AssetUpdated:
    """One row of the outbox: an asset partition changed, in one snapshot. `changed = False` is internal: it fires nobody.

    `script` is the producer's path, None for another tool's commit. `committed_at`: POSIX seconds. `rows`: inserted and deleted, what
    `debounce rows=` counts on an asset edge.
    """

    offset: int
    event_id: str
    asset: str
    partition: str
    snapshot_id: int | None
    lake: str
    committed_at: float
    run_id: UUID | None = None
    root_run_id: UUID | None = None
    script: str | None = None
    chain: tuple[str, ...] = ()
    changed: bool = True
    schema_changed: bool = False
    cascade: bool = True
    rows: int = 1
    size_bytes: int = 512


@dataclass(frozen=True, slots=True)
class RunRequested:
    """One row of the inbox: a run by hand. `partition` is the asset partition, already checked. `requested_at`: POSIX seconds."""

    offset: int
    event_id: str
    script: str
    partition: str
    requested_at: float
    actor: str = ""
    reason: str = "manual"
    cascade: bool = True
    replace_slice: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)
    rows: int = 1
    size_bytes: int = 256


SourceEvent = AssetUpdated | RunRequested
