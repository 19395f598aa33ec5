"""DuckDB's extensions, from their wheels.

DuckDB checks who has signed an extension, which takes it more than half a second for ours, every time. So it checks each content once on a
machine: a mark beside this module, named after the content's digest, says that it has. An instance that loads only files with a mark is opened
without the check, and may load no unsigned ones from then on. Who may write marks may write this module. Where none can be written, each
process has all files checked by its first instance.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import duckdb

from reactor.errors import UsageError
from reactor.lake.statements.quoting import literal

EXTENSIONS = ("ducklake", "postgres_scanner", "httpfs")

Config = dict[str, str | bool | int | float | list[str]]

MARKS = Path(__file__).parent / "__pycache__"

_checked: set[str] = set()
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
    contents = {_content(extension_path(name)) for name in names}
    signed = all(content in _checked or _mark(content).exists() for content in contents)
    own: Config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "allow_unsigned_extensions": signed}
    connection = duckdb.connect(":memory:", config={**config, **own})
    try:
        for name in names:
            _load(connection, name)
        connection.execute("SET GLOBAL allow_unsigned_extensions = false")  # DuckDB does not let it be switched on again
    except BaseException:
        connection.close()
        raise
    if not signed:
        _remember(contents)
    return connection


def _content(path: Path) -> str:
    found = path.stat()
    return _digest(path, found.st_size, found.st_mtime_ns)


@cache
def _digest(path: Path, _size_bytes: int, _changed_ns: int) -> str:
    """Of a file as it is now: a tenth of a second for all of ours."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mark(content: str) -> Path:
    return MARKS / f"duckdb-{duckdb.__version__}-{content}.signed"


def _remember(contents: set[str]) -> None:
    _checked.update(contents)
    with suppress(OSError):
        MARKS.mkdir(exist_ok=True)
        for content in contents:
            _mark(content).touch()


def _load(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    try:
        connection.execute(f"LOAD {literal(str(extension_path(name)))}")
    except duckdb.Error as error:
        raise UsageError(f"DuckDB's extension `{name}` cannot be loaded: {str(error).splitlines()[0]}",
                         hint=f"pip install duckdb-extension-{name.replace('_', '-')}=={duckdb.__version__}") from error
