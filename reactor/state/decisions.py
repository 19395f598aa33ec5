"""The decision log: what became of each event, or of the offsets of a stream that waited together. Kept 30 days, whatever becomes of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from reactor.domain.decisions import Decision, DecisionOutcome
from reactor.domain.runs import RunId, RunState
from reactor.state.database import Part


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision as it is kept, with the last run that took it, if one did. `run_state` None: there is no run, or it is no longer kept."""

    consumer: str
    script: str
    source: str
    source_partition: str
    lo: int
    hi: int
    partition: str
    outcome: DecisionOutcome
    reason: str
    event_id: str | None
    asset: str | None
    inputs_in: int | None
    inputs_needed: int | None
    due_at: datetime | None
    decided_at: datetime
    run_id: UUID | None
    run_state: RunState | None
    run_error: str | None
    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class WaitingSlice:
    """A slice of a consumer that holds what is decided and not settled. `events`, `records`: how much, by hand or by assets, and of streams.

    `due_at`: when it is due by the newest of them; `run_id`: the last run that took any of it and did not settle it.
    """

    partition: str
    outcome: DecisionOutcome
    since: datetime
    events: int
    records: int
    due_at: datetime | None
    run_id: UUID | None
    inputs_in: int | None
    inputs_needed: int | None


class Decisions(Part):
    """Rows of `decision`. Those of a run are written with its row (`Runs.insert_run`), in one transaction."""

    async def write_decisions(self, decisions: Sequence[Decision]) -> None:
        """Insert them, each in this batch once; what waits already is told anew (a later offset, another due time)."""
        await self._db.value("decide", self._workspace, decisions_json(decisions))

    async def purge_decisions(self, days: int, limit: int) -> int:
        """Drop at most `limit` of those that are older; how many it were."""
        return int(await self._db.value("purge_decisions", days, limit))

    async def decisions(self, consumer: str, partition: str | None = None, limit: int = 50) -> Sequence[DecisionRecord]:
        """Those of a consumer, or of one of its asset partitions, newest first."""
        return [DecisionRecord(**row) for row in await self._db.rows("list_decisions", self._workspace, consumer, partition, limit)]

    async def waiting(self, consumer: str, limit: int = 1000) -> Sequence[WaitingSlice]:
        """The slices of a consumer that something waits in, those that wait longest first. A run under way is among them."""
        return [WaitingSlice(**row) for row in await self._db.rows("list_waiting", self._workspace, consumer, limit)]

    async def decisions_of_event(self, event_id: str) -> Sequence[DecisionRecord]:
        """What became of an event, for each consumer and asset partition."""
        return [DecisionRecord(**row) for row in await self._db.rows("decisions_of_event", self._workspace, event_id)]


def decisions_json(decisions: Sequence[Decision], run_id: RunId | None = None) -> Sequence[dict[str, object]]:
    """Decisions as `reactor.decide` reads them."""
    return [_json(decision, run_id) for decision in decisions]


def _json(d: Decision, run_id: RunId | None) -> dict[str, object]:
    inputs_in, inputs_needed = d.inputs or (None, None)
    return {
        "consumer": d.consumer, "source": d.source_partition.source, "source_partition": d.source_partition.number, "lo": d.lo, "hi": d.hi,
        "partition": d.partition, "script": d.script, "outcome": d.outcome, "reason": d.reason, "event_id": d.event_id, "asset": d.asset,
        "inputs_in": inputs_in, "inputs_needed": inputs_needed, "due": d.due_at, "run_id": run_id and str(run_id),
    }
