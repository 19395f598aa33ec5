"""Why a run was started: the trigger payload (conventions 2) from what its slices hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from reactor.core.effects import StartRun
from reactor.domain.events import AssetUpdated, RunRequested, SourceEvent
from reactor.domain.partitions import NoSlice, window
from reactor.domain.runs import CHAIN_MAX, Reason, RunId, Trigger, UpstreamSnapshot
from reactor.domain.scripts import Partitioning
from reactor.domain.spans import WHOLE
from reactor.ports import NewRun


def rfc3339(at: float) -> str:
    """POSIX seconds as RFC 3339 UTC with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def bounds_of(partitioned: Partitioning | None, asset_partition: str) -> tuple[str | None, str | None]:
    """The window of an asset partition as payloads say it: RFC 3339 UTC with milliseconds; None for dynamic, or for what is no slice of it."""
    try:
        begin, end = window(partitioned, asset_partition) if asset_partition else (None, None)
    except NoSlice:
        return None, None
    return begin and _milliseconds(begin), end and _milliseconds(end)


def _milliseconds(instant: str) -> str:
    whole, _, fraction = instant.removesuffix("Z").partition(".")
    return f"{whole}.{fraction[:3]:0<3}Z"


def events_of(start: StartRun) -> Iterator[SourceEvent]:
    """All events of the run's slices, each once, in order of arrival."""
    seen: set[str] = set()
    for part in (part for s in start.slices for part in s.parts):
        for event in (e for piece in part[2] if isinstance(piece.payload, tuple) for e in piece.payload):
            if event.event_id not in seen:
                seen.add(event.event_id)
                yield event


def reason_of(events: Sequence[SourceEvent], *, from_stream: bool) -> Reason:
    """The kind of what fired it; a request by hand or another tool's commit says so."""
    requests = [e for e in events if isinstance(e, RunRequested)]
    if requests and len(requests) == len(events) and not from_stream:
        return _REASONS.get(requests[-1].reason, "manual")
    if from_stream:
        return "kafka"
    updates = [e for e in events if isinstance(e, AssetUpdated)]
    return "external" if updates and all(e.script is None for e in updates) else "asset"


_REASONS: Mapping[str, Reason] = {"manual": "manual", "backfill": "backfill", "freshness": "freshness", "replay": "replay"}


def trigger_of(start: StartRun, run_id: RunId, now: float, upstream: Sequence[UpstreamSnapshot]) -> Trigger:
    """`upstream`: the newest materialization of each direct upstream, read as the run starts."""
    events = list(events_of(start))
    updates = [e for e in events if isinstance(e, AssetUpdated)]
    requests = [e for e in events if isinstance(e, RunRequested)]
    alone = start.slices[0].asset_partition if len(start.slices) == 1 else WHOLE
    begin, end = bounds_of(start.script.header.partitioned, alone)
    positions = tuple(_positions(start))
    root = next((e.root_run_id or e.run_id for e in reversed(updates) if e.run_id), None)
    return Trigger(
        reason=reason_of(events, from_stream=bool(positions)), run_id=run_id, root_run_id=RunId(root) if isinstance(root, UUID) else run_id,
        attempt=start.attempt, fired_at=rfc3339(now), partition=alone, partition_start=begin, partition_end=end,
        upstream_snapshots=tuple(upstream), chain=_chain(updates), events=tuple(_event(e) for e in events), positions=positions,
        payload=requests[-1].arguments or None if requests else None,
    )


def told(run: NewRun) -> Mapping[str, object]:
    """What a log line says of a run (conventions 5)."""
    return {
        "asset": run.consumer, "script": run.script.path, "run_id": str(run.run_id), "root_run_id": str(run.trigger.root_run_id),
        "partition": run.trigger.partition, "attempt": run.trigger.attempt,
    }


def _positions(start: StartRun) -> Iterable[Mapping[str, object]]:
    for s in start.slices:
        for source_partition, to, pieces in s.parts:
            if pieces and not isinstance(pieces[0].payload, tuple):
                yield {
                    "source": source_partition.source, "source_partition": source_partition.number, "from": pieces[0].lo, "to": to,
                    "event_count": sum(p.rows for p in pieces),
                }


def _chain(updates: Sequence[AssetUpdated]) -> tuple[str, ...]:
    """Root to producer, of the newest update first; scripts of folded updates are kept, for a loop through any of them must end."""
    chain = dict.fromkeys(script for e in reversed(updates) for script in e.chain)
    return tuple(chain)[-CHAIN_MAX:]


def _event(event: SourceEvent) -> Mapping[str, object]:
    if isinstance(event, RunRequested):
        return {"event_id": event.event_id, "asset": None, "partition": event.partition or None, "snapshot_id": None, "schema_changed": False}
    return {
        "event_id": event.event_id, "asset": event.asset, "partition": event.partition or None, "snapshot_id": event.snapshot_id,
        "schema_changed": event.schema_changed,
    }
