"""The commit of a managed run, and who says what happened (commit.md 3 and 6).

    process lock { write ─▶ advisory lock { COMMIT } } ─▶ verdict ─▶ completed | complete | abort

COMMIT's answer is never believed: it answered OK without a commit, and error after one. The run row decides, asked on another connection.
The rows that were staged and the files that were written are kept until it has spoken, however long PostgreSQL is away.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from anyio import to_thread

from reactor.core.effects import StartRun
from reactor.domain.events import RunRequested
from reactor.domain.partitions import window
from reactor.domain.runs import PartitionCounts
from reactor.errors import Conflict, LakeHalted, Outage, RunFailed
from reactor.ports import Lake, NewRun, PartitionTokens, SliceInput, Staged, StageOrder, State, Written
from reactor.runtime import failpoints
from reactor.runtime.outages import until_it_answers
from reactor.runtime.triggers import events_of, told
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)

COMMIT_LOCK_SECONDS = 5.0
"""How long a COMMIT queues behind those of other replicas; then it goes on, for the token keeps the truth."""
COMMIT_DEADLINE_SECONDS = 60.0
"""A COMMIT that has not come back by then is asked about, and its DuckDB instance is given up."""


@dataclass(slots=True)
class Committer:
    """One DuckDB instance and the locks before it. `halted`: the lake published without its trigger, nothing may be written.

    `hint`: called once there are events in the outbox, and what they tell of can be read. That is before the verdict, unless COMMIT has failed to
    answer: then files that DuckLake has deleted are put back first.
    """

    state: State
    lake: Lake
    telemetry: Telemetry
    halted: str = ""
    hint: Callable[[], None] = lambda: None
    _locks: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    _closing: set[asyncio.Future[None]] = field(default_factory=set)

    async def commit(self, run: NewRun, staged: Staged) -> tuple[bool, bool]:
        """(whether the run is completed, whether what was staged is still there). Raises `RunFailed`, `RunBlocked`, `LakeHalted`.

        The files of a run whose COMMIT has answered stand: `put_away` drops their links, once the lane goes on. Those of any other are settled here.
        """
        if self.halted:
            raise LakeHalted(self.halted)
        before = await until_it_answers(partial(self.state.last_snapshot, run.lake))
        try:
            async with self._locks[run.lake]:
                written = await to_thread.run_sync(staged.write, run.run_id)
                answer = await self._commit(run, staged) if written.changed else None
        except Conflict as error:
            await to_thread.run_sync(staged.rollback)
            self._refused(run, "conflict", error)
            return await self._given_up(run, "refused"), True
        except Outage as error:
            await to_thread.run_sync(staged.rollback)  # of the commit lock: what was written is still open
            return await self._given_up(run, error.headline, severity=logging.WARNING), True
        if answer is None:
            return await self.complete(run, written.counts), True
        done = await self._verdict(run, before, written, answered=answer == "ok")
        if done:
            self.telemetry.rows_written.labels(run.consumer, "insert").inc(sum(c.inserted for c in written.counts))
            self.telemetry.rows_written.labels(run.consumer, "delete").inc(sum(c.deleted for c in written.counts))
        if done and answer == "ok":
            return True, True
        if answer == "lost" and not staged.stale:  # stale: somebody else whose COMMIT was lost has had it rebuilt
            await until_it_answers(partial(to_thread.run_sync, self.lake.rebuild))
        await until_it_answers(partial(to_thread.run_sync, partial(staged.settled, committed=done)))
        if done:
            self.hint()
        return done, answer != "lost"

    async def put_away(self, staged: Staged, *, committed: bool) -> None:
        """Drop what was staged, and what was kept for it if it is committed. While that cannot be said, a sweep does it."""
        if committed:
            with suppress(Outage):
                await to_thread.run_sync(partial(staged.settled, committed=True))
        await to_thread.run_sync(staged.close)

    async def _commit(self, run: NewRun, staged: Staged) -> str:
        """`ok`, `error`, or `lost`: it did not come back in time."""
        async with self.state.commit_lock(run.lake, COMMIT_LOCK_SECONDS):
            failpoints.reach("before_commit")
            with self.telemetry.commit_duration(run.lake):
                commit = asyncio.ensure_future(asyncio.to_thread(staged.commit))
                commit.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may wait for it by then
                done, _ = await asyncio.wait({commit}, timeout=COMMIT_DEADLINE_SECONDS)
            if done and commit.exception() is None:
                self.hint()
            failpoints.reach("after_commit")
        if not done:
            commit.add_done_callback(partial(self._close_late, staged))
            return "lost"
        if (error := commit.exception()) is None:
            return "ok"
        self._refused(run, "token" if "RF001" in str(error) else "conflict", error)
        return "error"

    def _close_late(self, staged: Staged, _commit: asyncio.Future[None]) -> None:
        """Its cursor goes back once COMMIT does: before that the instance that was given up cannot be closed."""
        closing = asyncio.ensure_future(asyncio.to_thread(staged.close))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _verdict(self, run: NewRun, before: int, written: Written, *, answered: bool) -> bool:
        """Whether the run is completed: the table of commit.md 6."""
        verdict = await until_it_answers(partial(self.state.verdict, run.run_id, run.lake, before))
        match verdict.kind:
            case "completed":
                if verdict.schema_version is not None:
                    extra = {"event": "schema_changed", "snapshot_id": verdict.snapshot_id, **told(run)}
                    logger.info("%s has schema version %d", run.consumer, verdict.schema_version, extra=extra)
                return True
            case "trigger_missing":
                self.halted = (
                    f"lake {run.lake} has no commit trigger, so it publishes rows without their positions. Nothing more is written. "
                    "Start again: the trigger is made, and what was published is accounted for."
                )
                raise LakeHalted(self.halted)
            case "running" if answered:
                return await self.complete(run, written.counts)
            case "running":
                return await self._given_up(run, "not committed")
            case _:
                return False

    async def complete(self, run: NewRun, counts: Sequence[PartitionCounts]) -> bool:
        """A run without a snapshot: its positions and freshness move all the same."""
        failpoints.reach("before_complete")
        try:
            await until_it_answers(partial(self.state.complete, run.run_id, counts))
        except Conflict as error:
            self._refused(run, "token", error)
            return await self._given_up(run, "refused")
        self.hint()
        return True

    async def _given_up(self, run: NewRun, why: str, severity: int = logging.INFO) -> bool:
        """Abort it, which waits for a commit that is still on its way; if that wins, the run is completed."""
        if await until_it_answers(partial(self.state.abort, run.run_id)) == "completed":
            return True
        logger.log(severity, "%s is written again: %s", run.consumer, why, extra={"event": "run_aborted", **told(run)})
        return False

    def _refused(self, run: NewRun, reason: str, error: BaseException) -> None:
        self.telemetry.commits_refused.labels(lake=run.lake, reason=reason).inc()
        extra = {"event": "commit_refused", "lake": run.lake, "reason": reason, "error.type": type(error).__name__, **told(run)}
        logger.info("commit refused (%s): it is tried again from what is stored", reason, extra=extra)


@dataclass(slots=True)
class ManagedWork:
    """A managed SELECT: staged once, written as often as it is refused."""

    start: StartRun
    committer: Committer
    staged: Staged | None = None
    tokens: PartitionTokens | None = None
    committed: bool = False

    @property
    def timings(self) -> Mapping[str, float]:
        """See `executor.Work`."""
        return dict(self.staged.timings) if self.staged is not None else {}

    async def prepare(self, tokens: PartitionTokens, /) -> None:
        """Stage; again if the SELECT read its own target and that has changed, or if what was staged is of no more use."""
        script, before, self.tokens = self.start.script, self.tokens, tokens
        reads_itself = script.managed is not None and script.managed.asset in script.body.reads
        moved = reads_itself and before is not None and before.tokens != tokens.tokens
        if self.staged is not None and (moved or self.staged.stale):
            await self.close()
        if self.staged is None:
            replaces = any(isinstance(e, RunRequested) and e.replace_slice for e in events_of(self.start))
            uuid = tokens.table_uuid if script.body.reads_batch else None
            order = StageOrder(script, [self._input(i) for i in range(len(self.start.slices))], replace_slice=replaces, table_uuid=uuid)
            self.staged = await to_thread.run_sync(self.committer.lake.stage, order)

    def describe(self, run: NewRun) -> NewRun:
        """With the schema that the table will have, and the SQL that was run."""
        if self.staged is None:
            return run
        return replace(run, schema=self.staged.schema, compiled_sql=self.staged.compiled_sql, drift=self.staged.drift, timings=self.timings)

    async def commit(self, run: NewRun) -> bool:
        """See `Committer.commit`."""
        if self.staged is None:
            raise RunFailed("nothing was staged")
        self.committed, there = await self.committer.commit(run, self.staged)
        if self.committed:
            for outcome, n in self.staged.outcomes.items():
                self.committer.telemetry.events_settled.labels(run.consumer, outcome).inc(n)
            await self._say(run, self.staged)
        if not there:
            self.staged = None
        return self.committed

    async def _say(self, run: NewRun, staged: Staged) -> None:
        """What the author should know of a run that is completed: in the service's log, and in the run's."""
        drift = {"added by": staged.drift.added, "missing in": staged.drift.removed, "of another type in": staged.drift.type_changed}
        said = [f"columns {how} the SELECT: {', '.join(names)}" for how, names in drift.items() if names]
        extra = {"event": "run_warned", **told(run)}
        if rows := staged.outcomes.get("quarantined"):
            logger.warning("%s: %d records were quarantined", run.consumer, rows, extra={**extra, "event": "event_quarantined", "rows": rows})
        warnings = [*staged.warnings, *said]
        for warning in warnings:
            logger.warning("%s: %s", run.consumer, warning, extra=extra)
        if warnings:
            text = "".join(f"warning: {warning}\n" for warning in warnings)
            await until_it_answers(partial(self.committer.state.append_log, run.run_id, 0, text, 0))

    async def close(self) -> None:
        """Drop the staged tables."""
        if self.staged is not None:
            staged, self.staged = self.staged, None
            await self.committer.put_away(staged, committed=self.committed)

    def _input(self, i: int) -> SliceInput:
        s = self.start.slices[i]
        begin, end = window(self.start.script.header.partitioned, s.asset_partition) if s.asset_partition else (None, None)
        parts = [(p, piece.lo, piece.hi, piece.payload) for p, _, pieces in s.parts for piece in pieces if not isinstance(piece.payload, tuple)]
        return SliceInput(s.asset_partition, begin, end, parts)
