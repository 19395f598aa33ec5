"""Assets and their URIs: one spelling for each, so that two scripts that mean one table name one node.

`read_asset` turns text into an `Asset` by its form alone; `resolved` then needs the names that the project configures. What is wrong is
raised as `Malformed`, with the place in the text and what to write instead.

| scheme | canonical | left out |
| --- | --- | --- |
| ducklake, datatable | `ducklake://lake/[schema.]table`, lower case | schema `main`, a trailing `/{partition}` |
| s3 | `s3://store/key`, `s3:///key` for the default store | |
| file | `file://path` | |
| kafka | `kafka://cluster/topic` | the cluster, where exactly one is configured |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from reactor.domain.diagnostics import Malformed
from reactor.domain.spelling import nearest

TABLE_SCHEMES: Final = ("ducklake", "datatable")
SCHEMES: Final = ("ducklake", "s3", "file", "datatable", "kafka")
NATIVE_SCHEMES: Final = ("sqs", "nats", "mqtt", "amqp", "gcp", "postgres")
"""Queues that are named by a URI: they trigger, but they are no assets of the graph."""
PLACEHOLDER: Final = "{partition}"
LAKES_RESERVED: Final = frozenset({"temp", "system", "memory"})
"""DuckDB keeps these database names for itself; a lake cannot have them (`main` can: it is reached as `lake_main`)."""

_FORMS: Final = {
    "ducklake": "ducklake://lake/table", "datatable": "datatable://database/table", "s3": "s3://store/key", "file": "file://path",
    "kafka": "kafka://[cluster/]topic",
}
_INSTEAD: Final = {
    "res": "file://", "$res": "file://", "volume": "file://", "dbt": "ducklake://", "gs": "s3://", "s3a": "s3://", "s3n": "s3://",
    "minio": "s3://", "http": "webhook", "https": "webhook", "postgresql": "postgres://", "amqps": "amqp://", "pubsub": "gcp://",
}
_NEVER_SERVED: Final = frozenset({"res", "$res", "volume", "dbt"})
_SCHEME = re.compile(r"([$\w.+-]*):(/{0,2})", re.ASCII)
_NOT_IN_NAME = re.compile(r"[^\w$-]")
_TOPIC = re.compile(r"[A-Za-z0-9._*-]{1,249}")
_STORE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOKEN = re.compile(r"\{[^{}]*\}|[{}]")


@dataclass(frozen=True, slots=True)
class ProjectNames:
    """The names that `reactor.toml` configures. `runners`: suffixes of programs that have a command (`.ts`); `bindings`: kinds of `[[trigger]]`."""

    lakes: tuple[str, ...] = ("main",)
    default_lake: str = "main"
    clusters: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asset:
    """A URI in its parts. `authority`: the lake, store, cluster or database, empty where none is named."""

    scheme: str
    authority: str
    path: str

    @property
    def uri(self) -> str:
        """The canonical text."""
        if self.scheme == "file" or (self.scheme == "kafka" and not self.authority):
            return f"{self.scheme}://{self.path}"
        return f"{self.scheme}://{self.authority}/{self.path}"

    @property
    def kind(self) -> str:
        """The kind of an edge that starts here: `asset` for tables, else the scheme."""
        return "asset" if self.scheme in TABLE_SCHEMES else self.scheme


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table of a lake; all three names in lower case."""

    lake: str
    schema: str
    table: str

    @classmethod
    def parse(cls, uri: str) -> LakeTable:
        """From any spelling of a `ducklake://` URI; raises `Malformed`."""
        asset = read_asset(uri)
        if asset.scheme != "ducklake":
            raise Malformed("it is no table of a lake", "ducklake://lake/table")
        schema, _, table = asset.path.rpartition(".")
        return cls(asset.authority, schema or "main", table)

    @property
    def uri(self) -> str:
        """The canonical URI."""
        return f"ducklake://{self.lake}/{self.table if self.schema == 'main' else f'{self.schema}.{self.table}'}"

    @property
    def catalog(self) -> str:
        """The database name under which every session has the lake attached."""
        return f"lake_{self.lake}"

    @property
    def sql(self) -> str:
        """The full name, quoted: it means the same table whatever the session's `USE` says."""
        return ".".join(quoted(part) for part in (self.catalog, self.schema, self.table))


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def read_asset(text: str) -> Asset:
    """The canonical asset of a URI, not yet resolved against the project's names."""
    found = _SCHEME.match(text)
    if found is None:
        raise Malformed("an asset is named by a URI", _FORMS.get(text.lower(), f"ducklake://lake/{text.lower()}"))
    scheme, slashes, rest = found[1], found[2], text[found.end():]
    if scheme not in SCHEMES:
        raise _unknown_scheme(scheme)
    if slashes != "//":
        raise Malformed(f"behind `{scheme}:` stand two slashes", f"{scheme}://{rest}")
    return _READERS[scheme](rest)


def _unknown_scheme(scheme: str) -> Malformed:
    refuses = scheme in _NEVER_SERVED
    instead = _INSTEAD.get(scheme)
    if instead is None and (close := nearest(scheme, (*SCHEMES, *NATIVE_SCHEMES))):
        instead = f"{close}://"
    known = ", ".join(f"`{s}://`" for s in SCHEMES)
    served = "a file is `file://path`, an object `s3://store/key`, a table `ducklake://lake/table`"
    reason = f"Reactor does not serve `{scheme}://`: {served}" if refuses else f"no asset has the scheme `{scheme}`; it is one of {known}"
    return Malformed(reason, instead, code="unknown-scheme", refuses=refuses)


def _table(scheme: str, rest: str) -> Asset:
    authority, slash, path = rest.partition("/")
    path = path.removesuffix("/" + PLACEHOLDER)
    form = _FORMS[scheme]
    if not slash or not path:
        raise Malformed(f"the table is missing: it is `{form}`", f"{scheme}://{authority or 'lake'}/table")
    if not authority:
        raise Malformed(f"nothing stands before the table: it is `{form}`")
    if "/" in path:
        raise Malformed(f"one table, without a path or an asset partition: it is `{form}`")
    parts = path.split(".")
    if len(parts) > 2 or not all(parts):
        raise Malformed(f"a table, and at most a schema before it: it is `{form.replace('table', '[schema.]table')}`")
    for name in (authority, *parts):
        _only_name(name)
    lowered = [part.lower() for part in parts]
    return Asset(scheme, authority.lower(), lowered[-1] if lowered[:-1] in ([], ["main"]) else ".".join(lowered))


def _only_name(name: str) -> None:
    if strange := _NOT_IN_NAME.search(name):
        hint = "; each URI has a line of its own" if strange[0] == "," else ""
        raise Malformed(f"`{strange[0]}` cannot stand in the name of a lake, schema or table{hint}")


def _ducklake(rest: str) -> Asset:
    return _table("ducklake", rest)


def _datatable(rest: str) -> Asset:
    return _table("datatable", rest)


def _s3(rest: str) -> Asset:
    store, _, key = rest.partition("/")
    if PLACEHOLDER in store:
        at = len("s3://") + store.index(PLACEHOLDER)
        raise Malformed("the token stands in the key, never in the store", offset=at, length=len(PLACEHOLDER), refuses=True)
    if store and not _STORE.fullmatch(store):
        raise Malformed(f"`{store}` is no name of a store")
    if not key:
        raise Malformed(f"the key is missing: an object is `{_FORMS['s3']}`")
    _one_token(key, len("s3://") + len(store) + 1)
    return Asset("s3", store, key)


def _file(rest: str) -> Asset:
    if not rest.strip("/"):
        raise Malformed(f"the path is missing: a file is `{_FORMS['file']}`")
    if ".." in rest.split("/"):
        raise Malformed("a path cannot leave its folder by `..`")
    _one_token(rest, len("file://"))
    return Asset("file", "", rest)


def _one_token(path: str, start: int) -> None:
    """One `{partition}` at most (LD-1), and no other token."""
    for place, token in enumerate(_TOKEN.finditer(path)):
        at, length = start + token.start(), len(token[0])
        if token[0] != PLACEHOLDER:
            raise Malformed(f"`{token[0]}` is no token", PLACEHOLDER, offset=at, length=length)
        if place:
            raise Malformed("a second `{partition}`: one at most", offset=at, length=length, refuses=True)


def _kafka(rest: str) -> Asset:
    cluster, slash, topic = rest.rpartition("/")
    if not topic:
        raise Malformed(f"the topic is missing: a stream is `{_FORMS['kafka']}`")
    if "/" in cluster or (slash and not cluster):
        raise Malformed(f"a topic, and at most a cluster before it: a stream is `{_FORMS['kafka']}`")
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise Malformed(f"`{topic}` is no name of a topic: letters, digits, `.`, `_` and `-`, at most 249")
    return Asset("kafka", cluster, topic)


_READERS: Final = {"ducklake": _ducklake, "datatable": _datatable, "s3": _s3, "file": _file, "kafka": _kafka}


def resolved(asset: Asset, names: ProjectNames) -> Asset:
    """The asset with its cluster named; raises `Malformed` (refuses) for a lake, store or cluster that is not configured."""
    if asset.scheme == "ducklake":
        _configured("lake", asset, names.lakes)
    elif asset.scheme == "s3" and asset.authority:
        _configured("store", asset, names.stores)
    elif asset.scheme == "s3" and not names.stores:
        raise _unknown_name("no store is configured: it is a section `[stores.<name>]`")
    elif asset.scheme == "kafka" and asset.authority:
        _configured("cluster", asset, names.clusters)
    elif asset.scheme == "kafka":
        return replace(asset, authority=_only_cluster(asset.path, names.clusters))
    return asset


def _only_cluster(topic: str, clusters: tuple[str, ...]) -> str:
    if len(clusters) == 1:
        return clusters[0]
    if not clusters:
        raise _unknown_name("no Kafka cluster is configured: it is a section `[kafka.<name>]`")
    raise _unknown_name(f"the cluster is missing, and there are {_listed(clusters)}", f"kafka://{clusters[0]}/{topic}")


def _configured(word: str, asset: Asset, known: tuple[str, ...]) -> None:
    if asset.authority not in known:
        close = nearest(asset.authority, known)
        there_are = f"; there is {_listed(known)}" if known else ""
        raise _unknown_name(f"no {word} `{asset.authority}` is configured{there_are}", close and replace(asset, authority=close).uri)


def _unknown_name(message: str, suggestion: str | None = None) -> Malformed:
    return Malformed(message, suggestion, code="unknown-name", refuses=True)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
