"""How slices are called: a `format` of strftime's directives, written and read back by rules of our own.

The platform's strftime is not used: it pads early years differently from system to system and speaks the machine's language. A format is
of use only if the unit can be told from the text, which also makes it one-to-one; `format_problem` says what is wrong with any other.
The text is that of the unit's first wall second, so `weekly format=%Y-%m-%d` calls a week after its Monday. Only `%z` stands for the
offset; a format without it gets the offset behind it where an hour comes twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from typing import NamedTuple

from reactor.domain.partitions.timelines import HOUR_SECONDS
from reactor.domain.partitions.units import TimeKind, date_of, unit_end, unit_start, wall_of
from reactor.domain.partitions.zones import DAY_SECONDS

STANDARD_FORMATS: Mapping[TimeKind, str] = {"hourly": "%Y-%m-%dT%H", "daily": "%Y-%m-%d", "weekly": "%G-W%V", "monthly": "%Y-%m"}
IDENTITY_BYTES_MAX = 512
FORMAT_BYTES_MAX = 96
"""Of `format=`: no directive makes its two bytes more than nine, so identities stay within theirs plus an offset."""
TWO_DIGIT_YEARS = range(1969, 2069)
"""The years that `%y` tells apart, as POSIX reads them."""

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MON, _DY = tuple(m[:3] for m in _MONTHS), tuple(d[:3] for d in _DAYS)
_OFFSET = r"[+-]\d\d\d\d(?:\d\d)?"
_HALVES = ("AM", "PM")


class _Directive(NamedTuple):
    pattern: str
    write: Callable[[date, int], str]


_DIRECTIVES: Mapping[str, _Directive] = {
    "%Y": _Directive(r"\d{4}", lambda day, _: f"{day.year:04d}"),
    "%y": _Directive(r"\d{2}", lambda day, _: f"{day.year % 100:02d}"),
    "%m": _Directive(r"\d{2}", lambda day, _: f"{day.month:02d}"),
    "%b": _Directive("|".join(_MON), lambda day, _: _MON[day.month - 1]),
    "%B": _Directive("|".join(_MONTHS), lambda day, _: _MONTHS[day.month - 1]),
    "%d": _Directive(r"\d{2}", lambda day, _: f"{day.day:02d}"),
    "%j": _Directive(r"\d{3}", lambda day, _: f"{day.timetuple().tm_yday:03d}"),
    "%G": _Directive(r"\d{4}", lambda day, _: f"{day.isocalendar().year:04d}"),
    "%V": _Directive(r"\d{2}", lambda day, _: f"{day.isocalendar().week:02d}"),
    "%u": _Directive(r"\d", lambda day, _: f"{day.isoweekday()}"),
    "%w": _Directive(r"\d", lambda day, _: f"{day.isoweekday() % 7}"),
    "%a": _Directive("|".join(_DY), lambda day, _: _DY[day.weekday()]),
    "%A": _Directive("|".join(_DAYS), lambda day, _: _DAYS[day.weekday()]),
    "%H": _Directive(r"\d{2}", lambda _, hour: f"{hour:02d}"),
    "%I": _Directive(r"\d{2}", lambda _, hour: f"{hour % 12 or 12:02d}"),
    "%p": _Directive("|".join(_HALVES), lambda _, hour: _HALVES[hour // 12]),
    "%M": _Directive("00", lambda *_: "00"),
    "%S": _Directive("00", lambda *_: "00"),
    "%%": _Directive("%", lambda *_: "%"),
}


def offset_text(seconds: int) -> str:
    """`+0530`; six digits where an offset has seconds, as local mean times do."""
    minutes, rest = divmod(abs(seconds), 60)
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}{minutes % 60:02d}" + (f"{rest:02d}" if rest else "")


def format_parts(text: str) -> tuple[str, ...]:
    """A format as its directives (`%` and a letter) and the texts between them."""
    return tuple(re.findall(r"%.?|[^%]+", text, re.DOTALL))


def format_problem(kind: TimeKind, text: str) -> str | None:
    """Why a `format=` cannot name the slices of a kind, with two slices that would share an identity; None if it can."""
    used = {part for part in format_parts(text) if part.startswith("%")}
    if unknown := sorted(used - _DIRECTIVES.keys() - {"%z"}):
        return f"format has {' and '.join(unknown)}, which is none of {' '.join(_DIRECTIVES)} %z"
    if "%z" in used and kind != "hourly":
        return f"%z has no place in a {kind} format: one slice has several offsets"
    if len(text.encode()) > FORMAT_BYTES_MAX or "\0" in text:
        return f"format is longer than {FORMAT_BYTES_MAX} bytes or holds a NUL"
    return None if _tells(kind, used) else _folding(kind, text)


def _tells(kind: TimeKind, used: set[str]) -> bool:
    """Whether these directives are enough to know the unit."""
    year, month, weekday = used & {"%Y", "%y"}, used & {"%m", "%b", "%B"}, used & {"%u", "%w", "%a", "%A"}
    week = {"%G", "%V"} <= used
    day = (year and month and "%d" in used) or (year and "%j" in used) or (week and weekday)
    match kind:
        case "hourly":
            return bool(day and ("%H" in used or {"%I", "%p"} <= used))
        case "daily":
            return bool(day)
        case "weekly":
            return bool(day or week)
        case "monthly":
            return bool(day or (year and month))


def _folding(kind: TimeKind, text: str) -> str:
    custom, standard = SliceFormat(kind, text), SliceFormat(kind, STANDARD_FORMATS[kind])
    seen: dict[str, int] = {}
    for wall in _units(kind, date(2024, 1, 1), date(2034, 1, 1)):
        if (other := seen.setdefault(custom.write(wall), wall)) != wall:
            return f"format gives {standard.write(other)} and {standard.write(wall)} one identity, {custom.write(wall)!r}"
    return f"format cannot be read back: write what {standard.text} says in another order"


def _units(kind: TimeKind, first: date, end: date) -> Iterator[int]:
    wall = unit_start(kind, wall_of(first))
    while wall < wall_of(end):
        yield wall
        wall = unit_end(kind, wall)


class SliceFormat:
    """Writes and reads the names of one kind's slices."""

    def __init__(self, kind: TimeKind, text: str) -> None:
        self.text = text
        self.parts = format_parts(text)
        self.has_offset = "%z" in self.parts
        self.two_digit_year = "%y" in self.parts and "%Y" not in self.parts
        self._kind = kind
        self._strict = re.compile(_pattern(kind, self.parts), re.ASCII)
        self._loose = re.compile(_pattern(kind, self.parts).replace(r"\d{", r"\d{1,"), re.ASCII | re.IGNORECASE)

    def write(self, wall: int, said: str = "") -> str:
        """The name of the unit that begins at `wall`; an offset that is said stands where `%z` does, else at the end."""
        day, hour = date_of(wall), wall % DAY_SECONDS // HOUR_SECONDS
        name = "".join(_DIRECTIVES[p].write(day, hour) if p in _DIRECTIVES else said if p == "%z" else p for p in self.parts)
        return name if self.has_offset else name + said

    def read(self, key: str) -> tuple[int | None, str] | None:
        """The wall second at which the named unit begins (None: there is no such unit) and the offset said. None: another form."""
        match = self._strict.fullmatch(key)
        if match is None:
            return None
        wall, said = self._wall(match), match.groupdict().get("z") or ""
        return (wall if wall is not None and self.write(wall, said) == key else None, said)

    def read_loosely(self, key: str) -> int | None:
        """The unit that somebody may mean who leaves out zeros or mixes up capitals."""
        match = self._loose.fullmatch(key.strip())
        return match and self._wall(match)

    def _wall(self, match: re.Match[str]) -> int | None:
        fields = {name: text for name, text in match.groupdict().items() if text is not None}
        try:
            wall = wall_of(self._day(fields)) + _hour(fields) * HOUR_SECONDS
        except (ValueError, OverflowError):
            return None
        return unit_start(self._kind, wall)

    def _day(self, fields: Mapping[str, str]) -> date:
        year, month = _year(fields), _month(fields)
        if year is not None and month is not None and ("d" in fields or self._kind == "monthly"):
            return date(year, month, int(fields.get("d", "1")))
        if year is not None and "j" in fields:
            return date(year, 1, 1) + timedelta(days=int(fields["j"]) - 1)
        return date.fromisocalendar(int(fields["G"]), int(fields["V"]), _weekday(fields))


def _pattern(kind: TimeKind, parts: tuple[str, ...]) -> str:
    """A regular expression of named groups; a directive that stands twice has to say the same twice. An hour may have its offset behind it."""
    pattern, seen = "", set()
    for part in parts:
        letter = part[1:]
        if part == "%%" or not part.startswith("%"):
            pattern += re.escape(part.replace("%%", "%"))
        elif part in seen:
            pattern += f"(?P={letter})"
        else:
            pattern += f"(?P<{letter}>{_OFFSET if part == '%z' else _DIRECTIVES[part].pattern})"
        seen.add(part)
    return f"{pattern}(?P<z>{_OFFSET})?" if kind == "hourly" and "%z" not in parts else pattern


def _year(fields: Mapping[str, str]) -> int | None:
    if "Y" in fields:
        return int(fields["Y"])
    return next(y for y in TWO_DIGIT_YEARS if y % 100 == int(fields["y"])) if "y" in fields else None


def _month(fields: Mapping[str, str]) -> int | None:
    if "m" in fields:
        return int(fields["m"])
    name = fields.get("b") or fields.get("B")
    return _MON.index(name[:3].title()) + 1 if name else None


def _weekday(fields: Mapping[str, str]) -> int:
    """1 for Monday, also where none is said, to 7."""
    name = fields.get("a") or fields.get("A")
    return _DY.index(name[:3].title()) + 1 if name else int(fields.get("u") or fields.get("w") or "1") or 7


def _hour(fields: Mapping[str, str]) -> int:
    if "H" not in fields and "I" in fields and "p" in fields:
        return int(fields["I"]) % 12 + 12 * _HALVES.index(fields["p"].upper())
    hour = int(fields.get("H", "0"))
    if hour >= 24:
        raise ValueError(hour)
    return hour
