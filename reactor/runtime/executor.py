"""Carries runs out, and answers the engine with what became of them (commit.md 3, 5, 6, 9).

    StartRun ─▶ lease of the lane ─▶ tokens ─▶ prepare (stage the SELECT) ─▶ run row (before, if that takes long) ─▶ commit (`committing`, `programs`) ─▶ Outcome
    WriteAgain ─▶ wait ─▶ tokens ─▶ run row ─▶ commit of what is prepared, with new claims

A run that is refused is never an error: the outcome carries what is stored now, and the engine decides. The script's own failure is
recorded as a run that `failed`. An outage before anything was written defers the run; from then on it is waited out.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import anyio

from reactor.core.decisions import of_run
from reactor.core.effects import Committed, Deferred, Failed, Outcome, Refused, StartRun, Ticket, WriteAgain
from reactor.domain.events import RunRequested
from reactor.domain.partitions import NoSlice, window
from reactor.domain.runs import new_run_id
from reactor.domain.spans import UNROUTED, WHOLE, PositionClaim, Token
from reactor.errors import Conflict, Outage, ReactorError, RunBlocked, RunFailed
from reactor.ports import Clock, Epoch, NewRun, PartitionClaim, PartitionTokens, State
from reactor.runtime.outages import until_it_answers
from reactor.runtime.triggers import bounds_of, events_of, told, trigger_of
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)

AGAIN_MIN_SECONDS, AGAIN_MAX_SECONDS = 0.05, 5.0
LEASE_SECONDS, RENEW_SECONDS = 15.0, 5.0
SHOWN_AFTER_SECONDS = 1.0
"""A run whose SELECT is evaluated for so long is shown as running from then on; any other from when it writes, in one statement less."""
LOADERS_MAX = 4
"""Managed runs between staging and COMMIT: each may need 100 to 150 MB."""
PROGRAMS_MAX = 8
"""Programs that run at once."""


class Work(Protocol):
    """What one run does. It lives as long as its run is refused and tried again."""

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by stage, as far as it has come."""
        ...

    async def prepare(self, tokens: PartitionTokens, /) -> None:
        """Whatever can be done before there is a run row, unless it is done. Raises `RunFailed`, `RunBlocked`, `Outage`."""
        ...

    def describe(self, run: NewRun) -> NewRun:
        """The run row, with what `prepare` found."""
        ...

    async def commit(self, run: NewRun) -> bool:
        """Commit with the claims of the run row; False: it was refused. Raises `RunFailed`, `RunBlocked`."""
        ...

    async def close(self) -> None:
        """Drop what was prepared."""
        ...


@dataclass(slots=True)
class Flight:
    """A run between its effects."""

    start: StartRun
    work: Work
    completed: NewRun | None = None


class Executor:
    """All runs of this replica. `work_for`: how a script works; `lake_of`: in which lake. `on_restored`: the database is another one."""

    def __init__(self, *, state: State, clock: Clock, holder: str, epoch: Epoch, work_for: Callable[[StartRun], Work],
                 lake_of: Callable[[StartRun], str], on_restored: Callable[[], Awaitable[None]], telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._state, self._clock, self._holder, self._epoch = state, clock, holder, epoch
        self._work_for, self._lake_of, self._on_restored = work_for, lake_of, on_restored
        self._flights: dict[Ticket, Flight] = {}
        self._leased: dict[str, Ticket] = {}
        self._leasing = asyncio.Lock()
        self._loaders, self._programs = anyio.Semaphore(LOADERS_MAX), anyio.Semaphore(PROGRAMS_MAX)

    async def start(self, start: StartRun) -> Outcome:
        """Answers `StartRun`."""
        try:
            if start.exclusive and not await self._lease(start):
                return Deferred(start.ticket)
        except Outage:
            return Deferred(start.ticket)
        flight = self._flights[start.ticket] = Flight(start, self._work_for(start))
        return await self._fly(flight, start.claims)

    async def again(self, again: WriteAgain) -> Outcome:
        """Answers `WriteAgain`."""
        await asyncio.sleep(min(AGAIN_MAX_SECONDS, AGAIN_MIN_SECONDS * 2.0 ** min(again.refusals - 1, 10)))
        return await self._fly(self._flights[again.ticket], again.claims)

    async def discard(self, ticket: Ticket) -> None:
        """Carries out `Discard`; due after each answer but `Refused`, too. Nothing waits for it but a lane that needs its lease."""
        if flight := self._flights.pop(ticket, None):
            timings = flight.work.timings
            with anyio.CancelScope(shield=True):
                await flight.work.close()
            if flight.start.exclusive:
                await self._release(flight.start)
            if flight.completed is not None:
                await self._note_timings(flight.completed, timings)

    async def _fly(self, flight: Flight, claims: Sequence[PositionClaim]) -> Outcome:
        slots = self._loaders if flight.start.script.managed else self._programs
        async with self._lease_renewed(flight.start), slots:
            began_at = self._clock.now()
            outcome = await self._attempt(flight, claims)
        ended = {Committed: "completed", Failed: "failed"}.get(type(outcome), "aborted")
        self._telemetry.run_duration.labels(flight.start.consumer, ended).observe(self._clock.now() - began_at)
        if isinstance(outcome, Committed) and flight.start.script.managed is None:  # of tables the state tells (`watching`)
            self._telemetry.asset_last_success.labels(flight.start.consumer).set(self._clock.now())
        if flight.start.exclusive and not isinstance(outcome, Refused):
            await self.discard(flight.start.ticket)
        return outcome

    async def _attempt(self, flight: Flight, claims: Sequence[PositionClaim]) -> Outcome:
        """One run row, one transaction."""
        start, work, began_at = flight.start, flight.work, self._clock.now()
        tokens = await until_it_answers(partial(self._tokens, start))
        if tokens.epoch != self._epoch:
            self._epoch = tokens.epoch
            await self._on_restored()
            return Refused(start.ticket, {})
        run = await self._run(start, claims, tokens)
        ended, shown = await self._prepare(start, work, run, tokens)
        if ended is not None:
            return ended
        run = work.describe(run)
        await until_it_answers(partial(self._state.insert_run, run))
        if not shown:
            logger.info("%s started", start.consumer, extra={"event": "run_started", **told(run)})
        try:
            done = await work.commit(run)
        except (RunFailed, RunBlocked) as error:
            await self._note_timings(run, work.timings)
            return await self._failed(start, run, error, recorded=True)
        if done:
            flight.completed = run
            extra = {"event": "run_completed", "duration_seconds": round(self._clock.now() - began_at, 3), **told(run)}
            logger.info("%s completed", start.consumer, extra=extra)
            return Committed(start.ticket, Token(run.run_id))
        return Refused(start.ticket, await until_it_answers(partial(self._state.load, [c.key for c in claims])))

    async def _prepare(self, start: StartRun, work: Work, run: NewRun, tokens: PartitionTokens) -> tuple[Outcome | None, bool]:
        """(how it ended if it did, whether its run row is there). What takes long has its row at once: who looks should see it run."""
        prepared, failure = asyncio.Event(), None
        showing = asyncio.ensure_future(self._show_unless(prepared, run))
        try:
            _admit(start, tokens)
            await work.prepare(tokens)
        except (RunFailed, RunBlocked, Outage, Conflict) as error:
            failure = error
        except BaseException:
            showing.cancel()
            raise
        prepared.set()
        shown = await showing
        if isinstance(failure, RunFailed | RunBlocked):
            return await self._failed(start, run, failure, recorded=shown), shown
        if failure is None:
            return None, shown
        if shown:
            await until_it_answers(partial(self._state.abort, run.run_id))
        logger.warning("%s waits: %s", start.consumer, failure.headline, extra={"event": "run_deferred", "asset": start.consumer})
        return Deferred(start.ticket), shown

    # -- the run row

    async def _show_unless(self, prepared: asyncio.Event, run: NewRun) -> bool:
        """Make the row, unless the run is prepared before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SHOWN_AFTER_SECONDS):
                await prepared.wait()
                return False
        await until_it_answers(partial(self._state.insert_run, run))
        logger.info("%s started", run.consumer, extra={"event": "run_started", **told(run)})
        return True

    async def _note_timings(self, run: NewRun, timings: Mapping[str, float]) -> None:
        with suppress(ReactorError):  # they are for whoever looks; nothing waits for them
            await self._state.note_timings(run.run_id, timings)

    async def _tokens(self, start: StartRun) -> PartitionTokens:
        managed = start.script.managed
        return await self._state.partition_tokens(start.consumer, [s.asset_partition for s in start.slices] if managed else [])

    async def _run(self, start: StartRun, claims: Sequence[PositionClaim], tokens: PartitionTokens) -> NewRun:
        script, managed = start.script, start.script.managed
        assets = [e.uri for e in script.edges if e.kind == "asset"]
        upstream = await until_it_answers(partial(self._state.upstream_snapshots, assets)) if assets else ()
        now = self._clock.now()
        run_id = new_run_id(now, secrets.token_bytes(10))
        requests = [e for e in events_of(start) if isinstance(e, RunRequested)]
        return NewRun(
            run_id, script, start.consumer, self._lake_of(start), trigger_of(start, run_id, now, upstream), claims,
            [_partition(start, s.asset_partition, tokens) for s in start.slices] if managed else [],
            strategy=managed.strategy if managed else None, cascade=all(r.cascade for r in requests), actor=requests[-1].actor if requests else "",
            decisions=of_run(start),
        )

    async def _failed(self, start: StartRun, run: NewRun, error: RunFailed | RunBlocked, *, recorded: bool) -> Outcome:
        """Recorded as a run that failed; final if no retry follows."""
        blocking = isinstance(error, RunBlocked)
        final = start.last_attempt or (blocking and len(start.slices) == 1)
        run_id, row = (run.run_id, None) if recorded else (None, run)
        await until_it_answers(partial(self._state.fail, run_id, row, str(error), final=final))
        extra = {"event": "run_failed", "error.type": type(error).__name__, "error.message": error.headline, **told(run)}
        logger.error("%s failed: %s", start.consumer, error.headline, extra=extra)
        return Failed(start.ticket, str(error), blocking)

    # -- the lane's lease

    @asynccontextmanager
    async def _lease_renewed(self, start: StartRun) -> AsyncIterator[None]:
        if not start.exclusive:
            yield
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._renew, start)
            yield
            tasks.cancel_scope.cancel()

    async def _renew(self, start: StartRun) -> None:
        while True:
            await anyio.sleep(RENEW_SECONDS)
            try:
                await self._state.lease(_lease(start), self._holder, LEASE_SECONDS)
            except Outage:
                continue  # the token keeps the truth

    async def _lease(self, start: StartRun) -> bool:
        async with self._leasing:
            if got := await self._state.lease(_lease(start), self._holder, LEASE_SECONDS):
                self._leased[_lease(start)] = start.ticket
            return got

    async def _release(self, start: StartRun) -> None:
        """But if the lane's next run, which may start before what this one has left is put away, has it already."""
        async with self._leasing:
            if self._leased.get(_lease(start)) != start.ticket:
                return
            del self._leased[_lease(start)]
            with suppress(Outage):  # it runs out by itself
                await self._state.release(_lease(start), self._holder)


def _admit(start: StartRun, tokens: PartitionTokens) -> None:
    """What was asked for or waits may have been overtaken, by an edit or by another request. Raises `RunBlocked`."""
    managed, requests = start.script.managed, [e for e in events_of(start) if isinstance(e, RunRequested)]
    appends_by_hand = managed is not None and managed.strategy == "append" and not start.script.body.reads_batch and bool(requests)
    for name in (s.asset_partition for s in start.slices):
        try:
            window(start.script.header.partitioned, name)
        except NoSlice as error:
            raise RunBlocked(f"{start.script.path}: {error.headline}", hint=error.hint or "was `partitioned` edited after this was asked for?") from error
        if appends_by_hand and name in tokens.materialized - {WHOLE} and not any(r.replace_slice for r in requests):
            raise RunBlocked(
                f"slice {name} of {start.consumer} is there already, and an append would have its rows twice", hint="--replace-slice deletes and inserts in one commit"
            )


def _lease(start: StartRun) -> str:
    return f"lane:{start.consumer}"


def _partition(start: StartRun, asset_partition: str, tokens: PartitionTokens) -> PartitionClaim:
    """Append from `batch` names no token (its position guards it), nor does a slice that only goes to quarantine."""
    compare = not start.script.appends_batch and asset_partition != UNROUTED
    begin, end = bounds_of(start.script.header.partitioned, asset_partition)
    return PartitionClaim(asset_partition, compare, tokens.tokens.get(asset_partition) if compare else None, begin, end)
