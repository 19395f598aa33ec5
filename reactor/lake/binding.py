"""Whether scripts fit what stands in the lakes: `reactor check --online` (CLI-3). Nothing is written, and no SELECT is executed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import duckdb

from reactor.domain.assets import LakeTable
from reactor.domain.partitions import calendar_of
from reactor.domain.scripts import Script
from reactor.domain.spans import WHOLE
from reactor.errors import ReactorError, RunBlocked, RunFailed
from reactor.lake.batch import gather
from reactor.lake.evaluate import Work, bind
from reactor.lake.session import Instance, InstanceSettings
from reactor.lake.statements.script_text import ScriptText
from reactor.lake.tables import look
from reactor.ports import SliceInput


def example_partition(script: Script) -> str:
    """Some asset partition of a script, for a look at its columns."""
    partitioning = script.header.partitioned
    if partitioning is None:
        return WHOLE
    if partitioning.kind == "dynamic":
        return "example"
    calendar = calendar_of(partitioning)
    return calendar.slice_of(calendar.first).identity


def bound(settings: InstanceSettings, scripts: Collection[Script], made: Collection[str]) -> Iterator[tuple[Script, ReactorError | str]]:
    """The scripts that do not bind, each with the error that a run would end with, or with the URI of a table that it reads and that is still to be made.

    Blocking. `made`: the assets that scripts of the project make. Raises `Outage`, `UsageError`, `StateForbids` while there is no lake yet.
    """
    instance = Instance(replace(settings, read_only=True))
    try:
        for script in scripts:
            try:
                if missing := _missing(instance, script, made):
                    yield script, missing
                else:
                    _bind(instance, script)
            except (RunBlocked, RunFailed) as error:
                yield script, error
    finally:
        instance.retire()


def absent(settings: InstanceSettings, assets: Collection[str]) -> frozenset[str]:
    """Which of these tables are in no lake. Blocking. Raises as `bound`."""
    if not assets:
        return frozenset()
    instance = Instance(replace(settings, read_only=True))
    try:
        with instance.lent("looking for tables") as cursor:
            return frozenset(uri for uri in assets if look(cursor, LakeTable.parse(uri)) is None)
    finally:
        instance.retire()


def _missing(instance: Instance, script: Script, made: Collection[str]) -> str | None:
    others = [uri for uri in script.body.reads if uri in made and uri != script.consumer]
    with instance.lent("looking at the tables") as cursor:
        return next((uri for uri in others if look(cursor, LakeTable.parse(uri)) is None), None)


def _bind(instance: Instance, script: Script) -> None:
    cursor, partition = instance.cursor(), example_partition(script)
    try:
        batch = gather(cursor, script, [SliceInput(partition)]) if script.body.reads_batch else None
        instance.enter(cursor)
        bind(cursor, Work(ScriptText(script), (partition,), batch.records if batch else None), instance.attaching)
    except duckdb.Error as error:
        raise instance.seen(error, f"evaluating {script.path}") from error
    finally:
        instance.release(cursor)
