"""A script, as it holds after its header was read: values only, valid by construction.

`annotations/` turns text into these; the graph, the core and the lake only read them. Durations are seconds, sizes bytes, URIs canonical
(`reactor.domain.assets`). An annotation that is absent is None or empty.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Literal, NewType

from reactor.domain.runs import Strategy

ScriptPath = NewType("ScriptPath", str)
"""Path of a script below the project's folder, with `/`."""

PartitionKind = Literal["hourly", "daily", "weekly", "monthly", "dynamic"]
OnSchemaChange = Literal["warn", "ignore", "fail", "sync"]
Language = Literal["sql", "python", "shell", "other"]
JsonPath = tuple[str, ...]
"""Member names from the payload's top: `$.meta.at` is ("meta", "at")."""


@dataclass(frozen=True, slots=True)
class HeaderField:
    """`event_time=header:<name>`."""

    name: str


@dataclass(frozen=True, slots=True)
class Partitioning:
    """`partitioned …`. `event_time` None: the default chain (header `event_time`, record timestamp, trigger time). `key` for dynamic only."""

    kind: PartitionKind
    zone: str = "UTC"
    format: str | None = None
    start: date | None = None
    event_time: JsonPath | HeaderField | None = None
    key: JsonPath | None = None

    @property
    def identity(self) -> tuple[str, str, str | None]:
        """What names the slices of a table: it cannot change once the table has slices."""
        return (self.kind, self.zone, self.format)


@dataclass(frozen=True, slots=True)
class BatchColumn:
    """One column of `batch`: the exact member name and a DuckDB type in canonical spelling."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Materialize:
    """`materialize …`. `manual`: the body writes itself."""

    asset: str
    strategy: Strategy
    key: tuple[str, ...] = ()
    latest: str | None = None
    track: tuple[str, ...] = ()
    deletes_close: bool = False
    on_schema_change: OnSchemaChange = "warn"


@dataclass(frozen=True, slots=True)
class Debounce:
    """`debounce <quiet> [max= rows= bytes=]`; None: the default of `[debounce]`."""

    quiet_seconds: float
    wait_max_seconds: float | None = None
    rows_max: int | None = None
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """`retry <n> [<delay>] [backoff=exponential]`."""

    count: int
    delay_seconds: float = 1.0
    exponential: bool = False


@dataclass(frozen=True, slots=True)
class TriggerRule:
    """`trigger any|all …`."""

    mode: Literal["any", "all"] = "any"
    expires_seconds: float | None = None
    at_least: int | None = None
    late_rerun: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """What fires the script: an `on` line, or a read of the body where `derived`.

    `kind`: asset, kafka, s3, file, or the word of a native trigger (schedule, webhook, …). `uri` is canonical; a schedule's is its text.
    """

    kind: str
    uri: str
    derived: bool = False
    debounce: Debounce | None = None
    format: str | None = None
    start: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DataTest:
    """`data_test …`: `name` is one of the four built-ins or a script's path; `arguments` as written."""

    name: str
    arguments: tuple[str, ...]
    severity: Literal["error", "warn"] = "error"


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """`column out <- uri.col[, …]`."""

    column: str
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Freshness:
    """`freshness <dur> [deadline="<cron>"] [tz=] [on=run|data]`."""

    window_seconds: float
    deadline: str | None = None
    zone: str = "UTC"
    on: Literal["run", "data"] = "run"


@dataclass(frozen=True, slots=True)
class Incremental:
    """`incremental cdc=<col> [lookback=<dur>]`."""

    column: str
    lookback_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Header:
    """The annotations in force."""

    pipeline: bool = False
    edges: tuple[Edge, ...] = ()
    batch: tuple[BatchColumn, ...] | None = None
    partitioned: Partitioning | None = None
    materialize: Materialize | None = None
    trigger: TriggerRule | None = None
    debounce: Debounce | None = None
    freshness: Freshness | None = None
    retry: Retry | None = None
    tag: str | None = None
    data_tests: tuple[DataTest, ...] = ()
    columns: tuple[ColumnLineage, ...] = ()
    mute: tuple[str, ...] = ()
    incremental: Incremental | None = None
    macros: bool = False
    use: tuple[str, ...] = ()
    on_failure: str | None = None
    pre_run: str | None = None
    read_pinned: bool = False
    others: tuple[tuple[str, object], ...] = ()
    """Keyword and value of annotations that came from outside (AN-25)."""


@dataclass(frozen=True, slots=True)
class Body:
    """What the SQL of a managed script says. `setup`: statements before the SELECT, in order. `reads`: canonical URIs of lake tables and
    objects it reads and does not write. `aliases`: (alias, lake) of `ATTACH 'ducklake://lake' AS alias`, already taken out of `setup`.
    """

    setup: tuple[str, ...] = ()
    select: str = ""
    reads: tuple[str, ...] = ()
    reads_batch: bool = False
    reads_landing: bool = False
    names_op: bool = False
    aliases: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """One file that may run. `edges` are all that fire it: the `on` lines, then what the body reads and nobody muted."""

    path: ScriptPath
    language: Language
    text: str
    header: Header
    body: Body = field(default_factory=Body)
    edges: tuple[Edge, ...] = ()

    @property
    def managed(self) -> Materialize | None:
        """The table that Reactor writes for this script."""
        m = self.header.materialize
        return m if m is not None and m.strategy != "manual" else None

    @property
    def consumer(self) -> str:
        """Whose positions: the asset's for managed SQL, else the script's."""
        return self.managed.asset if self.managed else self.path

    @property
    def streams(self) -> tuple[Edge, ...]:
        """The Kafka topics that feed it."""
        return tuple(e for e in self.edges if e.kind == "kafka")

    @property
    def muted(self) -> frozenset[str]:
        """What the body reads and would fire the script if no `mute` line said otherwise."""
        header, fires = self.header, {e.uri for e in self.edges}
        reads = self.body.reads if header.pipeline else ()
        return frozenset(uri for uri in reads if uri not in fires and (uri in header.mute or "all" in header.mute))

    @property
    def reads_bytes(self) -> bool:
        """Whether `batch` holds payloads as they came (`format=raw`)."""
        return any(e.format == "raw" for e in self.streams)

    @property
    def appends_batch(self) -> bool:
        """An append that reads `batch` needs no lane over replicas and no token of its asset partition (`position` guards it)."""
        return self.managed is not None and self.managed.strategy == "append" and self.body.reads_batch

    @property
    def version(self) -> str:
        """Fingerprint of the text, for run records."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Routing:
    """All that decides which asset partition a record goes to. Stored with each position (commit.md 5, *Edit*), so that a process that
    only has the new text can still finish by the old one.
    """

    partitioning: Partitioning | None
    format: str = "json"

    @property
    def fingerprint(self) -> str:
        """Canonical text, equal exactly if two texts route every record alike; `parse` reads it back."""
        return _fingerprint(self)

    @classmethod
    def parse(cls, text: str) -> Routing:
        """The routing of a stored fingerprint."""
        facts = json.loads(text)
        if facts is None:
            return cls(None)
        path, header, key, start = facts["path"], facts["header"], facts["key"], facts["start"]
        event_time = HeaderField(header) if header is not None else tuple(path) if path is not None else None
        return cls(
            Partitioning(facts["kind"], facts["zone"], facts["format"], date.fromisoformat(start) if start else None, event_time,
                         tuple(key) if key is not None else None),
            facts["payload"],
        )


@lru_cache(maxsize=4096)
def _fingerprint(routing: Routing) -> str:
    p = routing.partitioning
    facts = p and {
        "kind": p.kind, "zone": p.zone, "format": p.format, "start": p.start.isoformat() if p.start else None,
        "header": p.event_time.name if isinstance(p.event_time, HeaderField) else None,
        "path": None if isinstance(p.event_time, HeaderField) else p.event_time, "key": p.key, "payload": routing.format,
    }
    return json.dumps(facts, separators=(",", ":"))
