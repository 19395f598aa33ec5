"""Runs: the row that carries a commit's claims and says how it ended, and the state rows that the commit leaves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from asyncpg import Record

from reactor.domain.runs import PartitionCounts, RunId, RunState, UpstreamSnapshot
from reactor.domain.spans import Token
from reactor.errors import Conflict
from reactor.ports import Epoch, NewRun, PartitionClaim, PartitionTokens, Verdict
from reactor.state.database import Part, statement
from reactor.state.decisions import decisions_json
from reactor.state.positions import claim_json

ERROR_CHARACTERS_MAX = 20_000
"""What is kept of an error's text."""


class Runs(Part):
    """Rows of `run`, `run_log`, `materialized_partition`, `replica`."""

    async def epoch(self) -> Epoch:
        """Which life of which database this is."""
        return _epoch(await self._db.one("epoch"))

    async def partition_tokens(self, asset: str, asset_partitions: Collection[str]) -> PartitionTokens:
        """Tokens (None: no row) and the life of the database, in one statement."""
        row = await self._db.one("partition_tokens", self._workspace, asset, list(asset_partitions))
        stored = row["tokens"] or {}
        tokens = {p: Token(UUID(stored[p])) if p in stored else None for p in asset_partitions}
        return PartitionTokens(tokens, _epoch(row), row["table_uuid"], frozenset(row["materialized"]))

    async def upstream_snapshots(self, assets: Collection[str]) -> Sequence[UpstreamSnapshot]:
        """The newest materialization of each, by whomever; those never materialized have no entry."""
        rows = await self._db.rows("upstream_snapshots", self._workspace, list(assets))
        return [UpstreamSnapshot(row["asset"], row["snapshot_id"], row["partition"] or None) for row in rows]

    async def insert_run(self, run: NewRun) -> None:
        """State `running`, with its claims, and the decisions that it carries out."""
        await self._db.value("insert_run", *self._rows(run))

    async def complete(self, run_id: RunId, counts: Sequence[PartitionCounts]) -> None:
        """The commit of a run that made no snapshot. Again for the same run: no change, same answer. Raises `Conflict`."""
        try:
            await self._db.value("complete", run_id, [[c.inserted, c.deleted] for c in counts])
        except Conflict:
            row = await self._db.row("run_state", run_id)
            if row is None or (row["state"], row["snapshot_id"]) != ("completed", None):
                raise

    async def verdict(self, run_id: RunId, lake: str, snapshot_before: int) -> Verdict:
        """Run row, snapshots above `snapshot_before` with our mark and the trigger's state, in one statement."""
        row = await self._db.one("verdict", run_id, snapshot_before, lake, lake=lake)
        match row["state"]:
            case None:
                return Verdict("gone")
            case "completed":
                return Verdict("completed", row["snapshot_id"], row["snapshot_id"] is not None, row["schema_version"])
            case "running":
                return Verdict("trigger_missing" if row["marked"] or not row["watched"] else "running")
            case _:
                return Verdict("ended")

    async def abort(self, run_id: RunId) -> RunState | None:
        """Set `aborted` if it still is running (waits for a commit on its way); the state it has then, None: no such run."""
        if await self._db.value("abort", run_id):
            return "aborted"
        row = await self._db.row("run_state", run_id)
        return row["state"] if row else None

    async def fail(self, run_id: RunId | None, run: NewRun | None, error: str, *, final: bool) -> None:
        """A run that ended `failed`: the existing row `run_id`, or a new one. One that is not running any more stays as it is."""
        async with self._db.transaction() as connection:
            if run_id is None and run is not None:
                await connection.execute(statement("insert_run"), *self._rows(run))
                run_id = run.run_id
            await connection.execute(statement("fail"), run_id, error[:ERROR_CHARACTERS_MAX].replace("\0", "\ufffd"), final)

    async def append_log(self, run_id: RunId, chunk: int, text: str, keep_from: int) -> None:
        """A piece of what a run says, numbered from 0; pieces below `keep_from` go."""
        await self._db.value("append_log", run_id, chunk, text, keep_from)

    async def note_timings(self, run_id: RunId, timings: Mapping[str, float]) -> None:
        """Seconds by stage that were not known when the row was written."""
        await self._db.value("note_timings", run_id, dict(timings))

    async def purge_runs(self, days: int, rows_max: int) -> int:
        """Forget ended runs, with their logs, that are older; how many."""
        return len(await self._db.rows("purge_runs", days, rows_max))

    async def heartbeat(self) -> None:
        """This replica is alive."""
        await self._db.value("heartbeat", self._db.identity.replica)

    async def abort_silent_runs(self, silent_seconds: float = 30.0) -> Collection[RunId]:
        """Abort the running runs of replicas that have not been heard of for so long."""
        return [RunId(row["id"]) for row in await self._db.rows("abort_silent_runs", silent_seconds)]

    async def abort_own_runs(self) -> None:
        """Abort all running runs of this replica."""
        await self._db.rows("abort_own_runs", self._db.identity.replica)

    def _rows(self, run: NewRun) -> tuple[object, ...]:
        return self._row(run), self._workspace, decisions_json(run.decisions, run.run_id)

    def _row(self, run: NewRun) -> dict[str, object]:
        script, trigger, target = run.script, run.trigger, run.script.header.materialize
        return {
            "id": str(run.run_id), "workspace": self._workspace, "replica": self._db.identity.replica, "lake": run.lake,
            "script": script.path, "script_version": script.version, "consumer": run.consumer, "asset": target and target.asset,
            "strategy": run.strategy, "partition": trigger.partition, "reason": trigger.reason, "attempt": trigger.attempt,
            "root_run_id": str(trigger.root_run_id), "actor": run.actor, "cascade": run.cascade, "fired_at": trigger.fired_at,
            "trigger": trigger.to_json(), "claims": claims_json(run), "compiled_sql": run.compiled_sql, "timings": dict(run.timings),
            "drift": {"added": run.drift.added, "removed": run.drift.removed, "type_changed": run.drift.type_changed},
        }


def claims_json(run: NewRun) -> dict[str, object]:
    """What the commit makes of positions, asset partitions, schema and joins, as `commit.sql` reads it."""
    schema = run.schema and {"fingerprint": run.schema.fingerprint, "columns": run.schema.columns}
    return {
        "positions": [claim_json(claim) for claim in run.positions], "schema": schema, "joins": list(run.joins),
        "partitions": {claim.asset_partition: _partition_json(i, claim) for i, claim in enumerate(run.partitions)},
    }


def _partition_json(row: int, claim: PartitionClaim) -> dict[str, object]:
    compared = {"last_run": claim.believed and str(claim.believed)} if claim.compare else {}
    return {"row": row, "start": claim.start, "end": claim.end, **compared}


def _epoch(row: Record) -> Epoch:
    return Epoch(row["started_at"], row["database_oid"])
