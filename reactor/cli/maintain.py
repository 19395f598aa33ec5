"""`reactor maintain`: what a lake needs now and then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from reactor.cli.answers import facts
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import at_hand, looked_at
from reactor.errors import StateForbids, UsageError
from reactor.lake.connecting import CATALOG_VERSION
from reactor.lake.session import Instance, InstanceSettings
from reactor.project import Opened
from reactor.wiring import lake_settings, state_url

app = verbs()


@dataclass(frozen=True, slots=True)
class Migrated:
    """A catalog's version of DuckLake's format. `changed`: whether it was migrated now."""

    lake: str
    was: str
    now: str
    changed: bool


@app.command(name="maintain", epilog=example("reactor maintain --migrate-catalog --confirm main"))
@verb
def maintain(
    call: Call,
    migrate_catalog: Annotated[bool, typer.Option("--migrate-catalog", help="Bring a lake's catalog to the version of this DuckLake.")] = False,
    lake: Annotated[str | None, typer.Option(metavar="NAME", help="The lake; else the default one.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    confirm: Annotated[str | None, typer.Option(metavar="NAME", help="The lake's name: readers with an older DuckLake are locked out by it.")] = None,
) -> None:
    """Care for a lake. Reactor never migrates a catalog by itself, since readers with an older DuckLake could not read it any more.

    Before it: keep a backup of the database, and stop every replica and reader of an older version.
    """
    if not migrate_catalog:
        raise UsageError("what is to be done?", hint="reactor maintain --migrate-catalog")
    opened = call.open()
    name, lakes = lake or opened.project.settings.lakes.default, opened.project.settings.lakes.named
    if name not in lakes:
        raise UsageError(f"no lake `{name}` is configured", hint=f"there is {', '.join(lakes)}")
    with at_hand(call, opened.project):
        was = call.run(_version(opened, name))
        done = Migrated(name, was, CATALOG_VERSION, changed=was != CATALOG_VERSION and not dry_run)
        if done.changed:
            if confirm != name:
                raise UsageError(f"this brings the catalog of lake `{name}` from version {was} to {CATALOG_VERSION}, and there is no way back",
                                 hint=f"if that is meant: --confirm {name}")
            _migrate(replace(lake_settings(opened.project, state_url(opened.project)), migrating=True), name)
            call.run(_watched(opened, name))
    call.answer(done, lambda: facts({"lake": name, "catalog version": f"{was} → {done.now}" if was != done.now else was,
                                     "migrated": "yes" if done.changed else "no"}))


async def _version(opened: Opened, lake: str) -> str:
    async with looked_at(opened.project) as state:
        version = await state.catalog_version(lake)
    if version is None:
        raise StateForbids(f"lake `{lake}` does not exist yet", hint="`reactor serve` makes it")
    return version


def _migrate(settings: InstanceSettings, lake: str) -> None:
    """DuckLake does it when it attaches. Raises `UsageError`, `Outage`."""
    Instance(replace(settings, lakes={lake: settings.lakes[lake]}, default_lake=lake)).retire()


async def _watched(opened: Opened, lake: str) -> None:
    """The commit trigger is there still, or again."""
    async with looked_at(opened.project) as state:
        await state.watch_lake(lake, watch_external=opened.project.settings.lakes.named[lake].watch_external)
