"""`reactor doctor`: everything that Reactor needs, looked at, and what to do about what is broken."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import duckdb
from rich.console import RenderableType
from rich.text import Text

from reactor.cli.answers import counted, printable
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.failures import DONE, FAILED, UNREACHABLE
from reactor.errors import Outage, ReactorError, StateForbids, UsageError
from reactor.lake.connecting import CATALOG_VERSION
from reactor.lake.extensions import EXTENSIONS, opened_duckdb
from reactor.lake.storage import prove
from reactor.opening import state_url
from reactor.project import Project
from reactor.state.migrations import SERVER_MAJOR_MIN
from reactor.state.seen import DatabaseSeen, LakeSeen, database_seen
from reactor.wiring import absent_topics, lake_settings

app = verbs()

LOOK_SECONDS_MAX = 30.0
"""What one of them may take."""
CLOCK_SKEW_SECONDS_MAX = 5.0
"""Between this machine and PostgreSQL's: leases go by that one, arrivals and schedules by this one."""
DISK_FREE_BYTES_MIN = 1024**3

Status = Literal["ok", "failed", "unreachable", "skipped"]
COLORS: Mapping[Status, str] = {"ok": "green", "failed": "red", "unreachable": "red", "skipped": "yellow"}
Look = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `message`: what there is, or the cause; `hint`: the next step. `skipped`: it needs one that is broken."""

    name: str
    status: Status
    message: str
    hint: str = ""


@app.command(name="doctor", epilog=example("reactor doctor --json"))
@verb
def doctor(call: Call) -> int:
    """Look at everything that Reactor needs, a line each, and say of what is broken why, and what to do.

    Extensions of DuckDB, PostgreSQL, migrations, clocks, each lake's catalog, commit trigger and storage (a file is put, read, listed), Kafka, runners, disks.
    Exit codes: 0 all is well, 1 something is broken, 3 something does not answer.
    """
    project = call.open().project
    findings = call.run(looked_at_all(project))
    call.answer({"checks": findings}, lambda: _lines(findings))
    counts = {status: sum(f.status == status for f in findings) for status in COLORS}
    call.note(f"{counted(len(findings), 'check')}: " + ", ".join(f"{n} {status}" for status, n in counts.items() if n))
    if counts["unreachable"]:
        return UNREACHABLE
    return FAILED if counts["failed"] else DONE


async def looked_at_all(project: Project) -> Sequence[Finding]:
    """Everything, in the order in which it is to be repaired."""
    lakes = list(project.settings.lakes.named)
    seen: list[DatabaseSeen] = []
    first = [await _finding("extensions", partial(asyncio.to_thread, _extensions)), await _finding("postgres", partial(_postgres, project, lakes, seen))]
    of_database: dict[str, Callable[[DatabaseSeen], str]] = {
        "migrations": _migrations, "clock": _clock, "installation": partial(_installation, project)}
    of_database |= {f"catalog {lake}": partial(_catalog, lake) for lake in lakes}
    of_database |= {f"trigger {lake}": partial(_trigger, lake) for lake in lakes}
    of_rest: Mapping[str, Look] = {
        **{f"storage {lake}": partial(asyncio.to_thread, _storage, project, lake, seen) for lake in lakes},
        **{f"kafka {cluster}": partial(_kafka, project, cluster) for cluster in project.settings.kafka},
        **{f"runner {name}": partial(asyncio.to_thread, _runner, name, str(r.interpreter)) for name, r in project.settings.runners.items()},
        **{f"disk {folder}": partial(asyncio.to_thread, _disk, folder) for folder in folders(project)},
    }
    rest = await asyncio.gather(*(_finding(name, look) for name, look in of_rest.items()))
    return [*first, *(_of_database(name, judge, seen) for name, judge in of_database.items()), *rest]


async def _finding(name: str, look: Look) -> Finding:
    try:
        async with asyncio.timeout(LOOK_SECONDS_MAX):
            return Finding(name, "ok", await look())
    except TimeoutError:
        return Finding(name, "unreachable", f"there is no answer within {LOOK_SECONDS_MAX:g} s", "is it up, and reached from here?")
    except ReactorError as error:
        return _broken(name, error)


def _of_database(name: str, judge: Callable[[DatabaseSeen], str], seen: Sequence[DatabaseSeen]) -> Finding:
    if not seen:
        return Finding(name, "skipped", "not looked at: the database is not there to be asked")
    try:
        return Finding(name, "ok", judge(seen[0]))
    except ReactorError as error:
        return _broken(name, error)


def _broken(name: str, error: ReactorError) -> Finding:
    return Finding(name, "unreachable" if isinstance(error, Outage) else "failed", str(error.args[0]), error.hint)


# ---------------------------------------------------------------------------------------------------------------- what is looked at


def _extensions() -> str:
    opened_duckdb({}, EXTENSIONS).close()
    return f"DuckDB {duckdb.__version__} with {', '.join(EXTENSIONS)}"


async def _postgres(project: Project, lakes: Sequence[str], seen: list[DatabaseSeen]) -> str:
    try:
        found = await database_seen(state_url(project), lakes)
    except Outage as error:
        raise Outage(str(error.args[0]), hint=error.hint or "is it up, and does [state] url name it?") from error
    if found.server_major < SERVER_MAJOR_MIN:
        raise UsageError(f"PostgreSQL {found.server} is too old", hint=f"use PostgreSQL {SERVER_MAJOR_MIN} or newer")
    seen.append(found)
    return f"PostgreSQL {found.server}"


def _migrations(seen: DatabaseSeen) -> str:
    if seen.schema == 0:
        return "not made yet: the first start makes them"
    if seen.schema > seen.newest:
        raise UsageError(f"the schema has version {seen.schema}, this Reactor knows {seen.newest}",
                         hint="run the newer version of Reactor, or restore the database from before its migration")
    if seen.schema < seen.newest:
        raise StateForbids(f"the schema has version {seen.schema}, this Reactor needs {seen.newest}", hint="reactor migrate, or the start of reactor serve")
    return f"version {seen.schema}, the newest"


def _clock(seen: DatabaseSeen) -> str:
    ahead = seen.asked_at - seen.clock
    if abs(ahead) > CLOCK_SKEW_SECONDS_MAX:
        raise StateForbids(f"this machine's clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} PostgreSQL's",
                           hint="set both by NTP: event times and schedules go by this one, leases by the other")
    return f"{abs(ahead):.3f} s from PostgreSQL's"


def _installation(project: Project, seen: DatabaseSeen) -> str:
    s = project.settings
    if seen.belongs_to is None:
        return f"{s.installation} {s.workspace}: the first start fixes it"
    if seen.belongs_to != (s.installation, s.workspace):
        raise UsageError(f"the database belongs to {' '.join(seen.belongs_to)}, the settings say {s.installation} {s.workspace}",
                         hint="set installation and workspace back, or use another database")
    return " ".join(seen.belongs_to)


def _catalog(lake: str, seen: DatabaseSeen) -> str:
    version = seen.lakes[lake].version
    if version is None:
        return "not there yet: the first start makes it"
    if version != CATALOG_VERSION:
        raise UsageError(f"the catalog has version {version}, this DuckLake reads {CATALOG_VERSION}",
                         hint=f"reactor maintain --migrate-catalog --lake {lake}, when no older reader is left; a newer catalog needs a newer Reactor")
    return f"version {version}"


def _trigger(lake: str, seen: DatabaseSeen) -> str:
    found: LakeSeen = seen.lakes[lake]
    if found.version is None:
        return "not there yet, like the catalog"
    if not found.watched:
        raise StateForbids("it is not there, or would not fire: nothing may be written into this lake", hint="a start of reactor serve puts it back")
    return "it always fires"


def _storage(project: Project, lake: str, seen: Sequence[DatabaseSeen]) -> str:
    settings = lake_settings(project, "").lakes[lake]
    if settings.folder is not None and not settings.folder.exists():
        return _no_folder(lake, settings.folder, has_catalog=any(database.lakes[lake].version for database in seen))
    prove(lake, settings)
    return f"put, get and list at {settings.location}"


def _no_folder(lake: str, folder: Path, *, has_catalog: bool) -> str:
    """Nothing is made here: a mount that is lost must not find another folder in its place."""
    if has_catalog:
        raise Outage(f"the folder {folder} is away, and the lake has a catalog", hint="mount it again, or put it back: nothing is lost, work goes on then")
    above = next(at for at in folder.parents if at.exists())
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise UsageError(f"the folder {folder} is not there, and cannot be made in {above}",
                         hint=f"[lakes.{lake}] data_path must name a folder that can be written")
    return f"{folder} is not there yet: the first start makes it"


async def _kafka(project: Project, cluster: str) -> str:
    of_cluster = f"kafka://{cluster}/"
    topics = {e.uri.removeprefix(of_cluster) for s in project.scripts for e in s.streams if e.uri.startswith(of_cluster)}
    absent = sorted(await absent_topics(project, cluster, topics))
    there = f"it answers; {counted(len(topics), 'topic')} read"
    return f"{there}, of which these are not there yet: {', '.join(absent)}" if absent else there


def _runner(name: str, interpreter: str) -> str:
    found = shutil.which(interpreter)
    if found is None:
        raise UsageError(f"{interpreter} cannot be started", hint=f"is it installed, and may it be executed? [runners.{name}] interpreter names another")
    return found


def _disk(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    if free < DISK_FREE_BYTES_MIN:
        raise StateForbids(f"{_gib(free)} are free, fewer than {_gib(DISK_FREE_BYTES_MIN)}", hint="make room, or move what lies there")
    return f"{_gib(free)} are free"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 1024**3:.1f} GiB"


def folders(project: Project) -> Iterable[Path]:
    """Whose disks fill up: those of the lakes and of what DuckDB spills; one that is not there yet stands on that of its parent."""
    settings = lake_settings(project, "")
    wanted = [lake.folder for lake in settings.lakes.values()] + [settings.temp_path or Path(tempfile.gettempdir())]
    there = [next(f for f in (folder, *folder.parents) if f.is_dir()) for folder in wanted if folder is not None]
    by_disk = {folder.stat().st_dev: folder for folder in reversed(there)}
    return sorted(by_disk.values())


def _lines(findings: Sequence[Finding]) -> RenderableType:
    text, width = Text(), max(len(f.name) for f in findings)
    for f in findings:
        text.append(f"{f.status:<11}", style=COLORS[f.status])
        text.append(f"  {f.name:<{width}}  {printable(f.message)}\n")
        if f.hint:
            text.append(f"{'':<13}{'':<{width}}  {printable(f.hint)}\n", style="dim")
    text.rstrip()
    return text
