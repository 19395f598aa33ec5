"""`reactor positions`: how far sources have been read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from reactor.cli.answers import seen_at, table
from reactor.cli.call import Call, actor, example, verb, verbs
from reactor.cli.database import at_hand, looked_at
from reactor.cli.subject import subject_of
from reactor.core.examination import Halted, examine
from reactor.domain.assets import ProjectNames, read_asset, resolved
from reactor.domain.scripts import ScriptPath
from reactor.domain.spans import Position, PositionKey, SourcePartition
from reactor.errors import Outage, StateForbids, UsageError
from reactor.ports import LogBounds
from reactor.project import Opened, Project, names_of, path_in
from reactor.state import PostgresState
from reactor.state.listing import Gap
from reactor.wiring import log_bounds

app = verbs("How far sources have been read. Below the floor all is settled, for every slice but those that are blocked.",
            such_as="reactor positions list")

LAG_SECONDS_MAX = 5.0
"""What a broker may take that is only asked how far its topics go."""
EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class PositionLine:
    """How far a consumer is. `low`: from where no slice would miss a record; lag is counted from there. None: the broker was not asked or is away.

    `halted`: why it is not read until somebody decides.
    """

    consumer: str
    source: str
    source_partition: str
    floor: int
    low: int
    blocked: Sequence[str]
    end: int | None
    lag_events: int | None
    started_from: str
    topic_id: str | None
    halted: str | None = None


@app.command(name="list", epilog=example("reactor positions list ducklake://main/orders"))
@verb
def list_positions(call: Call, consumer: Annotated[str | None, typer.Argument(help="An asset's URI, or a program's path; else all.")] = None) -> None:
    """List how far each consumer has settled each source, what it lags behind, and which ranges were lost."""
    opened = call.open()
    with at_hand(call, opened.project):
        lines, gaps = call.run(_listed(call, opened.project, consumer and consumer_of(opened, consumer)))
    call.answer({"positions": lines, "gaps": gaps}, lambda: _shown(lines, gaps))


async def _listed(call: Call, project: Project, consumer: str | None) -> tuple[Sequence[PositionLine], Sequence[Gap]]:
    async with looked_at(project) as state:
        return await position_lines(call, project, state, consumer), await gaps_of(state, consumer)


async def gaps_of(state: PostgresState, consumer: str | None) -> Sequence[Gap]:
    """The lost ranges that nobody has acknowledged, of one consumer or all."""
    return [gap for gap in await state.gaps() if consumer in {None, gap.consumer}]


async def position_lines(call: Call, project: Project, state: PostgresState, consumer: str | None) -> Sequence[PositionLine]:
    """How far a consumer is, or all are, beside what the logs hold now."""
    positions = await state.positions(consumer)
    held = await _held(call, project, state, {key.source_partition for key in positions})
    return [_line(project, key, position, held.get(key.source_partition)) for key, position in positions.items()]


def _line(project: Project, key: PositionKey, position: Position, bounds: LogBounds | None) -> PositionLine:
    blocked = sorted(asset_partition for asset_partition, offset in position.fences.items() if offset < position.floor)
    end, lag, halted = None, None, None
    if bounds is not None:
        end, lag, halted = bounds.end, max(0, bounds.end - position.low), _halted(project, key, position, bounds)
    return PositionLine(
        key.consumer, key.source_partition.source, key.source_partition.number, position.floor, position.low, blocked, end, lag,
        position.started_from, position.topic_id, halted)


def _halted(project: Project, key: PositionKey, position: Position, bounds: LogBounds) -> str | None:
    """What a replica says of a position that does not fit its log."""
    cluster = project.settings.kafka.get(_cluster(key.source_partition))
    found = examine(key, position, bounds.topic_id, bounds.start, bounds.end, ephemeral=cluster is not None and cluster.embedded)
    return found.message if isinstance(found, Halted) else None


async def _held(call: Call, project: Project, state: PostgresState, partitions: Collection[SourcePartition]) -> Mapping[SourcePartition, LogBounds]:
    """What the logs hold, as far as that can be had soon; else a warning."""
    held: dict[SourcePartition, LogBounds] = {}
    by_cluster: defaultdict[str, list[SourcePartition]] = defaultdict(list)
    for p in partitions:
        if p.source.startswith("kafka://"):
            by_cluster[_cluster(p)].append(p)
        else:
            held[p] = await own_bounds(state, p)
    for cluster, asked in by_cluster.items():
        try:
            async with asyncio.timeout(LAG_SECONDS_MAX):
                held |= await _asked(project, asked)
        except TimeoutError:
            call.warn(f"the lag is not shown: Kafka cluster {cluster} does not answer within {LAG_SECONDS_MAX:g} s")
        except (Outage, UsageError) as error:
            call.warn(f"the lag is not shown: {error.args[0]}")
    return held


def _cluster(partition: SourcePartition) -> str:
    return partition.source.removeprefix("kafka://").partition("/")[0]


async def _asked(project: Project, partitions: Collection[SourcePartition]) -> Mapping[SourcePartition, LogBounds]:
    for cluster in {_cluster(p) for p in partitions} - project.settings.kafka.keys():
        raise UsageError(f"no Kafka cluster `{cluster}` is configured", hint=f"reactor.toml needs [kafka.{cluster}]")
    return await log_bounds(project, partitions)


async def own_bounds(state: PostgresState, partition: SourcePartition) -> LogBounds:
    """What the outbox or the inbox holds."""
    return LogBounds(None, 0, await (state.inbox_next() if partition.source.startswith("inbox:") else state.outbox_next()))


def _shown(lines: Sequence[PositionLine], gaps: Sequence[Gap]) -> RenderableType:
    parts: list[RenderableType] = [shown_positions(lines), *(Text(f"halted: {p.halted}") for p in lines if p.halted)]
    return Group(*parts, "", shown_gaps(gaps)) if gaps else Group(*parts)


def shown_positions(lines: Sequence[PositionLine]) -> RenderableType:
    """One position a line."""
    return table(
        ["consumer", "source", "part", "floor", "low", "end", "lag", "blocked"],
        ((p.consumer, p.source, p.source_partition, p.floor, p.low, p.end, p.lag_events, ", ".join(p.blocked)) for p in lines),
        right={"part", "floor", "low", "end", "lag"})


def shown_gaps(gaps: Sequence[Gap]) -> RenderableType:
    """One lost range a line."""
    return table(
        ["lost by", "source", "part", "from", "to", "reason", "found"],
        ((g.consumer, g.source, g.source_partition, g.lo, g.hi, g.reason, seen_at(g.found_at)) for g in gaps), right={"part", "from", "to"})


# ---------------------------------------------------------------------------------------------------------------- moving


@app.command(name="reset", epilog=example(
    "reactor positions reset ducklake://main/orders --source kafka://orders --to earliest --reason 'topic made anew' --confirm ducklake://main/orders"))
@verb
def reset_positions(
    call: Call,
    consumer: Annotated[str, typer.Argument(help="Whose position: an asset's URI, or a program's path.")],
    to: Annotated[str, typer.Option(metavar="earliest|latest|OFFSET", help="Where to go on reading.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept with the position.")],
    source: Annotated[str | None, typer.Option(metavar="URI", help="The topic, or outbox; needed if the consumer reads several.")] = None,
    source_partition: Annotated[str | None, typer.Option(metavar="NUMBER", help="One of the source's partitions; else all that have a position.")] = None,
    confirm: Annotated[str | None, typer.Option(metavar="CONSUMER", help="The consumer again: what is read twice is appended twice.")] = None,
) -> None:
    """Go on reading a source from another offset. A running replica takes it up by itself.

    Earlier than the floor: records are read again, and an append has them twice. Later: those between are never read.
    """
    opened = call.open()
    name = consumer_of(opened, consumer)
    if confirm is None or consumer_of(opened, confirm) != name:
        raise UsageError(f"this moves positions of {name}: records are read again, or never", hint=f"if that is meant: --confirm {name}")
    if to not in {EARLIEST, LATEST} and not (to.isascii() and to.isdigit()):
        raise UsageError(f"--to {to} is no offset", hint="write earliest, latest, or a number")
    if not reason.strip():
        raise UsageError("--reason is empty", hint="say why: it is kept with the position")
    with at_hand(call, opened.project):
        moved = call.run(_reset(opened, name, source, source_partition, to, reason))
    call.answer(moved, lambda: table(["consumer", "source", "part", "was", "now"], (
        (m["consumer"], m["source"], m["source_partition"], m["was"], m["floor"]) for m in moved), right={"part", "was", "now"}))


async def _reset(
    opened: Opened, consumer: str, source: str | None, number: str | None, to: str, reason: str,
) -> Sequence[Mapping[str, object]]:
    async with looked_at(opened.project) as state:
        chosen = _chosen(opened, await state.positions(consumer), consumer, source, number)
        partitions = {key.source_partition for key in chosen}
        bounds = {p: await own_bounds(state, p) for p in partitions if not p.source.startswith("kafka://")}
        if topics := partitions - bounds.keys():
            bounds |= await _asked(opened.project, topics)
        floors = {key: _floor(key, bounds.get(key.source_partition), to) for key in chosen}  # all are looked at before one is moved
        for key, floor in floors.items():
            if not await state.reset(key, floor, bounds[key.source_partition].topic_id, to, reason):
                raise StateForbids(f"{key.consumer} has no position on {key.source_partition} any more")
    return [
        {"consumer": key.consumer, "source": key.source_partition.source, "source_partition": key.source_partition.number,
         "was": chosen[key].floor, "floor": floor} for key, floor in floors.items()]


def _chosen(
    opened: Opened, positions: Mapping[PositionKey, Position], consumer: str, source: str | None, number: str | None,
) -> Mapping[PositionKey, Position]:
    """The positions that are meant. Raises `StateForbids` if there is none, `UsageError` if several sources may be."""
    if not positions:
        raise StateForbids(f"{consumer} has no position yet", hint="it gets one when `reactor serve` first reads for it")
    read = sorted({key.source_partition.source for key in positions if not key.source_partition.source.startswith("inbox:")})
    if source is None and len(read) > 1:
        raise UsageError(f"{consumer} reads several sources: {', '.join(read)}", hint="name one: --source")
    wanted = source_of(names_of(opened.project.settings), opened.project.settings.workspace, source) if source else "".join(read)
    chosen = {k: p for k, p in positions.items() if k.source_partition.source == wanted and number in {None, k.source_partition.number}}
    if not chosen:
        part = f"/{number}" if number is not None else ""
        raise StateForbids(f"{consumer} has no position on {wanted}{part}", hint=f"reactor positions list {consumer} shows those there are")
    return chosen


def _floor(key: PositionKey, bounds: LogBounds | None, to: str) -> int:
    """The offset that is meant. Raises `UsageError` for one that the log does not hold."""
    if bounds is None:
        raise StateForbids(f"{key.source_partition} does not exist, or has no leader now", hint="make the topic first, or ask again later")
    floor = {EARLIEST: bounds.start, LATEST: bounds.end}.get(to)
    if floor is None:
        floor = int(to)
    if not bounds.start <= floor <= bounds.end:
        raise UsageError(f"{key.source_partition} has no offset {to}: it holds {bounds.start} to {bounds.end}", hint="write earliest, latest, or one of these")
    return floor


@app.command(name="acknowledge", epilog=example("reactor positions acknowledge ducklake://main/orders"))
@verb
def acknowledge_gaps(
    call: Call,
    consumer: Annotated[str | None, typer.Argument(help="Whose lost ranges: an asset's URI, or a program's path.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those of all consumers.")] = False,
) -> None:
    """Say that the lost ranges have been seen: they no longer count in health."""
    if (consumer is None) != everything:
        raise UsageError("whose lost ranges are meant?", hint="name a consumer, or write --all")
    opened = call.open()
    with at_hand(call, opened.project):
        count = call.run(_acknowledged(opened.project, consumer and consumer_of(opened, consumer)))
    call.answer({"acknowledged": count}, lambda: f"{count} acknowledged")


async def _acknowledged(project: Project, consumer: str | None) -> int:
    async with looked_at(project) as state:
        return await state.acknowledge_gaps(consumer, actor())


# ---------------------------------------------------------------------------------------------------------------- names


def consumer_of(opened: Opened, text: str) -> str:
    """A consumer by its asset (URI or table name) or the path of its script, in their canonical spelling.

    It need not be of this project any more, if it is written as one that could have been. Raises `UsageError`.
    """
    if "://" in text:
        return read_asset(text).uri
    if text.startswith("publisher:"):
        return text
    path = ScriptPath(path_in(opened.project.folder, text))
    return path if "." in path and path not in opened.checked.scripts else subject_of(opened, text).consumer


def source_of(names: ProjectNames, workspace: str, text: str) -> str:
    """A source as positions name it: a topic with its cluster, the outbox with its workspace."""
    if text in {"outbox", "inbox"}:
        return f"{text}://{workspace}"
    return text if text.startswith(("outbox://", "inbox://")) else resolved(read_asset(text), names).uri
