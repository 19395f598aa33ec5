"""What a run's rows are: `batch` (the columns of the payload), `partitioned` (the slice they go to)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal, get_args

from reactor.domain.annotations.keyword import Keyword
from reactor.domain.annotations.line import Line
from reactor.domain.annotations.scan import Word
from reactor.domain.annotations.types import UNFIT, TypeReader, is_type, unquoted
from reactor.domain.annotations.values import day, event_time, json_path, zone
from reactor.domain.assets import quoted
from reactor.domain.diagnostics import Malformed
from reactor.domain.partitions import format_problem
from reactor.domain.scripts import BatchColumn, Header, Partitioning, PartitionKind
from reactor.domain.spelling import nearest

METADATA_COLUMNS: Final = (
    "_topic", "_source_partition", "_offset", "_timestamp", "_key", "_headers", "_object", "_etag", "_event_time", "_op",
)
"""What `batch` has beside the declared columns."""
RESERVED_COLUMN_PREFIX: Final = "_wm_"
_NESTING = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|[(\[{]|[)\]}]|,""")
_COLON = re.compile(r"\w+:\w*")
_GLUED = re.compile(r"[^ \t]+")
_CONSTRAINTS: Final = frozenset({"NOT", "NULL", "DEFAULT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "COLLATE", "GENERATED", "AS"})
_KINDS: Final[tuple[PartitionKind, ...]] = get_args(PartitionKind)
_OTHER_KINDS: Final = {
    "hour": "hourly", "day": "daily", "week": "weekly", "month": "monthly", "key": "dynamic", "h": "hourly", "d": "daily", "w": "weekly",
    "m": "monthly", "date": "daily",
}


class Batch(Keyword[tuple[BatchColumn, ...]]):
    """`batch <column> <type>[, …]`: the columns of `batch`, decoded from the payload by exact name, with DuckDB's types.

    A value that its type cannot hold exactly sets the record aside; a member that is absent is NULL; members without a column are left out.
    Without this line `batch` has `value`. `_topic, _source_partition, _offset, _timestamp, _key, _headers` are always there.

        -- batch order_id BIGINT, amount DECIMAL(12,2), ordered_at TIMESTAMPTZ
    """

    word, form, refuses = "batch", "batch <column> <type>[, …]", True

    def parse(self, line: Line) -> tuple[BatchColumn, ...]:
        """One column after the other; each mistake is reported."""
        if not line.rest:
            line.error(line.keyword_range, "`batch` needs columns", "batch id BIGINT, name VARCHAR", code="missing")
        columns: list[BatchColumn] = []
        for start, end in _segments(line.rest) if line.rest else ():
            try:
                columns.append(self._column(line, start, end, columns))
            except Malformed as wrong:
                line.error(line.at(wrong.offset, wrong.length or 1), wrong.message, wrong.suggestion, code=wrong.code)
        return tuple(columns)

    def compile(self, header: Header, value: tuple[BatchColumn, ...]) -> Header:
        """The columns of `batch`."""
        return replace(header, batch=value)

    def _column(self, line: Line, start: int, end: int, before: list[BatchColumn]) -> BatchColumn:
        reader = TypeReader(line.rest[:end], start)
        name = _name(reader)
        at, kind = reader.at, reader.peek()
        if kind is None:
            raise _wrong(line.rest, start, f"`{name}` has no type: a column is a name, a blank and a type")
        if kind.kind == "name" and is_type(name) and not is_type(unquoted(kind.text)) and line.rest[kind.start + len(kind.text):end].strip() == "":
            raise _wrong(line.rest, start, "the name stands before the type", f"{kind.text} {name}")
        spelt = reader.type()
        if (behind := reader.peek()) is not None:
            raise self._behind(reader, name, behind.text)
        if name.lower() in (column.name.lower() for column in before):
            raise _wrong(line.rest[:at], start, f"the column `{name}` stands here twice", code="repeated")
        if name.lower() in METADATA_COLUMNS or name.lower().startswith(RESERVED_COLUMN_PREFIX):
            raise _wrong(line.rest[:at], start, f"`{name}` is a column that Reactor adds itself", code="reserved")
        place = line.at(kind.start, len(line.rest[kind.start:end].rstrip()))
        line.remember(f"type of {name}", place)
        for unfit in sorted(reader.used & UNFIT.keys()):
            why = f" ({UNFIT[unfit]})" if UNFIT[unfit] else ""
            line.tell(place, "unfit-type", f"a lake cannot keep {unfit}{why}: cast it in the SELECT")
        return BatchColumn(name, spelt)

    def _behind(self, reader: TypeReader, name: str, text: str) -> Malformed:
        if text.upper() in _CONSTRAINTS:
            hint = f"data_test not_null {name}" if text.upper() == "NOT" else None
            return reader.wrong("a column of `batch` is a name and a type, nothing more", hint)
        if text[0] == '"' or text.isidentifier():
            return reader.wrong(f"a comma is missing before `{text}`", f", {text}")
        return reader.wrong(f"`{text}` has no place here: a column is a name and a type")


def _segments(text: str) -> Iterator[tuple[int, int]]:
    """The stretches between commas that stand in no parentheses and no quotes."""
    depth = start = 0
    for found in _NESTING.finditer(text):
        if found[0] in "([{":
            depth += 1
        elif found[0] in ")]}":
            depth -= 1
        elif found[0] == "," and depth <= 0:
            yield start, found.start()
            start = found.end()
    yield start, len(text)


def _name(reader: TypeReader) -> str:
    start = reader.at
    token = reader.next()
    if token is None:
        raise _wrong(reader.text, max(start - 1, 0), "a column is missing beside the comma")
    glued = _GLUED.match(reader.text, token.start)
    text = glued[0] if glued and not token.text.startswith('"') else reader.text[token.start:reader.at]
    if token.text == '"':
        raise Malformed("the quote is not closed", offset=token.start, length=1, code="unclosed-quote")
    if token.kind != "name" or text != token.text:
        close = text.replace(":", " ").strip() if _COLON.fullmatch(text) else quoted(text.replace('"', "")) if token.text not in "()" else None
        raise Malformed(f"`{text}` is no name of a column: quotes hold what is no plain word", close, offset=token.start, length=len(text))
    return unquoted(token.text)


def _wrong(text: str, start: int, message: str, suggestion: str | None = None, code: str = "bad-value") -> Malformed:
    """About the word that begins at or behind `start`."""
    found = _GLUED.search(text, start)
    offset, length = (found.start(), len(found[0])) if found else (min(start, len(text) - 1), 1)
    return Malformed(message, suggestion, offset=offset, length=length, code=code)


class Partitioned(Keyword[Partitioning]):
    """`partitioned hourly|daily|weekly|monthly …`, `partitioned dynamic key=$.a.b`: the slices that are debounced, run and made anew one by one.

    `event_time=` is where a record says when it happened: a path into the payload or `header:<name>`; by default the header `event_time`, else
    the record's timestamp. `tz=` is the zone whose days they are (UTC), `format=` how a slice is spelt, `start=` the first one. A record whose
    path leads to nothing readable is set aside.

        -- partitioned daily event_time=$.ordered_at tz=Europe/Vienna
        -- partitioned dynamic key=$.tenant.id
    """

    word, refuses = "partitioned", True
    form = "partitioned hourly|daily|weekly|monthly [tz= format= start= event_time=], or partitioned dynamic key=$.a.b"

    def parse(self, line: Line) -> Partitioning:
        """The kind and its options; those of another kind are mistakes."""
        kind = line.take("a kind", _kind, None)
        zone_name, layout = line.option("tz", zone), line.spaced_option("format", _text)
        start, when = line.option("start", day), line.option("event_time", event_time)
        key = line.option("key", json_path)
        if kind == "dynamic" and not line.names("key") and (word := line.peek()):
            line.reject(word, "the path of the key is an option", f"key={word.raw}")
        line.close()
        if kind == "dynamic":
            self._dynamic(line)
        elif kind is not None:
            self._timed(line, kind, layout)
        return Partitioning(kind or "daily", zone_name or "UTC", layout, start, when, key)

    def compile(self, header: Header, value: Partitioning) -> Header:
        """The slices of this script."""
        return replace(header, partitioned=value)

    def _dynamic(self, line: Line) -> None:
        if not line.names("key") and not line.malformed:
            line.error(line.place("a kind"), "`dynamic` needs the path of its key", "key=$.member", code="missing")
        for option in ("tz", "format", "start", "event_time"):
            if line.names(option):
                line.error(line.place(option), f"`{option}=` has no meaning for `dynamic`: its slices are keys, not times", code="unknown-option")

    def _timed(self, line: Line, kind: Literal["hourly", "daily", "weekly", "monthly"], layout: str | None) -> None:
        if line.names("key"):
            line.error(line.place("key"), f"`key=` has no meaning for `{kind}`", "dynamic", code="unknown-option")
        if layout is not None and (problem := format_problem(kind, layout)):
            line.error(line.place("format="), problem, code="folding-format")


def _kind(word: Word) -> PartitionKind:
    for kind in _KINDS:
        if word.text == kind:
            return kind
    close = _OTHER_KINDS.get(word.text.lower()) or nearest(word.text, _KINDS)
    raise Malformed(f"`{word.text}` is no kind: {', '.join(f'`{kind}`' for kind in _KINDS)}", close, code="unknown-value")


def _text(word: Word) -> str:
    return word.text
