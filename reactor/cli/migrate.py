"""`reactor migrate`: the schema of the state, and who else may read the lakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from reactor.cli.answers import counted, printable
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import at_hand
from reactor.opening import identity_of, state_url
from reactor.project import Opened
from reactor.state.database import migrated, pending
from reactor.state.migrations import Migration
from reactor.state.readers import reader
from reactor.wiring import lake_settings

app = verbs()


@dataclass(frozen=True, slots=True)
class Reader:
    """What lets a role read. `files`: what Reactor cannot grant, because files are not PostgreSQL's."""

    role: str
    statements: Sequence[str]
    files: Sequence[str]


@dataclass(frozen=True, slots=True)
class Done:
    """The migrations, in order, and the reader if one was named. `applied` False: only said, nothing was changed."""

    migrations: Sequence[Migration]
    applied: bool
    reader: Reader | None = None


@app.command(name="migrate", epilog=example("reactor migrate --reader analysts --dry-run"))
@verb
def migrate(
    call: Call,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be run, and change nothing.")] = False,
    role: Annotated[str | None, typer.Option("--reader", metavar="ROLE", help="Let this role of PostgreSQL read the lakes, and nothing else.")] = None,
) -> None:
    """Bring the state database to the schema of this version, and let a role read the lakes.

    Every start of `reactor serve` migrates by itself: forward only, in one transaction, under a lock. Replicas of the version before go on; a Reactor that is older than the schema ends with exit code
    2. With --reader the catalogs are granted, and what has to be granted on the files is printed.
    """
    opened = call.open()
    with at_hand(call, opened.project, making=not dry_run):
        done = call.run(_migrated(call, opened, role, dry_run=dry_run))
    call.answer(done, lambda: _shown(done))


async def _migrated(call: Call, opened: Opened, role: str | None, *, dry_run: bool) -> Done:
    url = state_url(opened.project)
    migrations = await pending(url) if dry_run else await migrated(url, identity_of(opened.project))
    return Done(migrations, not dry_run, await _reader(call, opened, url, role, dry_run=dry_run) if role else None)


async def _reader(call: Call, opened: Opened, url: str, role: str, *, dry_run: bool) -> Reader:
    lakes = lake_settings(opened.project, url).lakes
    statements, absent = await reader(url, role, list(lakes), granting=not dry_run)
    for lake in absent:
        call.warn(f"lake `{lake}` does not exist yet, so nobody can be granted anything on it: again after the first start of `reactor serve`")
    files = [
        f"read and list {settings.location}: " + (
            "its folder and its files (for example: setfacl -R -m u:NAME:rX,d:u:NAME:rX)" if settings.folder else "s3:GetObject and s3:ListBucket")
        for lake, settings in lakes.items() if lake not in absent]
    return Reader(role, statements, files)


def _shown(done: Done) -> RenderableType:
    """For eyes; of a dry run the SQL itself, so that it can be read before it is run."""
    what = counted(len(done.migrations), "migration")
    parts: list[RenderableType] = [Text(f"{what} made" if done.applied else f"{what} would be made") if done.migrations else Text("the schema is the newest")]
    parts += [Text(f"{m.version:04d}_{m.name}" if done.applied else f"\n-- {m.version:04d}_{m.name}\n{m.sql.strip()}") for m in done.migrations]
    if done.reader is not None:
        parts.append(Text(f"\n-- role {printable(done.reader.role)}, {'granted' if done.applied else 'to be granted'}"))
        parts += [Text(printable(f"{statement};")) for statement in done.reader.statements]
        parts += [Text("\n-- on the files, by whoever owns them"), *(Text(printable(f"-- {line}")) for line in done.reader.files)]
    return Group(*parts)
