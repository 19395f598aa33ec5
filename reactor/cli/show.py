"""`reactor show`: everything that is known about one asset or script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from reactor.cli.answers import Json, as_json, counted, facts, printable, seen_at, table
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import at_hand, looked_at
from reactor.cli.list import spoken, spoken_pause
from reactor.cli.positions import PositionLine, gaps_of, position_lines, shown_gaps, shown_positions
from reactor.cli.runs import shown_runs
from reactor.cli.subject import Subject, subject_of
from reactor.domain.annotations import read_header
from reactor.domain.assets import LakeTable
from reactor.domain.scripts import Script, ScriptPath
from reactor.domain.spans import Consumer
from reactor.errors import Outage, ReactorError, StateForbids, headline_of
from reactor.project import Opened, names_of
from reactor.state import PostgresState
from reactor.state.decisions import WaitingSlice
from reactor.state.listing import Gap, MaterializedPartition, RunSummary, SchemaRecord
from reactor.state.pauses import PauseRecord

app = verbs()

LINES, LINES_MAX = 10, 500


@dataclass(frozen=True, slots=True)
class Known:
    """What the state and the logs know of a subject. `rows`: of the whole table now; `waiting`: what is decided and not settled."""

    paused: PauseRecord | None = None
    runs: Sequence[RunSummary] = ()
    partitions: Sequence[MaterializedPartition] = ()
    rows: int | None = None
    schema: SchemaRecord | None = None
    waiting: Sequence[WaitingSlice] = ()
    positions: Sequence[PositionLine] = ()
    gaps: Sequence[Gap] = ()


@app.command(name="show", epilog=example("reactor show ducklake://main/orders_daily"))
@verb
def show(
    call: Call,
    name: Annotated[str, typer.Argument(help="An asset's URI or table name, a script's path, or a topic's URI.")],
    limit: Annotated[int, typer.Option(min=1, max=LINES_MAX, help="Runs and slices at most.")] = LINES,
) -> None:
    """Show everything that is known about one asset or script.

    Its header, what fires it and what it fires, its last runs, snapshot and rows, the slices that wait and until when, how far its sources are
    read and what halts them. Without a database what only the state knows is left out. `reactor explain` says what follows from it.
    """
    opened = call.open()
    subject = subject_of(opened, name)
    known = _known(call, opened, subject, limit)
    call.answer(as_data(opened, subject, known, limit), lambda: Group(*_shown(opened, subject, known, limit)))


def _known(call: Call, opened: Opened, subject: Subject, limit: int) -> Known:
    """What can be had; else a warning."""
    try:
        with at_hand(call, opened.project):
            return call.run(_looked_up(call, opened, subject, limit))
    except (Outage, StateForbids) as error:
        call.warn(f"only the scripts are shown: {error.args[0]}")
    return Known()


async def _looked_up(call: Call, opened: Opened, subject: Subject, limit: int) -> Known:
    async with looked_at(opened.project) as state:
        if subject.kind == "stream":
            positions = [line for line in await position_lines(call, opened.project, state, None) if line.source == subject.name]
            return Known(positions=positions, gaps=[gap for gap in await state.gaps() if gap.source == subject.name])
        schemas = await state.schemas(subject.asset) if subject.asset else ()
        return Known(
            (await state.pauses()).get(Consumer(subject.consumer)),
            await state.runs(subject.asset or subject.name, limit=limit),
            await state.partitions(subject.asset) if subject.asset else (),
            await _rows(state, subject.asset),
            schemas[0] if schemas else None,
            await state.waiting(subject.consumer),
            await position_lines(call, opened.project, state, subject.consumer),
            await gaps_of(state, subject.consumer))


async def _rows(state: PostgresState, asset: str | None) -> int | None:
    """None: it is no table, or its lake is not there yet."""
    if asset is None or not asset.startswith("ducklake://"):
        return None
    try:
        return (await state.row_counts(LakeTable.parse(asset).lake)).get(asset)
    except ReactorError:
        return None


# ---------------------------------------------------------------------------------------------------------------- as data


def as_data(opened: Opened, subject: Subject, known: Known, limit: int) -> Mapping[str, object]:
    """The answer. `slices` counts asset partitions by status, `partitions` are the newest of them."""
    lineage, newest = opened.checked.lineage, _newest(known.partitions)
    return {
        "name": subject.name, "kind": subject.kind, "script": _script_data(opened, subject), "asset": subject.asset,
        "made_by": lineage.producers.get(subject.asset or "", ()), "fires": fired_by(opened, subject),
        "paused": known.paused, "snapshot_id": newest and newest.snapshot_id, "updated_at": newest and newest.updated_at, "rows": known.rows,
        "schema": known.schema, "slices": Counter(p.status for p in known.partitions), "partitions": known.partitions[:limit],
        "runs": known.runs, "waiting": known.waiting, "blocked": blocked_of(known.positions), "positions": known.positions, "gaps": known.gaps,
    }


def _script_data(opened: Opened, subject: Subject) -> Mapping[str, object] | None:
    if subject.path is None:
        return None
    state = "refused" if subject.script is None else "inactive" if subject.why else "active"
    found: dict[str, object] = {"path": subject.path, "state": state, "why": subject.why}
    if (script := subject.script) is not None:
        found |= {
            "language": script.language, "version": script.version, "dropped_lines": opened.checked.dropped.get(script.path, 0),
            "header": _written(as_json(script.header)), "inputs": [_written(as_json(edge)) for edge in script.edges],
            "reads": script.body.reads, "muted": sorted(script.muted)}
    return found


def _written(value: Json) -> Json:
    """Without what is not written."""
    return {name: inner for name, inner in value.items() if inner not in (None, [], False)} if isinstance(value, Mapping) else value


def fired_by(opened: Opened, subject: Subject) -> Sequence[ScriptPath]:
    """The scripts that its changes, or its records, fire."""
    lineage = opened.checked.lineage
    if subject.kind == "script" and subject.script is not None:
        return lineage.downstream(subject.script.path)
    return lineage.consumers.get(subject.name, ())


def blocked_of(positions: Sequence[PositionLine]) -> Sequence[str]:
    """Slices that wait for a change, whatever source they come from."""
    return sorted({asset_partition for line in positions for asset_partition in line.blocked})


def _newest(partitions: Sequence[MaterializedPartition]) -> MaterializedPartition | None:
    return max((p for p in partitions if p.snapshot_id is not None), key=lambda p: p.snapshot_id or 0, default=None)


# ---------------------------------------------------------------------------------------------------------------- for eyes


def _shown(opened: Opened, subject: Subject, known: Known, limit: int) -> Iterator[RenderableType]:
    yield _about(opened, subject, known)
    if subject.script is not None:
        yield from ("", Text(printable_lines(_header(opened, subject.script))))
    if known.waiting:
        yield from ("", shown_waiting(known.waiting))
    if known.partitions:
        yield from ("", _shown_partitions(known.partitions[:limit]))
    if known.runs:
        yield from ("", shown_runs(known.runs))
    if known.positions:
        yield from ("", shown_positions(known.positions))
    yield from (Text(f"halted: {line.halted}") for line in known.positions if line.halted)
    if known.gaps:
        yield from ("", shown_gaps(known.gaps))


def _about(opened: Opened, subject: Subject, known: Known) -> RenderableType:
    script, newest = subject.script, _newest(known.partitions)
    target = script.header.materialize if script else None
    data = _script_data(opened, subject) or {}
    by_status = Counter(p.status for p in known.partitions)
    return facts({
        subject.kind: subject.name, "script": subject.path if subject.path != subject.name else None,
        "state": "paused" if known.paused else data.get("state"), "why": "; ".join([*subject.why, *spoken_pause(known.paused)]),
        "makes": subject.asset if subject.asset != subject.name else None, "strategy": target.strategy if target else None,
        "partitioned": spoken(script.header.partitioned) if script else None,
        "fired by": ", ".join(edge.uri or edge.kind for edge in script.edges) if script else None,
        "fires": ", ".join(fired_by(opened, subject)), "snapshot": newest and newest.snapshot_id, "updated": seen_at(newest.updated_at) if newest else None,
        "rows": known.rows, "slices": ", ".join(f"{n} {status}" for status, n in sorted(by_status.items())),
        "blocked": ", ".join(blocked_of(known.positions)),
        "columns": ", ".join(f"{column} {type_}" for column, type_ in known.schema.columns) if known.schema else None,
    })


def _header(opened: Opened, script: Script) -> str:
    return script.text[: read_header(script.text, names_of(opened.project.settings)).body_at].strip()


def printable_lines(text: str) -> str:
    """Several lines, none of which moves the cursor."""
    return "\n".join(printable(line) for line in text.splitlines())


def shown_waiting(waiting: Sequence[WaitingSlice]) -> RenderableType:
    """One slice that waits a line."""
    return table(
        ["waits", "holds", "since", "due", "last run"],
        ((w.partition or "(whole table)", held(w), seen_at(w.since), seen_at(w.due_at), w.run_id) for w in waiting))


def held(waiting: WaitingSlice) -> str:
    """`2 events, 40 offsets`; of a join how many of its inputs are in."""
    if waiting.inputs_needed is not None:
        return f"{waiting.inputs_in} of {counted(waiting.inputs_needed, 'input')}"
    parts = [counted(n, word) for n, word in ((waiting.events, "event"), (waiting.records, "offset")) if n]
    return ", ".join(parts)


def _shown_partitions(partitions: Sequence[MaterializedPartition]) -> RenderableType:
    return table(
        ["slice", "status", "snapshot", "inserted", "deleted", "updated", "error"],
        ((p.partition or "(whole table)", p.status, p.snapshot_id, p.rows_inserted, p.rows_deleted, seen_at(p.updated_at), headline_of(p.error or "")) for p in partitions),
        right={"snapshot", "inserted", "deleted"})
