"""DuckDB's exceptions, sorted by what the caller does next: the only place where their text is read.

DuckDB drops the SQLSTATE of PostgreSQL and raises one class for many things, so most is decided by words. A message may quote SQL, and SQL
may quote a user: only the part before the quotation is looked at. What a message says of values goes into `hint`, so that a log may have
the message and the run's result both.
"""

from __future__ import annotations

import re

import duckdb

from reactor.errors import Conflict, Outage, ReactorError, RunBlocked, RunFailed

_QUOTING = 'Failed to execute query "'
_REFUSED = ("reactor RF001:", "reactor RF002:", "Transaction conflict", "could not serialize access", "deadlock detected", "lock timeout")
_CONNECTION = (
    "Unable to connect to Postgres", "connection to server", "server closed the connection", "terminating connection", "no connection to the server",
    "SSL connection has been closed", "could not receive data", "could not send data", "the database system is", "too many clients",
    'Failed to commit: Failed to execute query "', "Could not establish connection", "Connection error", "Could not connect",
)  # fmt: skip
_STORAGE = {
    "No space left on device": "the disk is full, make room on it",
    "Disk quota exceeded": "the disk is full, make room on it",
    "max_temp_directory_size": "the disk for temporary files is full, make room on it or set [resources] temp_path",
    "Read-only file system": "the lake's data path cannot be written, make it writable again",
    "Permission denied": "the lake's data path cannot be written, make it writable again",
    "Failed to create directory": "the lake's data path cannot be written, make it writable again",
}
_FILE = re.compile(r"""(?:file|directory) ["']([^"']+)["']""", re.IGNORECASE)
"""A path that is to be told: whoever makes room must know where."""
_AS_WRITTEN = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.SyntaxException, duckdb.NotImplementedException)


def broken(error: duckdb.Error) -> bool:
    """Whether the DuckDB instance is of no more use, for any cursor."""
    return isinstance(error, (duckdb.InternalException, duckdb.FatalException))


def masked(text: str) -> str:
    """Without user info of URLs and passwords of connection strings."""
    return re.sub(r"(password=)(?:'[^']*'|\S+)", r"\1***", re.sub(r"://[^@/\s\"']*@", "://***@", text), flags=re.IGNORECASE)


def classified(error: duckdb.Error, doing: str) -> ReactorError:
    """What went wrong while `doing` something (`evaluating the SELECT`), as one of our errors."""
    text = masked(str(error))
    said = _without_sql(text)
    if any(word in said for word in _REFUSED):
        return Conflict(f"{doing}: another writer was first", hint=text)
    if any(word in said for word in _CONNECTION) or isinstance(error, (duckdb.FatalException, duckdb.HTTPException)):
        return Outage(f"{doing}: no connection, or it was lost", hint=text)
    for word, meaning in _STORAGE.items():
        if word in said:
            where = _FILE.search(said)
            return Outage(f"{doing}: {meaning}{f' ({where[1]})' if where else ''}", hint=text)
    kind = type(error).__name__.removesuffix("Exception")
    if isinstance(error, _AS_WRITTEN):
        return RunBlocked(f"{doing}: {text}", hint="the script does not fit its inputs: no retry helps")
    return RunFailed(f"{doing}: {kind} error", hint=text)


def _without_sql(text: str) -> str:
    """`… Failed to execute query "<SQL>": <what PostgreSQL says>`, and behind it all `LINE 1: <SQL>`."""
    before, quoting, behind = text.partition("\n\nLINE ")[0].partition(_QUOTING)
    return before + quoting + behind.rpartition('": ')[2] if quoting else before
