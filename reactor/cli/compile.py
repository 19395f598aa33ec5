"""`reactor compile`."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.text import Text

from reactor.cli.call import Call, example, verb, verbs
from reactor.domain.partitions import asked_partition, window
from reactor.domain.scripts import Script
from reactor.errors import Outage, UsageError
from reactor.lake.compiling import compiled, shape_now
from reactor.lake.statements.plan import Shape, as_text
from reactor.project import Project
from reactor.wiring import lake_settings, state_url

app = verbs()


@app.command(name="compile", epilog=example("reactor compile marts/orders_daily.sql --partition 2026-06-19"))
@verb
def compile_script(
    call: Call,
    script: Annotated[str, typer.Argument(help="The script's path.")],
    partition: Annotated[str | None, typer.Option(metavar="KEY", help="The slice; else that of now.")] = None,
) -> None:
    """Show the SQL that a run would execute for one slice of a script. Nothing is executed.

    Without a database it is shown as if the table were there already.
    """
    opened = call.open()
    found = opened.script(script)
    if found.managed is None:
        raise UsageError(f"{found.path} is a program: it has no SQL that Reactor runs", hint="reactor run runs it")
    asset_partition = named_slice(call, found, partition)
    with call.limited():
        statements = compiled(found, asset_partition, _shape(call, opened.project, found))
    start, end = window(found.header.partitioned, asset_partition) if asset_partition else (None, None)
    data = {
        "script": found.path, "asset": found.managed.asset, "partition": asset_partition or None, "partition_start": start, "partition_end": end,
        "statements": statements, "sql": as_text(statements),
    }
    call.answer(data, lambda: Text(as_text(statements).rstrip()))


def named_slice(call: Call, script: Script, partition: str | None) -> str:
    """The asset partition that is meant; one that nobody named is said. Raises `NoSlice`, `UsageError`."""
    partitioning = script.header.partitioned
    if partition is None and partitioning is not None and partitioning.kind == "dynamic":
        raise UsageError(f"{script.path} is partitioned by a key: which one is meant?", hint=f"--partition <the value of ${_dotted(partitioning.key)}>")
    found = asked_partition(partitioning, partition, time.time())
    if partition is None and partitioning is not None:
        call.note(f"slice {found}: the one of now in {partitioning.zone}")
    return found


def _dotted(path: tuple[str, ...] | None) -> str:
    return "".join(f".{name}" for name in path or ())


def _shape(call: Call, project: Project, script: Script) -> Shape:
    if project.settings.state.embedded and not (project.private_folder / "postgres" / "data").exists():
        return "missing"
    try:
        return shape_now(lake_settings(project, state_url(project)), script)
    except Outage as error:
        call.warn(f"shown as if the table were there already: {error.args[0]}")
        return "same"
