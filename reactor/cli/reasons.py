"""What follows from what is known of a script, an asset or an event: one word, one sentence and one next step for each fact. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reactor.cli.answers import counted, seen_at
from reactor.cli.positions import PositionLine
from reactor.cli.subject import Subject
from reactor.domain.decisions import meaning_of
from reactor.domain.spans import UNROUTED, WHOLE
from reactor.state.decisions import DecisionRecord, WaitingSlice
from reactor.state.listing import Gap, MaterializedPartition, RunRecord, RunSummary
from reactor.state.pauses import PauseRecord


@dataclass(frozen=True, slots=True)
class Reason:
    """`word` says what it is, `about` of what: a slice, a run, a source, another asset. `next_step`: empty if nothing is to be done."""

    word: str
    about: str
    sentence: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a subject. `partition`: only this slice is asked about. `last`: its newest run, whole; `served`: a replica runs it now."""

    subject: Subject
    now: datetime
    partition: str | None = None
    served: bool = False
    paused: PauseRecord | None = None
    decisions: Sequence[DecisionRecord] = ()
    waiting: Sequence[WaitingSlice] = ()
    runs: Sequence[RunSummary] = ()
    last: RunRecord | None = None
    slices: Sequence[MaterializedPartition] = ()
    positions: Sequence[PositionLine] = ()
    gaps: Sequence[Gap] = field(default_factory=tuple)


def whole(partition: str) -> str:
    """A slice, as people call it."""
    return {"": "the whole table", UNROUTED: "records without a slice"}.get(partition, partition)


# ---------------------------------------------------------------------------------------------------------------- of the text alone


def of_script(subject: Subject) -> Iterator[Reason]:
    """Why a script cannot run at all, and what does not fire it although it is read."""
    if subject.path is None:
        yield Reason("not_made", subject.name, "No script of this project makes it: it changes when another tool changes it.",
                     "Let commits of other tools fire scripts by `watch_external = true` in the lake's section of reactor.toml.")
    elif subject.script is None:
        yield Reason("refused", subject.path, f"The script is refused: {'; '.join(subject.why)}.", f"Mend it: `reactor check {subject.path}`.")
    elif subject.why:
        yield Reason("inactive", subject.path, f"The script waits for a feature: {'; '.join(subject.why)}.",
                     "Take the line away, or wait for the version of Reactor that has it.")
    elif not subject.script.edges:
        yield Reason("by_hand", subject.path, "Nothing fires the script: it has no `on` line, and no edge comes from its body.",
                     f"Run it by hand: `reactor run {subject.path}`, or name what fires it by an `on` line.")
    if subject.script is not None:
        yield from (Reason("muted", uri, *meaning_of("muted")) for uri in sorted(subject.script.muted))


# ---------------------------------------------------------------------------------------------------------------- of the state


def of_subject(facts: Facts) -> Iterator[Reason]:
    """Everything that is to be said, what keeps it from running first."""
    yield from of_script(facts.subject)
    if facts.subject.script is None or facts.subject.why:
        return
    if facts.paused is not None:
        why = f": {facts.paused.reason}" if facts.paused.reason else ""
        yield Reason("paused", facts.subject.name, f"It is paused by {facts.paused.actor} since {seen_at(facts.paused.paused_at)}{why}. What comes for it gathers.",
                     f"`reactor resume {facts.subject.name}`.")
    if not facts.served:
        yield Reason("not_served", facts.subject.name, "No replica runs this script now.", "`reactor serve`, or on a laptop `reactor dev`.")
    for line in facts.positions:
        yield from _of_position(line)
    yield from (_of_gap(gap) for gap in facts.gaps)
    yield from _of_slices(facts)
    yield from _of_what_was(facts)
    if facts.last is None and not facts.waiting and not facts.decisions:
        yield Reason("never", facts.subject.name, f"Nothing has come for {whole(facts.partition or '') if facts.partition is not None else 'it'} yet.", _wake(facts))


def _wake(facts: Facts) -> str:
    if facts.subject.script is not None and _reads_batch(facts):
        topics = " or ".join(edge.uri for edge in facts.subject.script.streams)
        return f"A record on {topics} brings it; `reactor positions list {facts.subject.name}` shows from where on it is read."
    return f"Run it by hand: `reactor run {facts.subject.path}{f' --partition {facts.partition}' if facts.partition else ''}`."


def _of_position(line: PositionLine) -> Iterator[Reason]:
    where = f"{line.source}/{line.source_partition}".rstrip("/")
    if line.halted:
        yield Reason("halted", where, line.halted, f"`reactor positions list {line.consumer}` shows what there is.")
    elif line.lag_events and not line.source.startswith(("outbox:", "inbox:")):
        yield Reason("behind", where, f"{counted(line.lag_events, 'offset')} of it are not settled yet: {line.low} of {line.end}.",
                     "If that does not shrink: `reactor runs list` shows whether runs fail.")


def _of_gap(gap: Gap) -> Reason:
    where = f"{gap.source}/{gap.source_partition}".rstrip("/")
    return Reason("lost_range", where, f"Offsets {gap.lo} to {gap.hi} were lost before they were read ({gap.reason}).",
                  f"Bring the rows by another way if they matter, then: `reactor positions acknowledge {gap.consumer}`.")


def _of_slices(facts: Facts) -> Iterator[Reason]:
    running = {run.run_id: run for run in facts.runs if run.state == "running"}
    blocked = {d for line in facts.positions for d in line.blocked if facts.partition in {None, d}}
    for partition in sorted(blocked):
        yield _blocked(facts, partition)
    for waiting in facts.waiting:
        if waiting.partition not in blocked:
            yield _of_waiting(facts, waiting, under_way=waiting.run_id in running)


def _blocked(facts: Facts, partition: str) -> Reason:
    error = next((s.error for s in facts.slices if s.partition == partition and s.error), None)
    failed = (run.error for run in facts.runs if run.state == "failed" and run.error and run.partition in {partition, WHOLE})
    error = error or next(failed, "the reason is no longer kept")
    again = "It is tried again every 5 minutes" if facts.subject.script and facts.subject.script.body.reads_batch else "It is tried again with the next event"
    return Reason("blocked", whole(partition), f"Its run failed, and nothing overtakes it: {error}",
                  f"{again}, and at once when the script has changed: mend it, and let `reactor serve` read it again.")


def _of_waiting(facts: Facts, waiting: WaitingSlice, *, under_way: bool) -> Reason:
    about, holds = whole(waiting.partition), counted(waiting.events, "event") if waiting.events else counted(waiting.records, "offset")
    if waiting.outcome == "joined":
        return Reason("joined", about, f"It waits for the other inputs: {waiting.inputs_in} of {waiting.inputs_needed} are in.",
                      "`reactor show` of the inputs says which has no such slice yet; to go without them, run it by hand.")
    if under_way:
        return Reason("running", about, f"A run of it is under way ({holds}).", f"`reactor runs show {waiting.run_id}`.")
    if facts.paused is not None:
        return Reason("gathers", about, f"It gathers ({holds}) until the asset is resumed.")
    if waiting.run_id is not None:
        return Reason("again", about, f"Its last run did not complete ({holds}): it is tried again.", f"`reactor runs show {waiting.run_id}` says why.")
    if waiting.due_at is not None and waiting.due_at > facts.now:
        return Reason("gathers", about, f"It gathers ({holds}) until {seen_at(waiting.due_at)}, for more may come (`debounce`).",
                      f"To have it now: `reactor run {facts.subject.path}`." if not _reads_batch(facts) else "")
    since = f" since {seen_at(waiting.due_at)}" if waiting.due_at else ""
    return Reason("due", about, f"It is due{since} ({holds}) and waits for its lane: an asset has one run at a time.",
                  "" if facts.served else "Nobody runs it: `reactor serve`.")


def _reads_batch(facts: Facts) -> bool:
    return facts.subject.script is not None and facts.subject.script.body.reads_batch


def _of_what_was(facts: Facts) -> Iterator[Reason]:
    """The newest run and what was skipped, newest first; that an update had nothing new says least, and comes last."""
    was = [*_of_skips(facts.decisions), *([(facts.last.created_at, of_run(facts.last))] if facts.last else [])]
    yield from (reason for _, reason in sorted(was, key=lambda one: (one[1].word != "unchanged", one[0]), reverse=True))


def _of_skips(decisions: Iterable[DecisionRecord]) -> Iterator[tuple[datetime, Reason]]:
    """Each reason word once for each asset, with the newest event and its time."""
    found: dict[tuple[str, str | None], list[DecisionRecord]] = {}
    for decision in (d for d in decisions if d.outcome == "skipped"):
        found.setdefault((decision.reason, decision.asset), []).append(decision)
    for (word, asset), skipped in found.items():
        meaning = meaning_of(word)
        newest = f" {counted(len(skipped), 'event')}, the newest {skipped[0].event_id} at {seen_at(skipped[0].decided_at)}."
        yield skipped[0].decided_at, Reason(word, asset or "", meaning.sentence + newest, meaning.next_step)


def of_run(run: RunRecord) -> Reason:
    """What the newest run did, and why it was started."""
    cause = cause_of(run)
    match run.state:
        case "completed" if run.snapshot_id is None:
            said = "completed and changed nothing"
        case "completed":
            said = f"completed as snapshot {run.snapshot_id} (+{run.rows_inserted or 0} -{run.rows_deleted or 0} rows)"
        case "failed" | "aborted":
            said = f"{run.state}: {run.error or 'no reason is kept'}"
        case _:
            said = f"is {run.state}"
    step = f"`reactor runs show {run.run_id}`." if run.state in {"failed", "aborted"} else ""
    return Reason(f"run_{run.state}", str(run.run_id), f"The last run of {whole(run.partition)} began at {seen_at(run.created_at)}, {cause}; it {said}.", step)


def cause_of(run: RunRecord) -> str:
    """Why it was started, from its trigger."""
    events, positions = run.trigger.get("events"), run.trigger.get("positions")
    if run.reason == "kafka" and isinstance(positions, list):
        spans = [f"{p['from']} to {p['to']} of {p['source']}/{p['source_partition']}" for p in positions[:3]]
        return f"because of offsets {', '.join(spans)}{' and more' if len(positions) > 3 else ''}"
    if run.reason in {"asset", "external"} and isinstance(events, list) and events:
        newest = events[-1]
        who = "another tool changed" if run.reason == "external" else "there was a new version of"
        return f"because {who} {newest['asset']} (snapshot {newest['snapshot_id']}, event {newest['event_id']}; {counted(len(events), 'event')})"
    if run.reason == "manual":
        return f"because {run.actor or 'somebody'} asked for it"
    return f"because of: {run.reason}"


# ---------------------------------------------------------------------------------------------------------------- of an event


def of_decision(decision: DecisionRecord, now: datetime) -> Reason:
    """What became of an event for one script and slice."""
    about = f"{decision.script} {decision.partition}".rstrip()
    if decision.outcome == "skipped":
        return Reason(decision.reason, about, *meaning_of(decision.reason))
    if decision.outcome == "joined":
        return Reason("joined", about, f"It is in, and waits for the other inputs: {decision.inputs_in} of {decision.inputs_needed}.")
    if decision.run_id is None:
        due = f"until {seen_at(decision.due_at)}" if decision.due_at and decision.due_at > now else f"for a run since {seen_at(decision.due_at or decision.decided_at)}"
        return Reason("waits", about, f"It is in the open slice, which waits {due}.", f"`reactor explain {decision.consumer}` says for what.")
    error = f": {decision.run_error}" if decision.run_error else ""
    ended = f"{decision.run_state}{error}" if decision.run_state else "which is no longer kept"
    snapshot = f", snapshot {decision.snapshot_id}" if decision.snapshot_id is not None else ""
    return Reason("dispatched", about, f"Run {decision.run_id} took it: {ended}{snapshot}.", f"`reactor runs show {decision.run_id}`." if decision.run_state else "")
