"""Runs: one attempt to materialize, its trigger and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NewType
from uuid import UUID

RunId = NewType("RunId", UUID)

RunState = Literal["queued", "running", "completed", "failed", "aborted"]
Reason = Literal["asset", "kafka", "s3", "file", "schedule", "webhook", "manual", "backfill", "freshness", "replay", "external"]
Strategy = Literal["replace", "merge", "append", "scd2", "manual"]

CHAIN_MAX = 64
"""Scripts in one cascade."""


def new_run_id(now: float, entropy: bytes) -> RunId:
    """A UUIDv7 (RFC 9562, section 5.7) of POSIX seconds and ten random bytes: ids sort by the time they were made."""
    value = int(now * 1000) << 80 | int.from_bytes(entropy[:10], "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return RunId(UUID(int=value))


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """What a run did to one asset partition, in rows."""

    inserted: int
    deleted: int


@dataclass(frozen=True, slots=True)
class UpstreamSnapshot:
    """The newest materialization of a direct upstream when the run began."""

    asset: str
    snapshot_id: int
    partition: str | None = None

    def to_json(self) -> dict[str, object]:
        """Conventions 2."""
        return {"asset": self.asset, "snapshot_id": self.snapshot_id, **({"partition": self.partition} if self.partition else {})}


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a run was started (conventions 2). Times are RFC 3339 UTC text; `events` and `objects` hold all of the slice."""

    reason: Reason
    run_id: RunId
    root_run_id: RunId
    attempt: int
    fired_at: str
    partition: str
    partition_start: str | None = None
    partition_end: str | None = None
    upstream_snapshots: tuple[UpstreamSnapshot, ...] = ()
    chain: tuple[str, ...] = ()
    events: tuple[Mapping[str, object], ...] = ()
    positions: tuple[Mapping[str, object], ...] = ()
    objects: tuple[Mapping[str, object], ...] = ()
    payload: Mapping[str, object] | None = None
    replay_of: str | None = None
    backfill_id: str | None = None
    truncated: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Conventions 2; members that are absent have no entry, lists and the partition always have one."""
        optional = {"payload": self.payload, "backfill_id": self.backfill_id, "replay_of": self.replay_of, "truncated": list(self.truncated) or None}
        return {
            "reason": self.reason, "run_id": str(self.run_id), "root_run_id": str(self.root_run_id), "attempt": self.attempt,
            "fired_at": self.fired_at, "partition": self.partition, "partition_start": self.partition_start, "partition_end": self.partition_end,
            "upstream_snapshots": [u.to_json() for u in self.upstream_snapshots], "chain": list(self.chain), "events": list(self.events),
            "positions": list(self.positions), "objects": list(self.objects), **{name: value for name, value in optional.items() if value is not None},
        }
