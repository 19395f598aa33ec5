"""`reactor list`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Group, RenderableType

from reactor.cli.answers import seen_at, table
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import looked_at
from reactor.domain.lineage import Lineage
from reactor.domain.scripts import Partitioning, Script, ScriptPath
from reactor.domain.spans import Consumer
from reactor.errors import ReactorError
from reactor.project import Opened
from reactor.state import PostgresState
from reactor.state.pauses import PauseRecord

app = verbs()

LOOK_SECONDS_MAX = 5.0
"""What a database may take that is only asked by the way."""


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """A script. `state`: `active`, `paused`, `inactive` (it waits for a feature) or `refused`; `why` says so. `asset`: what it makes."""

    script: str
    state: str
    why: Sequence[str] = ()
    tag: str | None = None
    asset: str | None = None
    strategy: str | None = None
    partitioned: str | None = None
    inputs: Sequence[str] = ()
    fires: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class AssetLine:
    """A table that a script makes, and what the state knows of it. Rows are those of the last run; `blocked`: slices that wait.

    `paused`: its slices gather until `reactor resume`.
    """

    asset: str
    scripts: Sequence[str]
    snapshot_id: int | None = None
    rows_inserted: int | None = None
    rows_deleted: int | None = None
    updated_at: datetime | None = None
    materialized: int = 0
    failed: int = 0
    blocked: Sequence[str] = ()
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What the state knows: lines by asset, blocked slices and pauses by consumer."""

    assets: Mapping[str, AssetLine] = field(default_factory=dict)
    blocked: Mapping[str, Collection[str]] = field(default_factory=dict)
    paused: Mapping[Consumer, PauseRecord] = field(default_factory=dict)


@app.command(name="list", epilog=example("reactor list --json"))
@verb
def list_all(call: Call) -> None:
    """Show the scripts and what they materialize: strategy, slices, what fires them, and the last snapshot.

    Without a database what only the state knows is left out.
    """
    opened = call.open()
    known = call.run(_known(call, opened))
    scripts = script_lines(opened, known.paused)
    assets = asset_lines(opened.checked.lineage, known)
    call.answer({"scripts": scripts, "assets": assets}, lambda: _shown(scripts, assets))


def script_lines(opened: Opened, paused: Mapping[Consumer, PauseRecord]) -> Sequence[ScriptLine]:
    """Every script, also one that does not run, by path."""
    refused = [ScriptLine(path, "refused", why) for path, why in opened.checked.refused.items()]
    lineage = opened.checked.lineage
    found = [
        _script_line(script, opened.checked.inactive.get(path, ()), lineage.downstream(path), paused.get(Consumer(script.consumer)))
        for path, script in lineage.scripts.items()]
    return sorted([*refused, *found], key=lambda line: line.script)


def _script_line(script: Script, waits: Sequence[str], fires: Sequence[ScriptPath], paused: PauseRecord | None) -> ScriptLine:
    target = script.header.materialize
    state = "inactive" if waits else "paused" if paused else "active"
    return ScriptLine(
        script.path, state, waits or spoken_pause(paused), script.header.tag, target.asset if target else None,
        target.strategy if target else None, spoken(script.header.partitioned), [edge.uri or edge.kind for edge in script.edges], fires,
    )


def spoken_pause(paused: PauseRecord | None) -> Sequence[str]:
    """`paused by ada since 2026-06-20T07:00:00Z: upstream is being repaired`; nothing for what is not paused."""
    if paused is None:
        return ()
    return (f"paused by {paused.actor} since {seen_at(paused.paused_at)}" + (f": {paused.reason}" if paused.reason else ""),)


def spoken(partitioning: Partitioning | None) -> str | None:
    """`daily`, `hourly tz=Europe/Vienna`, `dynamic`."""
    if partitioning is None:
        return None
    return partitioning.kind if partitioning.zone == "UTC" else f"{partitioning.kind} tz={partitioning.zone}"


def asset_lines(lineage: Lineage, known: Known) -> Sequence[AssetLine]:
    """The assets that scripts make, and those that the state remembers."""
    lines = []
    for asset in sorted({*lineage.producers, *known.assets}):
        scripts, of_state = lineage.producers.get(asset, ()), known.assets.get(asset, AssetLine(asset, ()))
        lines.append(AssetLine(
            asset, scripts, of_state.snapshot_id, of_state.rows_inserted, of_state.rows_deleted, of_state.updated_at, of_state.materialized,
            of_state.failed, sorted(known.blocked.get(asset, ())), Consumer(asset) in known.paused))
    return lines


async def _known(call: Call, opened: Opened) -> Known:
    """What can be had soon; else a warning."""
    try:
        async with asyncio.timeout(LOOK_SECONDS_MAX), looked_at(opened.project) as state:
            return await asked(state)
    except TimeoutError:
        call.warn(f"snapshots are not shown: PostgreSQL does not answer within {LOOK_SECONDS_MAX:g} s")
    except ReactorError as error:
        call.warn(f"snapshots are not shown: {error.args[0]}")
    return Known()


async def asked(state: PostgresState) -> Known:
    """The newest snapshot of each table, the rows of its last run, and blocked slices."""
    assets = {}
    for one in await state.tables():
        runs = await state.runs(one.asset, "completed", limit=1)
        inserted, deleted = (runs[0].rows_inserted, runs[0].rows_deleted) if runs else (None, None)
        assets[one.asset] = AssetLine(one.asset, (), one.snapshot_id, inserted, deleted, one.updated_at, one.materialized, one.failed)
    blocked: defaultdict[str, set[str]] = defaultdict(set)
    for key, position in (await state.positions()).items():
        blocked[key.consumer] |= {asset_partition for asset_partition, offset in position.fences.items() if offset < position.floor}
    return Known(assets, blocked, await state.pauses())


def _shown(scripts: Sequence[ScriptLine], assets: Sequence[AssetLine]) -> RenderableType:
    first = table(
        ["script", "state", "makes", "strategy", "partitioned", "fired by", "why it does not run" if any(s.why for s in scripts) else ""],
        ((s.script, s.state, s.asset, s.strategy, s.partitioned, ", ".join(s.inputs), "; ".join(s.why)) for s in scripts))
    if not assets:
        return first
    second = table(
        ["asset", "snapshot", "inserted", "deleted", "updated", "slices", "failed", "blocked", "paused" if any(a.paused for a in assets) else ""],
        ((a.asset, a.snapshot_id, a.rows_inserted, a.rows_deleted, seen_at(a.updated_at), a.materialized, a.failed, ", ".join(a.blocked),
          "paused" if a.paused else "") for a in assets),
        right={"snapshot", "inserted", "deleted", "slices", "failed"})
    return Group(first, "", second)
