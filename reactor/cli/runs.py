"""`reactor runs`: what has run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from string import hexdigits
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from reactor.cli.answers import facts, printable, seen_at, table
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import at_hand, looked_at
from reactor.domain.assets import read_asset
from reactor.domain.runs import RunId, RunState
from reactor.errors import StateForbids, UsageError
from reactor.project import Project, path_in
from reactor.state import PostgresState
from reactor.state.listing import LogChunk, RunRecord, RunSummary

app = verbs("What has run, newest first.", such_as="reactor runs list")

LIMIT, LIMIT_MAX = 50, 500
"""Lines of a list."""
FOLLOW_SECONDS = 0.3
DIGITS, DIGITS_MIN = 32, 6
"""Hexadecimal digits of an id, and how many of them name a run if no other begins so."""
SIMILAR_MAX = 20
"""So many are listed of runs that begin alike."""
RunArgument = Annotated[str, typer.Argument(help="The run's id, or its beginning.")]


@app.command(name="list", epilog=example("reactor runs list --asset ducklake://main/orders_daily --state failed"))
@verb
def list_runs(
    call: Call,
    asset: Annotated[str | None, typer.Option(metavar="URI", help="Only runs that made this asset.")] = None,
    script: Annotated[str | None, typer.Option(metavar="PATH", help="Only runs of this script.")] = None,
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Lines at most.")] = LIMIT,
    cursor: Annotated[UUID | None, typer.Option(metavar="RUN_ID", help="Go on behind this run: `next_cursor` of the page before.")] = None,
) -> None:
    """List runs, newest first."""
    if asset is not None and script is not None:
        raise UsageError("--asset and --script cannot both be meant", hint="a script makes one asset: either is enough")
    project = call.open().project
    of = read_asset(asset).uri if asset is not None else script and path_in(project.folder, script)
    with at_hand(call, project):
        runs = call.run(_listed(project, of, state, RunId(cursor) if cursor else None, limit))
    following = runs[limit - 1].run_id if len(runs) > limit else None
    call.answer({"items": runs[:limit], "next_cursor": following}, lambda: shown_runs(runs[:limit]))
    if following is not None:
        call.note(f"there are more: --cursor {following}")


async def _listed(project: Project, of: str | None, state: RunState | None, before: RunId | None, limit: int) -> Sequence[RunSummary]:
    async with looked_at(project) as opened:
        return await opened.runs(of, state, before, limit + 1)


def shown_runs(runs: Sequence[RunSummary]) -> RenderableType:
    """One run a line."""
    return table(
        ["run", "script", "slice", "state", "reason", "attempt", "snapshot", "inserted", "deleted", "started", "seconds"],
        ((r.run_id, r.script, r.partition, r.state, r.reason, r.attempt, r.snapshot_id, r.rows_inserted, r.rows_deleted, seen_at(r.created_at),
          f"{(r.finished_at - r.created_at).total_seconds():.1f}" if r.finished_at else None) for r in runs),
        right={"attempt", "snapshot", "inserted", "deleted", "seconds"})


@app.command(name="show", epilog=example("reactor runs show 019ed0a4-7b1c-7c1e-8f1a-0d5b2a9c4e11 --json"))
@verb
def show_run(call: Call, run_id: RunArgument) -> None:
    """Show all that is kept of one run: its trigger, what it wrote, its SQL or its error."""
    digits, project = digits_of(run_id), call.open().project
    with at_hand(call, project):
        record = call.run(_one(project, digits))
    call.answer(record, lambda: _shown_run(record))


async def _one(project: Project, digits: str) -> RunRecord:
    async with looked_at(project) as state:
        record = await state.run(await _meant(state, digits))
    if record is None:
        raise _no_run(digits)
    return record


def digits_of(run_id: str) -> str:
    """The hexadecimal digits with which an id begins, or all of them. Raises `UsageError`."""
    digits = run_id.replace("-", "").lower()
    if not DIGITS_MIN <= len(digits) <= DIGITS or not set(digits) <= set(hexdigits):
        raise UsageError(f"{run_id} is no run's id", hint=f"name all of it, or at least its first {DIGITS_MIN} digits: reactor runs list")
    return digits


async def _meant(state: PostgresState, digits: str) -> RunId:
    """The only run whose id begins so. Raises `StateForbids`, `UsageError`."""
    found = await state.runs_between(UUID(digits.ljust(DIGITS, "0")), UUID(digits.ljust(DIGITS, "f")), SIMILAR_MAX)
    if not found:
        raise _no_run(digits)
    if len(found) > 1:
        raise UsageError(f"several runs have ids that begin with {digits}", hint=f"say more of one: {', '.join(map(str, found))}")
    return found[0]


def _no_run(digits: str) -> StateForbids:
    named = str(UUID(digits)) if len(digits) == DIGITS else f"whose id begins with {digits}"
    return StateForbids(f"there is no run {named}", hint="reactor runs list shows those that are kept")


@app.command(name="logs", epilog=example("reactor runs logs 019ed0a4-7b1c-7c1e-8f1a-0d5b2a9c4e11 --follow"))
@verb
def logs_of_run(
    call: Call,
    run_id: RunArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while it runs.")] = False,
) -> None:
    """Show what a run said: the output of a program, the warnings of a SQL script. At most the last MiB is kept.

    With --json {lines: [{at, line}], whole}; with --follow too, each line is an answer of its own.
    """
    digits, project = digits_of(run_id), call.open().project
    with at_hand(call, project):
        call.run(_logs(call, project, digits, follow=follow))


async def _logs(call: Call, project: Project, digits: str, *, follow: bool) -> None:
    said = Said()
    async with looked_at(project) as state:
        run_id = await _meant(state, digits)
        while True:
            found = await state.log(run_id, said.following)
            if found is None:
                raise _no_run(digits)
            ended = found[0] not in {"queued", "running"}
            said.hear(found[1])
            if follow:
                _say_lines(call, said.taken(all_of_it=ended))
            if ended or not follow:
                break
            await asyncio.sleep(FOLLOW_SECONDS)
    if not follow:
        lines = said.taken(all_of_it=True)
        if not lines:
            call.note("it has said nothing; `reactor runs show` has what it did")
        call.answer({"lines": lines, "whole": said.whole}, lambda: Text("\n".join(printable(line.line.expandtabs()) for line in lines)) if lines else None)
    if not said.whole:
        call.note("it said more: only the end is kept")


def _say_lines(call: Call, lines: Sequence[LogLine]) -> None:
    for line in lines:
        call.answer(line, partial(Text, printable(line.line.expandtabs())))


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line, and when its end was heard."""

    at: datetime
    line: str


@dataclass(slots=True)
class Said:
    """Chunks of a log made into lines. `whole`: nothing at its beginning, or in between, is missing."""

    following: int = 0
    whole: bool = True
    _lines: list[LogLine] = field(default_factory=list)
    _rest: str = ""
    _heard_at: datetime | None = None

    def hear(self, chunks: Sequence[LogChunk]) -> None:
        """More of it."""
        for chunk in chunks:
            self.whole &= chunk.chunk == self.following
            self.following, self._heard_at = chunk.chunk + 1, chunk.logged_at
            *lines, self._rest = (self._rest + chunk.text).split("\n")
            self._lines += [LogLine(chunk.logged_at, line.rstrip("\r")) for line in lines]

    def taken(self, *, all_of_it: bool) -> Sequence[LogLine]:
        """The lines that are not taken yet; `all_of_it`: also one that has no end."""
        taken, self._lines = self._lines, []
        if all_of_it and self._rest and self._heard_at is not None:
            taken.append(LogLine(self._heard_at, self._rest))
            self._rest = ""
        return taken


def _shown_run(run: RunRecord) -> RenderableType:
    seconds = ", ".join(f"{stage} {took:.3f} s" for stage, took in run.timings.items())
    about = facts({
        "run": run.run_id, "state": run.state, "error": run.error, "script": run.script, "script version": run.script_version, "asset": run.asset, "slice": run.partition,
        "strategy": run.strategy, "reason": run.reason, "attempt": run.attempt, "actor": run.actor, "replica": run.replica,
        "snapshot": run.snapshot_id, "inserted": run.rows_inserted, "deleted": run.rows_deleted, "started": seen_at(run.created_at),
        "finished": seen_at(run.finished_at), "stages": seconds, "drift": spoken_drift(run.drift), "root run": run.root_run_id,
    })
    return Group(about, "", Text(run.compiled_sql.rstrip())) if run.compiled_sql else about


def spoken_drift(drift: Mapping[str, object]) -> str:
    """How the SELECT differs from the table; empty if it does not."""
    return "; ".join(f"{kind.replace('_', ' ')}: {', '.join(map(str, columns))}" for kind, columns in drift.items() if isinstance(columns, list) and columns)
