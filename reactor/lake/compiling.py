"""The SQL of a run before the run: `reactor compile` (FH-5). Nothing is executed, and the lakes are opened for reading at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reactor.domain.scripts import Script
from reactor.errors import StateForbids
from reactor.lake.session import Instance, InstanceSettings
from reactor.lake.statements import plan
from reactor.lake.statements.script_text import ScriptText
from reactor.lake.statements.staging import selections
from reactor.lake.tables import look


def compiled(script: Script, asset_partition: str, shape: plan.Shape) -> Sequence[str]:
    """The statements that a run would execute for one asset partition, if its target has this shape. Raises `RunBlocked`."""
    text = ScriptText(script)
    selected = selections(text.select(asset_partition), reads_batch=script.body.reads_batch)[0]
    return plan.compiled(plan.target(script, asset_partition), shape, selected, text.setup(asset_partition))


def shape_now(settings: InstanceSettings, script: Script) -> plan.Shape:
    """What stands at the target's name (blocking). A table is taken for one that fits. Raises `Outage`, `UsageError`."""
    try:
        instance = Instance(replace(settings, read_only=True))
    except StateForbids:
        return "missing"
    try:
        with instance.lent("looking at the table") as cursor:
            existing = look(cursor, plan.target(script, "").table)
    finally:
        instance.retire()
    return "missing" if existing is None else "view" if existing.view else "same"
