"""One DuckDB instance with every lake attached: how it is opened, given out cursor by cursor, and given up.

An instance is never repaired. After an INTERNAL error, a restored database or a COMMIT that never came back it is *retired*: nobody gets a
new cursor of it, and it is detached and closed when the last one comes back. A thread that hangs in COMMIT so keeps its instance alive, and
nothing else waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import duckdb

from reactor.errors import Conflict, Outage, ReactorError, RunBlocked, StateForbids, UsageError
from reactor.lake.asking import first_row
from reactor.lake.extensions import Config, opened_duckdb
from reactor.lake.failures import broken, classified, masked
from reactor.lake.folders import LakeFolder
from reactor.lake.spilling import spill_folder
from reactor.lake.statements.quoting import identifier, literal
from reactor.lake.tables import option

RESERVED_NAMES = frozenset({"main", "temp", "system", "memory"})
"""Database names that DuckDB keeps for itself: a lake of such a name has no alias."""

COMMIT_RETRY_WAIT_MS = 1
"""DuckLake's pause before it repeats a commit. Short, because commits queue on a lock anyway, and a value like `Unique Ltd.` in a statement
that fails makes DuckLake believe in a conflict and repeat ten times."""

CONNECTIONS_MAX = 16
"""PostgreSQL connections that are kept for a lake: one or two for each cursor in a transaction, and a few for the looks in between."""

CONNECT_TIMEOUT_SECONDS = 10

ATTACH_ATTEMPTS = 10
"""Replicas that start at once on an empty database make its schema at once; all but one fail, and find it made."""


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """Where a lake keeps its files: a folder, or `s3://bucket/prefix`."""

    data_path: str

    @property
    def folder(self) -> Path | None:
        """The folder; None for an object store."""
        return None if "://" in self.data_path else Path(self.data_path).absolute()

    @property
    def location(self) -> str:
        """As DuckLake spells it: absolute, with a slash at its end."""
        return (str(self.folder) if self.folder else self.data_path).rstrip("/") + "/"


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """Everything that an instance is made from. None: DuckDB's own default (80 % of the memory, all cores; where it writes, all but one: a service
    reads meanwhile, and of two threads on two cores one would wait for the other without giving way).

    `migrating`: bring older catalogs to this DuckLake's version, which else are refused.
    """

    postgres_url: str
    lakes: Mapping[str, LakeSettings]
    default_lake: str
    memory_limit_bytes: int | None = None
    threads: int | None = None
    temp_path: Path | None = None
    read_only: bool = False
    migrating: bool = False
    names: Mapping[str, str] = field(init=False)
    """Database name → lake: each lake as `lake_<name>`, and as its own name where that is free."""

    def __post_init__(self) -> None:
        if self.default_lake not in self.lakes:
            raise UsageError(f"the default lake `{self.default_lake}` is not among the lakes: {', '.join(sorted(self.lakes))}")
        names = {f"lake_{lake}": lake for lake in self.lakes}
        names |= {lake: lake for lake in self.lakes if lake not in RESERVED_NAMES and lake not in names}
        object.__setattr__(self, "names", names)


def connection_text(postgres_url: str, without: Collection[str] = (), user: str | None = None) -> tuple[str, str | None]:
    """A PostgreSQL URL as libpq's keywords, and its password apart from them, because everybody who may query sees the keywords.

    `without`: keywords to leave out; `user`: instead of the URL's.
    """
    url = urlsplit(postgres_url)
    if url.scheme not in {"postgresql", "postgres"}:
        raise UsageError(f"the state and the lakes' catalogs live in PostgreSQL, not in `{url.scheme}`", hint="[state] url = postgresql://…")
    given = {
        "host": unquote(url.hostname or ""), "port": str(url.port or ""), "dbname": unquote(url.path.removeprefix("/")),
        "user": unquote(url.username or ""), "connect_timeout": str(CONNECT_TIMEOUT_SECONDS), "application_name": "reactor",
    } | dict(parse_qsl(url.query))  # fmt: skip
    given |= {"user": user} if user else {}
    password = given.pop("password", None) or (unquote(url.password) if url.password else None)
    return " ".join(f"{key}={_keyword_value(value)}" for key, value in given.items() if value and key not in without), password


def _keyword_value(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Instance:
    """An open DuckDB instance. Raises Outage if PostgreSQL does not answer, UsageError if it holds something else than was configured.

    `broken`: no cursor of it works any more. `attaching`: a script's own databases are attached while it is held. `folders`: by lake, those
    that were there before; they must be there again. None: they are made if they are not there.
    """

    def __init__(self, settings: InstanceSettings, folders: Mapping[str, LakeFolder] | None = None) -> None:
        self.settings = settings
        self.folders = dict(folders or {})
        for folder in self.folders.values():
            folder.must_be_there()
        self.broken = False
        self.attaching = threading.Lock()
        self._lock = threading.Lock()
        self._lent: set[duckdb.DuckDBPyConnection] = set()
        self._closing = 0
        self._retired = False
        self._root = opened_duckdb(_config(settings))
        try:
            self._open()
        except BaseException:
            self._shut()
            raise

    def _open(self) -> None:
        if self.settings.threads is None and not self.settings.read_only:
            (cores,) = first_row(self._root, "SELECT current_setting('threads')") or (1,)
            self._root.execute(f"SET GLOBAL threads = {max(1, cores - 1)}")
        self._root.execute(f"SET GLOBAL ducklake_retry_wait_ms = {COMMIT_RETRY_WAIT_MS}")
        self._root.execute(f"SET GLOBAL pg_pool_max_connections = {CONNECTIONS_MAX}")
        text, password = connection_text(self.settings.postgres_url)
        if password is not None:
            self._root.execute(f"CREATE TEMPORARY SECRET reactor_postgres (TYPE postgres, PASSWORD {literal(password)})")
        for name, lake in self.settings.names.items():
            self._attach(name, lake, text, secret=password is not None)

    def _attach(self, name: str, lake: str, text: str, *, secret: bool) -> None:
        settings = self.settings.lakes[lake]
        if settings.folder is not None and not self.settings.read_only and lake not in self.folders:
            made(settings.folder, f"[lakes.{lake}] data_path")
            self.folders[lake] = LakeFolder(settings.folder)
        schema = literal(f"lake_{lake}")
        # The one says where DuckLake's tables are, the other that DuckDB lists no others of PostgreSQL's.
        options = [f"METADATA_SCHEMA {schema}", f"META_SCHEMA {schema}", "DATA_INLINING_ROW_LIMIT 0"]
        options += ["READ_ONLY"] if self.settings.read_only else [f"DATA_PATH {literal(settings.location)}"]
        options += ["AUTOMATIC_MIGRATION TRUE"] if self.settings.migrating else []
        options += ["META_SECRET 'reactor_postgres'"] if secret else []
        statement = f"ATTACH {literal('ducklake:postgres:' + text)} AS {identifier(name)} ({', '.join(options)})"
        try:
            self._insist(statement, "already exists")
            if name == f"lake_{lake}" and not self.settings.read_only and not self._flat_files(name):
                self._root.execute(f"DETACH {identifier(name)}")
                self._insist(statement, "already exists")
        except duckdb.Error as error:
            raise _not_attached(error, lake) from error

    def _insist(self, statement: str, while_it_says: str, attempts: int = ATTACH_ATTEMPTS) -> None:
        try:
            self._root.execute(statement)
        except duckdb.Error as error:
            if while_it_says not in str(error) or attempts == 1:
                raise
            self._insist(statement, while_it_says, attempts - 1)

    def _flat_files(self, name: str) -> bool:
        """Files lie in the table's folder, whatever their slice: a key of 512 bytes is no folder's name, and 10,000 slices are no folders.

        False: others have said so, perhaps only after the catalog was attached here, and what it said then is what DuckLake goes by.
        """
        known = first_row(self._root, option(name, "hive_file_pattern"))  # DuckLake's own `options` loads the whole catalog first
        if known == ("false",):
            return False
        self._insist(f"CALL {identifier(name)}.set_option('hive_file_pattern', false)", "could not serialize")
        return True

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor in UTC, outside of all lakes. It goes back by `release`. Raises Outage once the instance is retired."""
        with self._lock:
            if self._retired:
                raise Outage("the lakes are being attached anew")
            cursor = self._root.cursor()
            self._lent.add(cursor)
        try:
            leave(cursor)
        except duckdb.Error as error:
            self.release(cursor)
            raise self.seen(error, "opening a session") from error
        return cursor

    def enter(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make the default lake the cursor's database, as scripts know it."""
        cursor.execute(f"USE {identifier(f'lake_{self.settings.default_lake}')}")

    def release(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Close a cursor, and the instance with it if it was the last one of a retired instance."""
        with self._lock:  # `retire` must not interrupt what is being closed
            held = cursor in self._lent
            self._lent.discard(cursor)
            self._closing += held
        with suppress(duckdb.Error):
            cursor.interrupt()  # a query that Ctrl-C has left goes on otherwise, and close waits for it
            cursor.close()
        with self._lock:
            self._closing -= held
            last = self._retired and not self._lent and not self._closing
        if last:
            self._shut()

    @contextmanager
    def lent(self, doing: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for a look; errors are translated."""
        cursor = self.cursor()
        try:
            self.enter(cursor)
            yield cursor
        except duckdb.Error as error:
            raise self.seen(error, doing) from error
        finally:
            self.release(cursor)

    def reach(self, catalog: str) -> None:
        """Raises `Outage` if the folder of this lake is away; `catalog`: its database."""
        if folder := self.folders.get(self.settings.names[catalog]):
            folder.must_be_there()

    @property
    def retired(self) -> bool:
        """Whether it is given up."""
        return self._retired

    def seen(self, error: duckdb.Error, doing: str) -> ReactorError:
        """An error of one of its cursors, as ours; notices the kind after which no cursor works any more."""
        self.broken |= broken(error)
        if self._retired:
            return Outage(f"{doing}: the lakes were attached anew", hint=masked(str(error)))
        found = classified(error, doing)
        if not isinstance(found, RunBlocked | Conflict):  # those are nothing that a folder has made
            for folder in self.folders.values():
                if folder.trouble:
                    return Outage(f"{doing}: {folder.trouble}", hint=masked(str(error)))
        return found

    def retire(self) -> None:
        """No new cursors; interrupt those at work; close as soon as the last one is back."""
        with self._lock:
            if self._retired:
                return
            self._retired, waiting = True, bool(self._lent or self._closing)
            for cursor in self._lent:
                with suppress(duckdb.Error):
                    cursor.interrupt()
        if not waiting:
            self._shut()

    def _shut(self) -> None:
        # After a failed commit `close` alone never frees the instance: its connections and its memory stay.
        for name in self.settings.names:
            with suppress(duckdb.Error):
                self._root.execute(f"DETACH {identifier(name)}")
        with suppress(duckdb.Error):
            self._root.close()


def made(folder: Path, setting: str) -> None:
    """Make a folder, unless it is there. Raises `UsageError`, naming the setting that asks for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be made: {error.strerror}", hint=f"{setting} must name a folder that can be written") from error


def leave(cursor: duckdb.DuckDBPyConnection) -> None:
    """Undo what a script has made of the session's settings, and leave its database.

    Within a lake every name is looked up in its catalog, over the network; and `register` does not release the interpreter's lock meanwhile.
    """
    cursor.execute("SET TimeZone = 'UTC'")
    cursor.execute("USE memory")


def _config(settings: InstanceSettings) -> Config:
    config: Config = {"python_enable_replacements": "false"}
    if settings.memory_limit_bytes is not None:
        config["memory_limit"] = f"{settings.memory_limit_bytes}B"
    if settings.threads is not None:
        config["threads"] = settings.threads
    if settings.temp_path is not None and not settings.read_only:
        made(settings.temp_path, "[resources] temp_path")
    config["temp_directory"] = str(spill_folder(settings.temp_path or Path()))
    return config


def _not_attached(error: duckdb.Error, lake: str) -> ReactorError:
    text = masked(str(error))
    if "catalog version" in text:
        return UsageError(f"lake `{lake}`: its catalog has another version than this DuckLake: {text.split('. To')[0]}",
                          hint=f"reactor maintain --migrate-catalog --lake {lake}, when no older reader is left; a newer catalog needs a newer Reactor")
    if "creating a new DuckLake is explicitly disabled" in text:
        return StateForbids(f"lake `{lake}` does not exist yet: nothing has been written into it", hint="`reactor serve` makes it, and so does `reactor run`")
    if "DATA_PATH parameter" in text:
        return UsageError(f"lake `{lake}`: {text.splitlines()[0]}", hint="the data path of a lake cannot change: set the one in the catalog")
    return classified(error, f"attaching lake `{lake}`")
