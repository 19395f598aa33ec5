"""DuckDB's extensions, from their wheels.

DuckDB checks who has signed an extension, which takes it more than half a second for ours, every time. So it checks each content once in an
installation: a note beside this module, named after the content's digest, says that it has. An instance that loads only files that are noted is
opened without the check, and may load no unsigned ones from then on. Who may write notes may write this module, and is trusted like it; who may
write an extension's file is not: its digest is taken in each process, and noted only if the file is the same before and after DuckDB's check. (A file
that is replaced between digest and LOAD of one instance is taken unchecked there.) Where no note can be written, each process has all files
checked by its first instance.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import duckdb

from reactor.errors import UsageError
from reactor.lake.statements.quoting import literal

EXTENSIONS = ("ducklake", "postgres_scanner", "httpfs")

Config = dict[str, str | bool | int | float | list[str]]

_NOTES = Path(__file__).parent / "__pycache__"
_seen: set[str] = set()
"""The digests of what this process has seen signed."""


def extension_path(name: str) -> Path:
    """The file of a DuckDB extension in its wheel. Raises UsageError if the wheel is not installed."""
    package = f"duckdb_extension_{name}"
    spec = importlib.util.find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in Path(folder).rglob(f"{name}.duckdb_extension"):
            return path
    raise UsageError(f"DuckDB's extension `{name}` is not installed", hint=f"pip install {package.replace('_', '-')}=={duckdb.__version__}")


def opened_duckdb(config: Config, names: Sequence[str] = EXTENSIONS) -> duckdb.DuckDBPyConnection:
    """An instance in memory with these extensions; none is installed or loaded by itself. Raises `UsageError`, naming the one that is missing or does not fit."""
    files = [_File.now(extension_path(name)) for name in names]
    contents = {_digest(file) for file in files}
    signed = all(content in _seen or os.path.exists(_note(content)) for content in contents)  # noqa: PTH110 - a folder that may not be searched has none
    own: Config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "allow_unsigned_extensions": signed}
    connection = duckdb.connect(":memory:", config={**config, **own})
    try:
        for name in names:
            _load(connection, name)
        connection.execute("SET GLOBAL allow_unsigned_extensions = false")  # DuckDB does not let it be switched on again
    except BaseException:
        connection.close()
        raise
    if not signed and files == [_File.now(file.path) for file in files]:
        _remember(contents)
    return connection


class _File(NamedTuple):
    """A file that nobody has written since. Nobody can set the time of the change of its entry."""

    path: Path
    inode: int
    size_bytes: int
    changed_ns: int

    @classmethod
    def now(cls, path: Path) -> _File:
        found = path.stat()
        return cls(path, found.st_ino, found.st_size, found.st_ctime_ns)


@cache
def _digest(file: _File) -> str:
    """A tenth of a second for all of ours."""
    with file.path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _note(content: str) -> Path:
    return _NOTES / f"duckdb-{duckdb.__version__}-{content}.signed"


def _remember(contents: set[str]) -> None:
    _seen.update(contents)
    with suppress(OSError):
        _NOTES.mkdir(exist_ok=True)
        for content in contents:
            _note(content).touch()


def _load(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    try:
        connection.execute(f"LOAD {literal(str(extension_path(name)))}")
    except duckdb.Error as error:
        raise UsageError(f"DuckDB's extension `{name}` cannot be loaded: {str(error).splitlines()[0]}",
                         hint=f"pip install duckdb-extension-{name.replace('_', '-')}=={duckdb.__version__}") from error
