"""`reactor explain`: why something ran, why it did not, and what it waits for."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from reactor.cli.answers import printable, printable_lines, seen_at, table
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import at_hand, looked_at
from reactor.cli.positions import gaps_of, position_lines
from reactor.cli.reasons import Facts, Reason, of_decision, of_script, of_subject, whole
from reactor.cli.show import fired_by
from reactor.cli.subject import Subject, subject_of
from reactor.domain.partitions import asked_partition
from reactor.domain.runs import RunId
from reactor.domain.spans import Consumer
from reactor.errors import StateForbids, UsageError
from reactor.project import Opened
from reactor.state import PostgresState
from reactor.state.decisions import DecisionRecord
from reactor.state.listing import RunSummary
from reactor.wiring import inbox_lease

app = verbs()

LINES, LINES_MAX = 20, 500
RUNS_LOOKED_AT = 50
EVENT_ID = re.compile(r"[0-9a-f]{32}")


@app.command(name="explain", epilog=example("reactor explain ducklake://main/orders_daily#2026-06-19"))
@verb
def explain(
    call: Call,
    what: Annotated[str, typer.Argument(help="An asset's URI or table name, or a script's path, with #<slice> for one slice; or the id of an event.")],
    partition: Annotated[str | None, typer.Option(metavar="KEY", help="Only this slice; the same as #KEY.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LINES_MAX, help="Decisions at most.")] = LINES,
) -> None:
    """Say why an asset, a slice or a script ran, why it did not run, and what it waits for; or what became of an event.

    Each fact is a word, a sentence and what to do about it; below stand the newest decisions, which are kept for 30 days. With --json: {about,
    reasons: [{word, about, sentence, next_step}], decisions}.
    """
    opened = call.open()
    if EVENT_ID.fullmatch(what):
        if partition is not None:
            raise UsageError("an event has no --partition here", hint="name the asset that it was for, or leave --partition out")
        with at_hand(call, opened.project):
            about, reasons, decisions = call.run(_event(opened, what))
    else:
        subject, key = _meant(opened, what, partition)
        about = {"name": subject.name, "kind": subject.kind, "script": subject.path, "partition": key}
        reasons, decisions = list(of_script(subject)), ()
        if subject.script is not None and not subject.why:
            with at_hand(call, opened.project):
                reasons, decisions = call.run(_subject(call, opened, subject, key, limit))
    call.answer({"about": about, "reasons": reasons, "decisions": decisions}, lambda: _shown(about, reasons, decisions))


def _meant(opened: Opened, what: str, partition: str | None) -> tuple[Subject, str | None]:
    """The subject and the slice that are meant. Raises `UsageError`, `NoSlice`."""
    name, mark, key = what.partition("#")
    if mark and partition is not None:
        raise UsageError("#<slice> and --partition cannot both be meant", hint="write either")
    subject, wanted = subject_of(opened, name), key if mark else partition
    if subject.kind == "stream":
        listeners = fired_by(opened, subject)
        raise UsageError(f"{subject.name} is a stream: scripts read it, it does not run",
                         hint=f"reactor explain {listeners[0]}" if listeners else "no script of this project reads it")
    if wanted is not None and subject.script is not None:
        wanted = asked_partition(subject.script.header.partitioned, wanted, time.time())
    return subject, wanted


async def _subject(call: Call, opened: Opened, subject: Subject, partition: str | None, limit: int) -> tuple[list[Reason], Sequence[DecisionRecord]]:
    async with looked_at(opened.project) as state:
        decisions = await state.decisions(subject.consumer, partition, limit)
        runs = await state.runs(subject.asset or subject.name, limit=RUNS_LOOKED_AT)
        newest = _newest_run(runs, decisions, partition)
        facts = Facts(
            subject, datetime.now(UTC), partition, await _is_served(state, subject), (await state.pauses()).get(Consumer(subject.consumer)), decisions,
            [w for w in await state.waiting(subject.consumer) if partition in {None, w.partition}], runs, await state.run(newest) if newest else None,
            [p for p in await state.partitions(subject.asset) if partition in {None, p.partition}] if subject.asset else (),
            await position_lines(call, opened.project, state, subject.consumer), await gaps_of(state, subject.consumer))
    return list(of_subject(facts)), decisions


def _newest_run(runs: Sequence[RunSummary], decisions: Sequence[DecisionRecord], partition: str | None) -> RunId | None:
    """The newest run of a subject, or of one of its slices: an append takes several, and only the decisions say which."""
    found = [run.run_id for run in runs if partition in {None, run.partition}]
    found += [d.run_id for d in decisions if d.run_id is not None and d.run_state is not None]
    return RunId(max(found)) if found else None


async def _is_served(state: PostgresState, subject: Subject) -> bool:
    tag = subject.script.header.tag if subject.script else None
    return await state.lease_holder(inbox_lease(tag or "")) is not None


async def _event(opened: Opened, event_id: str) -> tuple[Mapping[str, object], list[Reason], Sequence[DecisionRecord]]:
    async with looked_at(opened.project) as state:
        event, decisions = await state.event(event_id), await state.decisions_of_event(event_id)
    if event is None and not decisions:
        raise StateForbids(f"nothing is known of an event {event_id}", hint="reactor events list shows those that are kept")
    asset = str(event["subject"]) if event else next((d.asset for d in decisions), None)
    now, decided = datetime.now(UTC), {d.consumer for d in decisions}
    reasons = [of_decision(decision, now) for decision in decisions]
    scripts = opened.checked.lineage.scripts
    undecided = [path for path in opened.checked.lineage.consumers.get(asset or "", ()) if scripts[path].consumer not in decided]
    reasons += [
        Reason("undecided", path, "Nothing is kept of it for this script: it came before the script was first served, or no replica has read it yet.",
               f"`reactor explain {scripts[path].consumer}` says whether a replica runs it.") for path in undecided]
    if not reasons:
        reasons = [Reason("no_subscriber", asset or "", "No script of this project is fired by it.")]
    return {"name": event_id, "kind": "event", "asset": asset, "time": event and event["time"]}, reasons, decisions


# ---------------------------------------------------------------------------------------------------------------- for eyes


def _shown(about: Mapping[str, object], reasons: Sequence[Reason], decisions: Sequence[DecisionRecord]) -> RenderableType:
    head = " ".join(dict.fromkeys(str(value) for name, value in about.items() if value is not None and name != "kind"))
    parts: list[RenderableType] = [Text(printable(head), style="bold")]
    for reason in reasons:
        said = printable_lines(f"{reason.about}: {reason.sentence}" if reason.about else reason.sentence, "    ")
        parts.append(Text.assemble((reason.word, "bold"), f"  {said}"))
        parts += [Text(printable(f"    {reason.next_step}"), style="dim")] if reason.next_step else []
    return Group(*parts, "", shown_decisions(decisions)) if decisions else Group(*parts)


def shown_decisions(decisions: Sequence[DecisionRecord]) -> RenderableType:
    """One decision a line."""
    return table(
        ["decided", "slice", "what", "outcome", "due", "run", "state"],
        ((seen_at(d.decided_at), whole(d.partition), _what(d), _outcome(d), seen_at(d.due_at), d.run_id, d.run_state) for d in decisions))


def _what(decision: DecisionRecord) -> str:
    if decision.event_id is not None:
        return f"{decision.asset or 'by hand'}, event {decision.event_id}"
    return f"{decision.source}/{decision.source_partition} {decision.lo} to {decision.hi}"


def _outcome(decision: DecisionRecord) -> str:
    if decision.outcome == "joined":
        return f"joined {decision.inputs_in}/{decision.inputs_needed}"
    return f"skipped({decision.reason})" if decision.outcome == "skipped" else decision.outcome
