"""Events of a commit in memory, as the real trigger writes them. Nothing is left out for its size."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from reactor.domain.events import AssetUpdated
from reactor.domain.runs import PartitionCounts
from reactor.ports import NewRun, PartitionClaim

TYPE = "reactor.asset.updated.v1"


@dataclass(frozen=True, slots=True)
class Happened:
    """What a run did to one asset partition. `at`: POSIX seconds."""

    asset: str
    claim: PartitionClaim
    at: float
    snapshot_id: int | None
    previous_snapshot_id: int | None
    schema_version: int | None
    counts: PartitionCounts
    changed: bool
    schema_changed: bool


def cloud_event(source: str, run: NewRun, h: Happened) -> Mapping[str, object]:
    """Conventions 1."""
    partition, snapshot = h.claim.asset_partition, "" if h.snapshot_id is None else str(h.snapshot_id)
    name = "\n".join([TYPE, source, snapshot, str(run.run_id), h.asset, partition])
    events = run.trigger.events
    optional = {
        "assetpartition": partition or None, "sequence": snapshot and snapshot.zfill(20), "correlationid": str(run.trigger.root_run_id),
        "causationid": events[-1].get("event_id") if events else None,
    }
    return {
        "specversion": "1.0", "type": TYPE, "source": source, "id": hashlib.sha256(name.encode()).hexdigest()[:32], "subject": h.asset,
        "partitionkey": h.asset, "time": datetime.fromtimestamp(h.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json", "dataschema": "urn:reactor:schema:asset-updated:v1", "data": _data(run, h),
        **{name: value for name, value in optional.items() if value},
    }


def _data(run: NewRun, h: Happened) -> dict[str, object]:
    trigger, script = run.trigger, str(run.script.path)
    return {
        "asset": h.asset, "partition": h.claim.asset_partition or None, "partition_start": h.claim.start, "partition_end": h.claim.end,
        "snapshot_id": h.snapshot_id, "previous_snapshot_id": h.previous_snapshot_id, "schema_version": h.schema_version,
        "rows_inserted": h.counts.inserted, "rows_deleted": h.counts.deleted, "strategy": run.strategy, "script": script,
        "run_id": str(run.run_id), "root_run_id": str(trigger.root_run_id), "attempt": trigger.attempt, "reason": trigger.reason,
        "schema_fingerprint": run.schema and run.schema.fingerprint, "schema_changed": h.schema_changed,
        "upstream_snapshots": [upstream.to_json() for upstream in trigger.upstream_snapshots], "chain": [*trigger.chain, script],
    }


def told(offset: int, run: NewRun, h: Happened, event: Mapping[str, object]) -> AssetUpdated:
    """The same for the router."""
    return AssetUpdated(
        offset=offset, event_id=str(event["id"]), asset=h.asset, partition=h.claim.asset_partition, snapshot_id=h.snapshot_id, lake=run.lake,
        committed_at=h.at, run_id=run.run_id, root_run_id=run.trigger.root_run_id, script=str(run.script.path),
        chain=(*run.trigger.chain, str(run.script.path)), changed=h.changed, schema_changed=h.schema_changed, cascade=run.cascade,
        rows=h.counts.inserted + h.counts.deleted, size_bytes=len(json.dumps(event)))
