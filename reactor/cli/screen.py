"""Draws a `View`: pure functions from values to what rich prints, so that a test reads them as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from reactor.cli.live import AssetView, LaneView, RunView, SourceView, View

UPSTREAM_MAX = 3
"""Upstream snapshots of one run that are shown; it may have many slices."""
NONE = "-"


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around a view. `places`: what can be found where; `notes`: under `notes_title`, newest last; `keys`: how to go on."""

    title: str
    status: str
    elapsed_seconds: float
    places: Mapping[str, str] = field(default_factory=dict)
    notes_title: str = ""
    notes: Sequence[str] = ()
    keys: str = ""


def screen(view: View, frame: Frame) -> RenderableType:
    """The whole screen."""
    parts: list[RenderableType] = [_head(view, frame), _sources(view.sources), _assets(view.assets, view.at)]
    if errors := [_cut(f"{asset.script}: {first_line(said)}", "red") for asset in view.assets if (said := _error(asset))]:
        parts += [*errors, Text()]
    if frame.notes:
        parts += [Text(frame.notes_title, "bold"), *(_cut(f"  {note}", "dim") for note in frame.notes)]
    parts.append(_places(frame.places))
    return Group(*parts)


def line(view: View, frame: Frame) -> str:
    """The same in one line, for files and pipes."""
    newest = max((a for a in view.assets if a.last), key=_ended_at, default=None)
    fired = [f"{newest.script} fired by {fired_by(newest.last)}"] if newest else []
    return "; ".join([counted_line(view, frame), *fired])


def counted_line(view: View, frame: Frame) -> str:
    """Counts alone."""
    totals = view.totals
    counts = {"rows": totals.rows, "runs": totals.runs, "snapshots": totals.snapshots, "cascades": totals.cascades, "quarantined": totals.quarantined}
    tables = [f"{_short(a.name)} {a.rows} rows @{a.snapshot_id}" for a in view.assets if a.rows is not None and a.snapshot_id is not None]
    said = " ".join(f"{name}={number}" for name, number in {**counts, "lag": view.lag_events}.items())
    return "; ".join([f"{clock(frame.elapsed_seconds)} {frame.status}: {said}", *tables])


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


def age(at: datetime | None, now: float) -> str:
    """How long ago, by the unit that says it best."""
    if at is None:
        return NONE
    seconds = max(0.0, now - at.timestamp())
    for unit, unit_seconds in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * unit_seconds:
            return f"{seconds // unit_seconds:.0f} {unit}"
    return f"{seconds:.0f} s"


def fired_by(last: RunView | None) -> str:
    """Why the newest run was started, and with which upstream snapshots."""
    if last is None:
        return NONE
    if last.event_count:
        return f"{last.run.reason}, {_count(last.event_count)} records"
    shown = ", ".join(_upstream(snapshot) for snapshot in last.upstream[:UPSTREAM_MAX])
    more = f", {len(last.upstream) - UPSTREAM_MAX} more" if len(last.upstream) > UPSTREAM_MAX else ""
    return f"{last.run.reason}: {shown}{more}" if shown else last.run.reason


def doing(lane: LaneView | None) -> str:
    """What a lane has to do."""
    if lane is None:
        return NONE
    counts = (("open", lane.slices_open), ("due", lane.slices_due), ("blocked", lane.slices_blocked))
    words = ["paused"] * lane.paused + ["running"] * lane.running + [f"{n} {word}" for word, n in counts if n]
    return ", ".join(words) or "idle"


def first_line(text: str) -> str:
    """Of a message."""
    return (text.splitlines() or [""])[0]


def _upstream(snapshot: Mapping[str, object]) -> str:
    partition = f" {snapshot['partition']}" if snapshot.get("partition") else ""
    return f"{_short(str(snapshot['asset']))} @{snapshot['snapshot_id']}{partition}"


def _short(uri: str) -> str:
    """A table by its name alone."""
    return uri.rpartition("/")[2]


def _ended_at(asset: AssetView) -> float:
    ended = asset.last.run.finished_at if asset.last else None
    return ended.timestamp() if ended else 0.0


def _error(asset: AssetView) -> str | None:
    return asset.last.run.error if asset.last else None


def _head(view: View, frame: Frame) -> RenderableType:
    head = Table.grid(expand=True)
    head.add_column()
    head.add_column(justify="right")
    totals = view.totals
    head.add_row(Text(frame.title, "bold"), Text(f"{frame.status} {clock(frame.elapsed_seconds)}  {frame.keys}".rstrip(), "bold"))
    said = f"{_count(totals.rows)} rows in {_count(totals.runs)} runs, {_count(totals.snapshots)} snapshots, {_count(totals.cascades)} cascades"
    head.add_row(Text(said), Text(f"{_count(view.quarantined)} quarantined", "yellow" if view.quarantined else ""))
    return Group(head, Text())


def _sources(sources: Sequence[SourceView]) -> RenderableType:
    table = _table("topic", "lag", "records/s")
    for source in sources:
        rate = NONE if source.rate is None else f"{source.rate:,.1f}".replace(",", " ")
        table.add_row(source.source, _count(source.lag_events), rate)
    if not sources:
        table.add_row("no topic is read yet", "", "")
    return Group(table, Text())


def _assets(assets: Sequence[AssetView], now: float) -> RenderableType:
    table = _table("asset", "rows", "snapshot", "fresh", "slices", "fired by")
    for asset in assets:
        fresh = Text(age(asset.succeeded_at, now), "red" if _error(asset) else "")
        name = asset.name.removeprefix("ducklake://")
        table.add_row(name, _count(asset.rows), _count(asset.snapshot_id), fresh, doing(asset.lane), _cut(fired_by(asset.last)))
    return Group(table, Text())


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold underline")
    for name in columns:
        number = name in {"lag", "records/s", "rows", "snapshot", "fresh"}
        table.add_column(name, justify="right" if number else "left", no_wrap=name != "fired by")  # the one that gives way when it is narrow
    return table


def _places(places: Mapping[str, str]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for name, place in places.items():
        grid.add_row(Text(name, "dim"), Text(place, no_wrap=True, overflow="fold"))
    return grid


def _cut(text: str, style: str = "") -> Text:
    """One line, whatever the width."""
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _count(number: int | None) -> str:
    """In groups of three digits; nothing is a dash."""
    return NONE if number is None else f"{number:,}".replace(",", " ")
