"""`reactor run`: one script, now."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Annotated

import anyio
import typer
from rich.console import RenderableType

from reactor.cli.answers import Json, as_json, facts
from reactor.cli.call import Call, actor, example, verb, verbs
from reactor.cli.compile import named_slice
from reactor.cli.database import at_hand
from reactor.cli.failures import DONE
from reactor.cli.list import spoken_pause
from reactor.cli.runs import spoken_drift
from reactor.cli.serve import log_form
from reactor.domain.runs import RunId
from reactor.domain.scripts import Script
from reactor.domain.spans import WHOLE, Consumer, PositionKey, inbox_of
from reactor.errors import RunFailed, StateForbids, UsageError, headline_of
from reactor.project import Opened, Project
from reactor.runtime.queues import LEASE_SECONDS
from reactor.state import PostgresState
from reactor.state.listing import RunRecord
from reactor.telemetry import start_logging
from reactor.wiring import inbox_lease, new_holder, opened_service, opened_state

app = verbs()

POLL_SECONDS = 0.1
TAKEN_OVER_SECONDS = 1.0
"""Between two looks whether the replica that was to carry it out is gone."""
SAY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    script: Script
    partition: str
    cascade: bool
    replace_slice: bool
    arguments: Mapping[str, object]


@app.command(name="run", epilog=example("reactor run marts/orders_daily.sql --partition 2026-06-19"))
@verb
def run_script(
    call: Call,
    script: Annotated[str, typer.Argument(help="The script's path.")],
    partition: Annotated[str | None, typer.Option(metavar="KEY", help="The slice; else that of now.")] = None,
    no_cascade: Annotated[bool, typer.Option("--no-cascade", help="Fire nothing by what it writes; publishers are told.")] = False,
    replace_slice: Annotated[bool, typer.Option("--replace-slice", help="An append whose slice is there already: replace it.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait for the outcome.")] = True,
    arg: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="What the trigger's payload holds; may be repeated.")] = None,
) -> int:
    """Run one script now, for one slice, and show what came of it.

    A running replica carries it out, else this process does, under the same lease. Exit code 1 if it failed. What it fires is left to `serve`.
    """
    opened = call.open()
    found = opened.script(script)
    refuse_batch(found)
    if replace_slice and (found.header.partitioned is None or found.managed is None or found.managed.strategy != "append"):
        call.warn("--replace-slice changes nothing: only an append into slices keeps what is there")
    request = Request(found, named_slice(call, found, partition), not no_cascade, replace_slice, arguments_of(arg or ()))
    log = opened.loaded.settings.log
    start_logging(sys.stderr, level=log.level if opened.loaded.is_set("log.level") else "warning", form=log_form(log.format, is_terminal=sys.stderr.isatty()))
    with at_hand(call, opened.project, making=True):
        result = call.run(Asking(call, opened, request).run(wait=wait))
    if isinstance(result, str):
        call.answer({"event_id": result, "script": found.path, "partition": request.partition or None, "state": "queued"}, lambda: f"asked for: event {result}")
        return DONE
    call.answer(result, lambda: _shown(result))
    if result["state"] != "completed":
        why = headline_of(str(result["error"] or "no reason is kept"))  # the whole of it stands in the result
        raise RunFailed(f"the run {result['state']}: {why}", hint=f"reactor runs show {result['run_id']}")
    return DONE


def refuse_batch(script: Script) -> None:
    """PT-10: by hand there is no batch. Raises `UsageError`."""
    if script.body.reads_batch:
        raise UsageError(
            f"{script.path} reads `batch`: by hand there are no records to read",
            hint=f"to read records again: reactor positions reset {script.consumer} --to earliest --reason … --confirm {script.consumer}")


def arguments_of(pairs: Sequence[str]) -> Mapping[str, object]:
    """`NAME=VALUE`, each name once. Raises `UsageError`."""
    found: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or name in found:
            raise UsageError(f"--arg {pair}: " + ("the name comes twice" if name in found else "it is NAME=VALUE"))
        found[name] = value
    return found


@dataclass(frozen=True, slots=True)
class Asking:
    """From the request to its outcome. `holder`: of the lease, if this process carries the request out."""

    call: Call
    opened: Opened
    request: Request
    holder: str = field(default_factory=new_holder)

    async def run(self, *, wait: bool) -> Mapping[str, Json] | str:
        """The outcome; without waiting, the event id that its runs will name."""
        async with opened_state(self.project) as state:
            await self._refuse_paused(state)
            await self._refuse_materialized(state)
            served = await self._is_served(state)
            if not served and not wait:
                await state.release(self._lease, self.holder)
            r = self.request
            offset, event_id = await state.request_run(
                script=r.script.path, partition=r.partition, actor=actor(), cascade=r.cascade, replace_slice=r.replace_slice,
                arguments=r.arguments)
            if not wait:
                if not served:
                    self.call.note("no replica is running: it is carried out when the next one starts")
                return event_id
            async with AsyncExitStack() as stack:
                if served:
                    self.call.note("a running replica carries it out")
                else:
                    await self._carry_out(stack)
                record, served = await self._outcome(state, stack, offset, event_id, served=served)
            return await self._result(state, record, by_replica=served)

    @property
    def project(self) -> Project:
        """Whose script it is."""
        return self.opened.project

    async def _refuse_paused(self, state: PostgresState) -> None:
        """FH-2: it would wait until somebody resumes the asset."""
        if paused := (await state.pauses()).get(Consumer(self.request.script.consumer)):
            raise StateForbids(f"{paused.consumer} is {''.join(spoken_pause(paused))}", hint=f"reactor resume {paused.consumer}")

    async def _refuse_materialized(self, state: PostgresState) -> None:
        """PT-10: an append would have the slice twice."""
        r, managed = self.request, self.request.script.managed
        if managed is None or managed.strategy != "append" or r.partition == WHOLE or r.replace_slice:
            return
        there = {p.partition for p in await state.partitions(managed.asset) if p.snapshot_id is not None}
        if r.partition in there:
            raise StateForbids(f"slice {r.partition} of {managed.asset} is there already, and an append would have its rows twice",
                               hint="--replace-slice deletes and inserts in one commit")

    async def _is_served(self, state: PostgresState) -> bool:
        """Whether a replica reads requests for this script. Raises `StateForbids` if one does, but does not know the script.

        If none does, the lease is ours, for the service that this process opens next: a replica that starts meanwhile may not know the script.
        """
        if await state.lease(self._lease, self.holder, LEASE_SECONDS):
            return False
        if self._key not in await state.load([self._key]):
            raise StateForbids(f"a replica is running, and does not know {self.request.script.path}",
                               hint="it has read the scripts at its start: start it anew")
        return True

    @property
    def _lease(self) -> str:
        return inbox_lease(self.request.script.header.tag or "")

    @property
    def _key(self) -> PositionKey:
        return PositionKey(Consumer(self.request.script.consumer), inbox_of(self.project.settings.workspace))

    async def _carry_out(self, stack: AsyncExitStack) -> None:
        """A service in this process that does what is asked of this script, and nothing else, until `stack` is left."""
        service = await stack.enter_async_context(opened_service(self.project, streams=False, only=[self.request.script.path], holder=self.holder))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(service.run)

        def end(error: type[BaseException] | None, *_: object) -> None:
            service.stopping.set()
            if error is not None and issubclass(error, asyncio.CancelledError):
                self.call.note("given up here; the request stays: the next replica carries it out")
                service.interrupt()

        stack.push(end)

    async def _outcome(self, state: PostgresState, stack: AsyncExitStack, offset: int, event_id: str, *, served: bool) -> tuple[RunRecord, bool]:
        """The run that answers the request, once it has ended, and whether a replica has carried it out."""
        began_at = said_at = looked_at = time.monotonic()
        while True:
            runs = await state.runs_of_request(event_id)
            ended = [run for run in runs if run.state in {"completed", "failed"}]
            if ended and (record := await state.run(RunId(ended[-1].run_id))) is not None:
                return record, served
            if runs and runs[-1].state == "aborted" and await self._passed(state, offset):
                raise StateForbids(f"run {runs[-1].run_id} was aborted: {runs[-1].error or 'by hand'}", hint="reactor runs list shows what came of it")
            now = time.monotonic()
            if served and now - looked_at > TAKEN_OVER_SECONDS:
                looked_at = now
                if not await self._is_served(state):
                    self.call.note("the replica is gone: this process carries it out")
                    served = False
                    await self._carry_out(stack)
            if now - said_at > SAY_SECONDS:
                said_at = now
                state_now = runs[-1].state if runs else "waiting; no replica has begun it" if served else "waiting"
                self.call.note(f"{state_now}, {now - began_at:.0f} s")
            await anyio.sleep(POLL_SECONDS)

    async def _passed(self, state: PostgresState, offset: int) -> bool:
        """Whether the request is settled."""
        position = (await state.load([self._key])).get(self._key)
        return position is not None and position.at(self.request.partition) > offset

    async def _result(self, state: PostgresState, run: RunRecord, *, by_replica: bool) -> Mapping[str, Json]:
        """MT-15."""
        rows = await state.partitions(run.asset) if run.asset else ()
        mine = [row for row in rows if (row.partition, row.snapshot_id) == (run.partition, run.snapshot_id)]
        schemas = await state.schemas(run.asset) if run.asset else ()
        versions = {schema.fingerprint: schema.version for schema in reversed(schemas)}
        return result_of(run, mine[0].previous_snapshot_id if mine else None, versions, by_replica=by_replica)


def result_of(run: RunRecord, previous_snapshot_id: int | None, versions: Mapping[str, int], *, by_replica: bool) -> Mapping[str, Json]:
    """What a run did, as `reactor/schemas/run-result.v1.json` has it. `versions`: schema versions by fingerprint."""
    told = as_json(run.claims.get("schema"))
    schema = told if isinstance(told, Mapping) else None
    fingerprint = str(schema["fingerprint"]) if schema else ""
    return {
        "run_id": str(run.run_id), "root_run_id": str(run.root_run_id), "script": run.script, "asset": run.asset, "partition": run.partition or None,
        "state": run.state, "error": run.error, "strategy": run.strategy, "changed": run.snapshot_id is not None, "snapshot_id": run.snapshot_id,
        "previous_snapshot_id": previous_snapshot_id, "rows_inserted": run.rows_inserted, "rows_deleted": run.rows_deleted,
        "schema": {"version": versions.get(fingerprint), "fingerprint": fingerprint, "columns": schema["columns"]} if schema else None,
        "drift": as_json(run.drift), "timings": as_json(run.timings), "compiled_sql": run.compiled_sql, "started_at": as_json(run.created_at),
        "finished_at": as_json(run.finished_at), "attempt": run.attempt, "actor": run.actor, "by_replica": by_replica,
    }


def _shown(result: Mapping[str, Json]) -> RenderableType:
    hidden = {"root_run_id", "schema", "drift", "timings", "compiled_sql", "by_replica", "actor", "attempt", "changed"}
    seen = {name.replace("_", " "): value for name, value in result.items() if name not in hidden}
    drift = result["drift"]
    return facts({**seen, "changed": "yes" if result["changed"] else "no", "drift": spoken_drift(drift) if isinstance(drift, Mapping) else ""})
