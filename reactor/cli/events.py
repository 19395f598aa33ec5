"""`reactor events`: what was committed, and told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.json import JSON

from reactor.cli.answers import as_json, printable, table
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import at_hand, looked_at
from reactor.cli.runs import LIMIT, LIMIT_MAX
from reactor.domain.assets import read_asset
from reactor.errors import StateForbids
from reactor.project import Project
from reactor.state.outbox import NEWEST

app = verbs("What was committed, and told: one event for each snapshot, asset and slice that changed.", such_as="reactor events list")

Event = Mapping[str, Any]
"""A CloudEvent, as it is published (conventions 1)."""
POLL_SECONDS = 0.5
READ_EVENTS_MAX = 200


@app.command(name="list", epilog=example("reactor events list --asset ducklake://main/orders --limit 10"))
@verb
def list_events(
    call: Call,
    asset: Annotated[str | None, typer.Option(metavar="URI", help="Only events of this asset.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Lines at most.")] = LIMIT,
    cursor: Annotated[int | None, typer.Option(metavar="OFFSET", min=0, help="Go on behind this event: `next_cursor` of the page before.")] = None,
) -> None:
    """List events, newest first."""
    project = call.open().project
    with at_hand(call, project):
        found = call.run(_listed(project, asset and read_asset(asset).uri, NEWEST if cursor is None else cursor, limit))
    following = found[limit - 1][0] if len(found) > limit else None
    events = [event for _, event in found[:limit]]
    call.answer({"items": events, "next_cursor": following}, lambda: _shown(events))
    if following is not None:
        call.note(f"there are more: --cursor {following}")


async def _listed(project: Project, asset: str | None, before: int, limit: int) -> Sequence[tuple[int, Event]]:
    async with looked_at(project) as state:
        return await state.events(asset, before, limit + 1)


def _shown(events: Sequence[Event]) -> RenderableType:
    return table(
        ["time", "asset", "slice", "snapshot", "inserted", "deleted", "script", "event"],
        ((e["time"], e["subject"], e["data"]["partition"], e["data"]["snapshot_id"], e["data"]["rows_inserted"], e["data"]["rows_deleted"],
          e["data"]["script"], e["id"]) for e in events),
        right={"snapshot", "inserted", "deleted"})


@app.command(name="show", epilog=example("reactor events show 5f0e3c1a7d2b4c6e8a9b0c1d2e3f4a5b"))
@verb
def show_event(call: Call, event_id: Annotated[str, typer.Argument(help="The event's id.")]) -> None:
    """Show one event whole, also the lists that its published form has no room for."""
    project = call.open().project
    with at_hand(call, project):
        event = call.run(_one(project, event_id))
    call.answer(event, lambda: JSON.from_data(as_json(event), indent=2))


async def _one(project: Project, event_id: str) -> Event:
    async with looked_at(project) as state:
        event = await state.event(event_id)
    if event is None:
        raise StateForbids(f"there is no event {event_id}", hint="reactor events list shows those that are kept")
    return event


@app.command(name="tail", epilog=example("reactor events tail --asset ducklake://main/orders_daily --json"))
@verb
def tail_events(
    call: Call,
    asset: Annotated[str | None, typer.Option(metavar="URI", help="Only events of this asset.")] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="From the oldest event that is kept; else from now on.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
) -> None:
    """Show events as they are committed, one a line, until Ctrl-C.

    With --json each line is an answer of its own.
    """
    project = call.open().project
    with at_hand(call, project):
        call.run(tailed(call, project, asset and read_asset(asset).uri, limit, from_start=from_start))


async def tailed(call: Call, project: Project, asset: str | None, limit: int | None, *, from_start: bool) -> None:
    """Answer once for each event (of one asset, or all) as it is committed, `limit` times or for ever."""
    left = limit
    async with looked_at(project) as state:
        offset = 0 if from_start else await state.outbox_next()
        while left is None or left > 0:
            following, events = await state.read_published(offset, READ_EVENTS_MAX)
            for event in [e for e in events if asset in {None, e["subject"]}][:left]:
                call.answer(event, partial(_line, event))
                left = None if left is None else left - 1
            if following == offset:
                await asyncio.sleep(POLL_SECONDS)
            offset = following


def _line(event: Event) -> RenderableType:
    data = event["data"]
    where = f"{event['subject']} {data['partition']}" if data["partition"] else event["subject"]
    rows = f"+{data['rows_inserted'] or 0} -{data['rows_deleted'] or 0}"
    return printable(f"{event['time']}  {where}  snapshot {data['snapshot_id']}  {rows}  {data['script'] or 'another tool'}")
