"""DuckDB's extensions, from their wheels.

DuckDB checks who has signed an extension, which takes it half a second for ours, and a process opens more than one instance. So it is checked
once a process: an instance that loads files which have been checked is opened without, and may load no unsigned ones from then on.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import duckdb

from reactor.errors import UsageError
from reactor.lake.statements.quoting import literal

EXTENSIONS = ("ducklake", "postgres_scanner", "httpfs")

Config = dict[str, str | bool | int | float | list[str]]

_checked: set[tuple[Path, int, int]] = set()
"""Which files this process has seen signed: path, size in bytes, time of change in ns."""


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
    files = {_seen(extension_path(name)) for name in names}
    own: Config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "allow_unsigned_extensions": files <= _checked}
    connection = duckdb.connect(":memory:", config={**config, **own})
    try:
        for name in names:
            _load(connection, name)
        connection.execute("SET GLOBAL allow_unsigned_extensions = false")  # DuckDB does not let it be switched on again
    except BaseException:
        connection.close()
        raise
    _checked.update(files)
    return connection


def _seen(path: Path) -> tuple[Path, int, int]:
    found = path.stat()
    return path, found.st_size, found.st_mtime_ns


def _load(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    try:
        connection.execute(f"LOAD {literal(str(extension_path(name)))}")
    except duckdb.Error as error:
        raise UsageError(f"DuckDB's extension `{name}` cannot be loaded: {str(error).splitlines()[0]}",
                         hint=f"pip install duckdb-extension-{name.replace('_', '-')}=={duckdb.__version__}") from error
