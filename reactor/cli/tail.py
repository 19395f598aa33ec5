"""`reactor tail`: the events of one asset, as they are committed."""

from __future__ import annotations

from typing import Annotated

import typer

from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import at_hand
from reactor.cli.events import tailed
from reactor.cli.positions import consumer_of
from reactor.errors import UsageError

app = verbs()


@app.command(name="tail", epilog=example("reactor tail ducklake://main/orders_daily --json"))
@verb
def tail(
    call: Call,
    asset: Annotated[str, typer.Argument(help="An asset's URI or table name, or the path of the script that makes it.")],
    from_start: Annotated[bool, typer.Option("--from-start", help="From the oldest event that is kept; else from now on.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
) -> None:
    """Show the events of an asset as they are committed, one a line, until Ctrl-C.

    With --json each line is an answer of its own. Exit codes: 130 Ctrl-C, 4 the time of --timeout, 0 after --limit events.
    """
    opened = call.open()
    uri = consumer_of(opened, asset)
    if "://" not in uri:
        raise UsageError(f"{asset} makes no table, so it has no events", hint=f"reactor runs list --script {asset} shows its runs")
    if uri.startswith("kafka://"):
        raise UsageError(f"{uri} is a topic: what comes there is told as the events of the tables that read it", hint="reactor graph shows which those are")
    if uri not in opened.checked.lineage.producers:
        call.warn(f"no script of this project makes {uri}: only commits of other tools would show")
    with at_hand(call, opened.project):
        call.run(tailed(call, opened.project, uri, limit, from_start=from_start))
