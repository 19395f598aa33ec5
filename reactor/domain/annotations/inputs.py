"""What fires a script and what it may read: `pipeline`, `on`, `mute`, `read`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from reactor.domain.annotations.cron import MACROS, cron
from reactor.domain.annotations.keyword import Keyword
from reactor.domain.annotations.line import Line, Stop, one_of, unquoted_words
from reactor.domain.annotations.scan import Word
from reactor.domain.annotations.values import duration, instant, zone
from reactor.domain.assets import NATIVE_SCHEMES, Asset, ProjectNames, read_asset, resolved
from reactor.domain.diagnostics import Malformed, Range
from reactor.domain.scripts import Debounce, Edge, Header
from reactor.domain.spelling import nearest

NATIVE: Final = {"schedule": "schedule", "webhook": "webhook", "upload": "upload", "data_upload": "upload", "email": "email"} | {
    scheme: scheme for scheme in NATIVE_SCHEMES
}
"""Words of native triggers, and the kind of edge each makes."""
_COMPLETE: Final = ("webhook", "upload")
"""Native triggers that need nothing but their word."""
STREAM_FORMATS: Final = ("json", "avro", "protobuf", "debezium", "raw")
OBJECT_FORMATS: Final = ("json", "jsonl", "csv", "parquet", "avro")
_EFFECT: Final = {
    "debounce": ("asset", "kafka", "s3", "file"), "format": ("kafka", "s3", "file"), "start": ("asset", "kafka"), "tombstones": ("kafka",),
    "overwrite": ("s3", "file"),
}
"""Which kinds of inputs heed an option of `on`."""


class Pipeline(Keyword[bool]):
    """`pipeline`: the folder is the pipeline; what the body reads fires it too (`mute` drops such an edge).

    -- pipeline
    """

    word, form = "pipeline", "pipeline"

    def parse(self, line: Line) -> bool:
        """It stands alone."""
        line.close()
        return True

    def compile(self, header: Header, value: bool) -> Header:
        """Switch derived edges on."""
        return replace(header, pipeline=value)


@dataclass(frozen=True, slots=True)
class Input:
    """An `on` line before the project's names are known: an asset, or a native trigger as its edge has it."""

    asset: Asset | None
    edge: Edge


class On(Keyword[Input]):
    """`on <uri> …`: what fires the script, one edge a line. Topics, tables, landed objects, schedules, webhooks.

    `debounce=10s` gives this edge a debounce of its own. For a topic: `format=` of its values (json, raw), `start=` where a script that has never
    read it begins (earliest, latest, a time), `tombstones=` what a record without a value does. For objects: `overwrite=` what a changed
    object does.

        -- on kafka://orders
        -- on ducklake://main/orders debounce=10s
    """

    word, form, many = "on", "on <uri> [debounce= format= start= tombstones= overwrite=]", True

    def parse(self, line: Line) -> Input:
        """An asset, a stream or a native trigger, with its options."""
        target = line.take("a URI", _target, None)
        if isinstance(target, str):
            return Input(None, self._native(line, NATIVE[target]))
        if target is None and not line.begins_with_uri:
            raise Stop
        kind = target.kind if target else "asset"
        choices = OBJECT_FORMATS if kind in {"s3", "file"} else STREAM_FORMATS
        quiet = line.option("debounce", duration)
        payload = line.choice("format", *(choices if kind != "asset" else (*STREAM_FORMATS, *OBJECT_FORMATS)))
        start = line.option("start", one_of("earliest", "latest") if kind == "asset" else _start)
        options = [(name, value) for name, word in (("tombstones", "row"), ("overwrite", "load")) if (value := line.choice(name, word))]
        line.close()
        for option, kinds in _EFFECT.items():
            if line.names(option) and target is not None and kind not in kinds:
                line.tell(line.place(option), "no-effect", f"`{option}=` has no effect on an input `{target.scheme}://`")
        debounce = Debounce(quiet) if quiet is not None else None
        return Input(target, Edge(kind, target.uri if target else "", False, debounce, payload, start, tuple(options)))

    def resolve(self, value: Input, names: ProjectNames, line: Line) -> Input:
        """Name the cluster; refuse what is not configured; warn of a native trigger without a binding."""
        edge = value.edge
        if value.asset is None:
            if not edge.uri and edge.kind not in {*_COMPLETE, *names.bindings}:
                line.tell(line.place("a URI"), "missing-binding", f"`on {edge.kind}` never fires: `reactor.toml` has no `[[trigger]]` for it")
            return value
        return Input(value.asset, replace(edge, uri=resolve_asset(value.asset, names, line, "a URI").uri))

    def identity(self, value: Input) -> tuple[str, str]:
        """One edge for each asset."""
        return (value.edge.kind, value.edge.uri)

    def compile(self, header: Header, value: Input) -> Header:
        """One more edge."""
        return replace(header, edges=(*header.edges, value.edge))

    def _native(self, line: Line, kind: str) -> Edge:
        uri, options = "", []
        target = line.place("a URI")
        if kind == "schedule":
            uri = self._schedule(line, target) or ""
            zone_name = line.option("tz", zone)
            options = [("tz", zone_name), ("partition", line.choice("partition", "current", "previous")),
                       ("catch_up", line.choice("catch_up", "latest", "all", "none"))]
            if not uri and not line.malformed and any(value for _, value in options):
                line.error(target, "the schedule is missing", 'schedule "0 6 * * *"', code="missing")
        elif kind == "webhook":
            options = [("auth", line.choice("auth", "token", "hmac", "none"))]
        elif kind in NATIVE_SCHEMES and "://" in (text := line.text_at(target)):
            uri = text
        quiet = line.option("debounce", duration)
        line.close()
        given = tuple((name, value) for name, value in options if value is not None)
        return Edge(kind, uri, False, Debounce(quiet) if quiet is not None else None, options=given)

    def _schedule(self, line: Line, target: Range) -> str | None:
        """The cron text behind `schedule`; several words without quotes are one mistake."""
        found = line.take_all()
        if not found:
            return None
        if len(found) == 1 and (found[0].quoted or found[0].flaw):
            return line.read(found[0], schedule, None)
        text = unquoted_words(word.raw for word in found)
        place = Range(target.line, found[0].column, target.line, found[-1].range.end_column)
        line.error(place, "a schedule stands in quotes", f'"{MACROS.get(text, text)}"', code="unquoted")
        return None


def resolve_asset(asset: Asset, names: ProjectNames, line: Line, part: str, *, refuses: bool = True) -> Asset:
    """The asset with its cluster; reports an unknown lake, store or cluster at that part of the line."""
    try:
        return resolved(asset, names)
    except Malformed as wrong:
        line.error(line.place(part), wrong.message, wrong.suggestion, code=wrong.code, refuses=refuses)
        return asset


def schedule(word: Word) -> str:
    """A cron text of a trigger: a field for seconds refuses the script (DP-18)."""
    try:
        return cron(word)
    except Malformed as wrong:
        wrong.refuses = wrong.code == "seconds-field"
        raise


def _start(word: Word) -> str:
    ends = ("earliest", "latest")
    if close := nearest(word.text, ends):
        return one_of(*ends)(word) if close != word.text else close
    return instant(word)


def _target(word: Word) -> Asset | str:
    """An asset, or the word of a native trigger."""
    text = word.text
    scheme, separator, rest = text.partition("://")
    if text in NATIVE:
        return text
    if separator and scheme in NATIVE_SCHEMES:
        if not rest:
            raise Malformed(f"nothing stands behind `{text}`")
        return scheme
    if text == "ducklake":
        raise Malformed("`ducklake` alone names no table", "ducklake://lake/table", refuses=True)
    if ":" not in text and (close := nearest(text, NATIVE)):
        raise Malformed(f"no trigger is named `{text}`", close)
    return read_asset(text)


class Mute(Keyword[str]):
    """`mute <uri>|all`: the body reads it, and it does not fire the script.

    -- mute ducklake://main/rates
    """

    word, form, many = "mute", "mute <uri>|all", True

    def parse(self, line: Line) -> str:
        """The canonical URI, or `all`."""
        uri = line.take("a URI or `all`", _muted, "")
        line.close()
        return uri

    def compile(self, header: Header, value: str) -> Header:
        """One more muted URI."""
        return replace(header, mute=(*header.mute, value))


def _muted(word: Word) -> str:
    if word.text == "all":
        return "all"
    if "/" not in word.text and (close := nearest(word.text, ("all",), 1)):
        raise Malformed(f"`{word.text}` is neither a URI nor `all`", close)
    return read_asset(word.text).uri


class Read(Keyword[bool]):
    """`read pinned`: upstream lakes are read at the snapshots of the trigger, so a run made again reads the same rows.

    -- read pinned
    """

    word, form, refuses = "read", "read pinned", True

    def parse(self, line: Line) -> bool:
        """The one mode there is."""
        line.take("a mode", one_of("pinned"), "")
        line.close()
        return True

    def compile(self, header: Header, value: bool) -> Header:
        """Pin the reads."""
        return replace(header, read_pinned=value)
