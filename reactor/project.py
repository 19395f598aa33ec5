"""A project on disk: its settings, its script files, and what `check` says of them. Everything that runs begins here; nothing is written.

Read are files that may be scripts by their suffix. Left out are hidden folders (`.reactor`, `.venv`, `.git`), `node_modules`, Python environments
and the folders of lakes. A link is followed only to a file inside the project, and no link to a folder is.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reactor.domain.assets import ProjectNames
from reactor.domain.project import SCRIPT_BYTES_MAX, Checked, check_project, language_of
from reactor.domain.scripts import Partitioning, Script, ScriptPath
from reactor.domain.spelling import nearest
from reactor.errors import UsageError
from reactor.settings import Loaded, Settings, load

SETTINGS_FILE: Final = "reactor.toml"
FILES_MAX: Final = 50_000
"""Script files of one project: more are a folder that was taken for a project by mistake."""
FOLDERS_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__"})
ENVIRONMENT_MARK: Final = "pyvenv.cfg"
"""The file by which a folder is known as a Python environment."""
BUILTIN_RUNNERS: Final = frozenset({"python", "shell"})
PLAIN_TYPES: Final = frozenset({"BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "JSON", "UUID", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ"})
"""Types that payloads certainly have, so that most projects are checked without DuckDB."""
PLAIN_DECIMAL: Final = re.compile(r"DECIMAL\((1\d|[1-9]), ?\d\)")


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with its settings and the scripts that may run. `producers`: asset → how its producer partitions it."""

    folder: Path
    settings: Settings
    scripts: Sequence[Script]
    producers: Mapping[str, Partitioning | None] = field(default_factory=dict)

    @property
    def private_folder(self) -> Path:
        """Where embedded parts, lakes by default and kept files lie."""
        return self.folder / ".reactor"

    def tagged(self, tags: Collection[str]) -> Sequence[Script]:
        """The scripts that a replica started with these tags runs; no tags: all."""
        return [s for s in self.scripts if not tags or (s.header.tag or "") in tags]


@dataclass(frozen=True, slots=True)
class Opened:
    """A project as it was read. `files`: what may be a script, by path below the folder; `warnings`: of the settings and of the reading."""

    project: Project
    loaded: Loaded
    files: Mapping[str, bytes]
    checked: Checked
    warnings: tuple[str, ...]

    @property
    def refused(self) -> Mapping[ScriptPath, tuple[str, ...]]:
        """The scripts that do not run, with why: wrong, or waiting for a feature."""
        return {**self.checked.inactive, **self.checked.refused}

    def script(self, name: str) -> Script:
        """The script of this path, below the project's folder or the current one. Raises `UsageError`, with why it may not run."""
        path = path_in(self.project.folder, name)
        found = self.checked.scripts.get(ScriptPath(path))
        if found is None and path not in self.checked.refused:
            close = nearest(path, self.checked.scripts)
            known = f"did you mean {close}?" if close else f"reactor list shows the {len(self.checked.scripts)} there are"
            raise UsageError(f"{name} is no script of this project", hint=known)
        if reasons := self.refused.get(ScriptPath(path)):
            raise UsageError(f"{path} does not run: {'; '.join(reasons)}", hint=f"reactor check {path}")
        return self.checked.scripts[ScriptPath(path)]


def path_in(folder: Path, name: str) -> str:
    """The path below the project's folder that a name means: one below that folder, or else below the current one."""
    for at in (folder / name, Path(name)):
        path = absolute(at)
        if path.is_relative_to(absolute(folder)) and (at.exists() or at == Path(name)):
            return path.relative_to(absolute(folder)).as_posix()
    return name


def absolute(path: Path) -> Path:
    """From the root, without `..`; links stay."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - `Path.absolute` keeps `..`


def open_project(
    folder: Path, *, flags: Mapping[str, object], environ: Mapping[str, str], profile: str | None = None, instead: Mapping[str, bytes] | None = None,
) -> Opened:
    """Read a project. `instead`: texts by path that stand for what is on disk (what an editor has not saved yet).

    Raises `SettingsError`; `UsageError` for a file that cannot be read, or too many of them.
    """
    folder = absolute(folder)
    loaded = load(folder, flags=flags, environ=environ, profile=profile)
    warnings = list(loaded.warnings)
    files = {**_read(folder, names_of(loaded.settings), _lake_folders(loaded.settings), warnings), **(instead or {})}
    return judged(folder, loaded, files, warnings)


def judged(folder: Path, loaded: Loaded, files: Mapping[str, bytes], warnings: Sequence[str]) -> Opened:
    """Files as the project that they are by these settings."""
    checked = check_project(files, names_of(loaded.settings), undecodable=undecodable)
    scripts = [script for path, script in checked.scripts.items() if path not in checked.inactive]
    producers = {s.managed.asset: s.header.partitioned for s in checked.scripts.values() if s.managed}
    return Opened(Project(folder, loaded.settings, scripts, producers), loaded, files, checked, tuple(warnings))


def undecodable(type_: str) -> str | None:
    """Why no column of a payload can have this type, None if it can. Raises nothing."""
    if type_.upper().removesuffix("[]") in PLAIN_TYPES or PLAIN_DECIMAL.fullmatch(type_.upper()):
        return None
    from reactor.lake.decoding.types import decodable  # noqa: PLC0415 - DuckDB is loaded only where a type needs it

    return decodable(type_)


def folders_of(project: Project) -> Sequence[Path]:
    """The folders in which scripts may lie now. Raises `UsageError` for one that cannot be read."""
    return [at for at, _ in _folders(project.folder, _lake_folders(project.settings))]


def names_of(settings: Settings) -> ProjectNames:
    """What scripts may name."""
    return ProjectNames(
        lakes=tuple(settings.lakes.named), default_lake=settings.lakes.default, clusters=tuple(settings.kafka), stores=tuple(settings.stores),
        runners=tuple(f".{name}" for name in settings.runners if name not in BUILTIN_RUNNERS),
    )


def _lake_folders(settings: Settings) -> frozenset[Path]:
    return frozenset(Path(lake.data_path) for lake in settings.lakes.named.values() if "://" not in lake.data_path)


def _read(folder: Path, names: ProjectNames, left_out: Collection[Path], warnings: list[str]) -> Mapping[str, bytes]:
    files: dict[str, bytes] = {}
    for file in _files(folder, left_out):
        path = file.relative_to(folder).as_posix()
        if language_of(path, names) is None:
            continue
        if file.is_symlink() and not file.resolve().is_relative_to(folder.resolve()):
            warnings.append(f"{path}: left out, it is a link to a file outside of the project")
            continue
        data = _bytes(file)
        if data is None:
            continue
        if len(files) == FILES_MAX:
            raise UsageError(f"{folder} holds more than {FILES_MAX} files that may be scripts", hint="name the project's folder: --project")
        files[path] = data
    return files


def _files(folder: Path, left_out: Collection[Path]) -> Iterator[Path]:
    for at, files in _folders(folder, left_out):
        yield from (at / name for name in sorted(files) if not name.startswith(".") and name.isprintable())


def _folders(folder: Path, left_out: Collection[Path]) -> Iterator[tuple[Path, Sequence[str]]]:
    """With the names of the files in each."""
    def cannot(error: OSError) -> None:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}", hint="give the user who runs Reactor the right to read it") from error

    for here, folders, files in os.walk(folder, onerror=cannot):
        at = Path(here)
        folders[:] = sorted(
            name for name in folders
            if not name.startswith(".") and name not in FOLDERS_LEFT_OUT and at / name not in left_out and not (at / name / ENVIRONMENT_MARK).exists()
        )
        yield at, files


def _bytes(file: Path) -> bytes | None:
    """The file's bytes, one more than a script may have at most; None: it is no file, or gone again."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return None
        with file.open("rb") as opened:
            return opened.read(SCRIPT_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="give the user who runs Reactor the right to read it") from error
