"""Readers of values: each makes a value of one word, or raises `Malformed` with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Final

from reactor.domain.annotations.line import Reader
from reactor.domain.annotations.scan import Word
from reactor.domain.assets import Asset, read_asset
from reactor.domain.diagnostics import Malformed
from reactor.domain.partitions import zone_names
from reactor.domain.scripts import HeaderField, JsonPath
from reactor.domain.spelling import nearest

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION_SECONDS_MAX: Final = 366 * 86400
DELAY_SECONDS_MAX: Final = 3600
"""The longest delay of `retry`."""
SIZES: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

_DURATION = re.compile(r"([0-9]+)([smhd]?)")
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-z]*)")
_OTHER_UNITS: Final = {
    "": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
    "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d", **{u: u for u in SECONDS},
}
_SECONDS_OF: Final = {unit: SECONDS[short] for unit, short in _OTHER_UNITS.items()} | {
    "ms": 0.001, "w": 604800, "week": 604800, "weeks": 604800,
}
_WHOLE = re.compile(r"[0-9]{1,18}")
_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_LOOSE_DAY = re.compile(r"([0-9]{4})[-/.]?([0-9]{1,2})[-/.]?([0-9]{1,2})(?:[T ].*)?")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})")
_SCRIPT_PATH = re.compile(r"(?=.*[./])[^\s:*?\"'<>|]+[^\s:*?\"'<>|/.]")
_MEMBER = re.compile(r"""\.(?:"((?:[^"]|"")+)"|([^\s."'\[\]*]+))""")


def seconds_max(limit: int) -> Reader[float]:
    """A reader of durations from 1 s to `limit` seconds: whole seconds, or a number with `s`, `m`, `h` or `d`."""
    def read(word: Word) -> float:
        found = _DURATION.fullmatch(word.text)
        if found is None:
            raise Malformed(f"`{word.text}` is no duration: a whole number and `s`, `m`, `h` or `d`", _as_duration(word.text, limit))
        seconds = int(found[1][:18]) * SECONDS[found[2] or "s"]
        if not 1 <= seconds <= limit:
            raise Malformed(f"`{word.text}` is out of range: a duration is 1s to {_spelt(limit)}")
        return float(seconds)
    return read


duration: Final = seconds_max(DURATION_SECONDS_MAX)
delay: Final = seconds_max(DELAY_SECONDS_MAX)


def _as_duration(text: str, limit: int) -> str | None:
    """What was meant by `1h30m`, `5min` or `1.5h`, if it is one."""
    plain = text.lower().lstrip("+-").rstrip(",;.")
    pieces = _PIECE.findall(plain)
    if not pieces or "".join(number + unit for number, unit in pieces) != plain:
        return None
    if any(unit not in _SECONDS_OF for _, unit in pieces):
        return None
    seconds = sum(float(number[:18]) * _SECONDS_OF[unit] for number, unit in pieces)
    return _spelt(int(seconds)) if 1 <= seconds <= limit and seconds == int(seconds) else None


def _spelt(seconds: int) -> str:
    unit = next(u for u in ("d", "h", "m", "s") if seconds % SECONDS[u] == 0)
    return f"{seconds // SECONDS[unit]}{unit}"


def whole(low: int, high: int | None = None) -> Reader[int]:
    """A reader of whole numbers, both bounds included."""
    def read(word: Word) -> int:
        if not _WHOLE.fullmatch(word.text):
            raise Malformed(f"`{word.text}` is no whole number", _as_whole(word.text))
        number = int(word.text)
        if number < low or (high is not None and number > high):
            bounds = f"{low} to {high}" if high is not None else f"at least {low}"
            raise Malformed(f"`{word.text}` is out of range: {bounds}")
        return number
    return read


def _as_whole(text: str) -> str | None:
    plain = text.lower().replace("_", "").replace(",", "").removesuffix(".0")
    if _WHOLE.fullmatch(plain):
        return plain
    for unit in sorted(SIZES, key=len, reverse=True):
        number = plain.removesuffix(unit)
        if number != plain and _WHOLE.fullmatch(number):
            return str(int(number) * SIZES[unit])
    return None


def zone(word: Word) -> str:
    """An IANA time zone, in its exact spelling."""
    known = zone_names()
    if word.text not in known:
        close = nearest(word.text, sorted(known)) or next((z for z in sorted(known) if z.endswith(f"/{word.text}")), None)
        raise Malformed(f"`{word.text}` is no IANA time zone", close)
    return word.text


def day(word: Word) -> date:
    """A local date, `YYYY-MM-DD`."""
    found = _DAY.fullmatch(word.text)
    try:
        if found:
            return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        raise Malformed(f"the calendar has no day `{word.text}`") from None
    raise Malformed(f"`{word.text}` is no date: `YYYY-MM-DD`", _as_day(word.text))


def _as_day(text: str) -> str | None:
    found = _LOOSE_DAY.fullmatch(text)
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).isoformat() if found else None
    except ValueError:
        return None


def instant(word: Word) -> str:
    """An RFC 3339 instant."""
    if not _INSTANT.fullmatch(word.text):
        close = next((text for text in (f"{word.text}Z", f"{word.text}T00:00:00Z") if _INSTANT.fullmatch(text)), None)
        raise Malformed(f"`{word.text}` is no instant: `2026-03-01T00:00:00Z`", close)
    try:
        datetime.fromisoformat(word.text.upper())
    except ValueError:
        raise Malformed(f"the calendar has no instant `{word.text}`") from None
    return word.text.upper()


def json_path(word: Word) -> JsonPath:
    """Member names from the payload's top: `$.a."b c"`."""
    if not word.text.startswith("$."):
        close = f"$.{word.text.removeprefix('$').removeprefix('.')}"
        raise Malformed(f"`{word.text}` is no path: `$.member`", close if _MEMBER.fullmatch(close[1:]) else None)
    names, at = [], 1
    while at < len(word.text):
        found = _MEMBER.match(word.text, at)
        if found is None:
            raise Malformed(f"`{word.text[at:]}` is no member: a path is `$.a.b`, with quotes where a name needs them", offset=at)
        names.append(found[1].replace('""', '"') if found[1] else found[2])
        at = found.end()
    return tuple(names)


def event_time(word: Word) -> JsonPath | HeaderField:
    """`$.a.b` or `header:<name>`."""
    if word.text.startswith("header:"):
        if word.text == "header:":
            raise Malformed("the header's name is missing: `header:<name>`")
        return HeaderField(word.text.removeprefix("header:"))
    return json_path(word)


def asset(word: Word) -> Asset:
    """The canonical asset of a URI."""
    return read_asset(word.text)


def script_path(word: Word) -> str:
    """The path of a script below the project or beside the script; its `.sql` may be left out. A bare word is no path."""
    text = word.text
    if text.startswith(("/", "\\")) or "://" in text or ":\\" in text:
        raise Malformed(f"`{text}` is no path below the project")
    if ".." in text.split("/"):
        raise Malformed(f"`{text}` leaves the project by `..`")
    if not _SCRIPT_PATH.fullmatch(text):
        raise Malformed(f"`{text}` is no path of a script", f"./{text}.sql" if text.isidentifier() else None)
    return text.removeprefix("./")


def column(word: Word) -> str:
    """One column."""
    names = columns(word)
    if len(names) > 1:
        raise Malformed("one column, not a list")
    return names[0]


def columns(word: Word) -> tuple[str, ...]:
    """Columns, with commas and no blanks between them, or the list in quotes; none twice."""
    names: list[str] = []
    for item in word.items():
        offset = item.column - word.text_column
        if not item.text:
            raise Malformed("a column of the list has no name", offset=min(offset, len(word.text) - 1), length=1)
        if item.text.lower() in (name.lower() for name in names):
            raise Malformed(f"the column `{item.text}` stands here twice", offset=offset, length=len(item.raw), code="repeated")
        names.append(item.text)
    return tuple(names)


def listed(word: Word) -> Iterator[str]:
    """Values with commas between them; a quoted one may hold commas and blanks."""
    for item in word.items(whole=True):
        if not item.text and not item.quoted:
            raise Malformed("a value of the list is empty; an empty text is written ''")
        yield item.text
