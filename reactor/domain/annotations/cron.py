"""Cron expressions of five fields: minute, hour, day of the month, month, day of the week (0 and 7 are Sunday)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from reactor.domain.annotations.scan import Word
from reactor.domain.diagnostics import Malformed
from reactor.domain.spelling import nearest

MACROS: Final = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_OF_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FIELD = re.compile(r"[^ \t]+")
_PART = re.compile(r"(?P<low>\*|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>\w+))?")


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def number(self, text: str, offset: int) -> int:
        if text.lower() in self.names:
            return self.names.index(text.lower()) + self.low
        if not (text.isascii() and text.isdigit()):
            raise Malformed(f"`{text}` is no {self.name}", nearest(text, self.names, 1), offset=offset, length=len(text))
        if not self.low <= int(text[:9]) <= self.high:
            raise Malformed(f"`{text}` is no {self.name}: {self.low} to {self.high}", offset=offset, length=len(text))
        return int(text)


_FIELDS: Final = (
    _Field("minute", 0, 59), _Field("hour", 0, 23), _Field("day of the month", 1, 31), _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _WEEKDAYS),
)


def cron(word: Word) -> str:
    """The five fields with one blank between them; raises `Malformed` with the place of the field that is wrong."""
    if word.text in MACROS:
        raise Malformed(f"`{word.text}` is written as five fields", MACROS[word.text])
    fields = list(_FIELD.finditer(word.text))
    if len(fields) != len(_FIELDS):
        seconds = "; there is no field for seconds" if len(fields) == len(_FIELDS) + 1 else ""
        close = " ".join(f[0] for f in fields[1:]) if seconds and fields[0][0] == "0" else None
        code = "seconds-field" if seconds else "bad-value"
        raise Malformed(f"a schedule has five fields, here are {len(fields)}{seconds}", close, code=code)
    sets = [_values(field, found[0], found.start()) for field, found in zip(_FIELDS, fields, strict=True)]
    _may_come(sets, fields)
    return " ".join(found[0] for found in fields)


def _values(field: _Field, text: str, offset: int) -> set[int]:
    values: set[int] = set()
    for part in text.split(","):
        values |= _part(field, part, offset)
        offset += len(part) + 1
    return values


def _part(field: _Field, text: str, offset: int) -> set[int]:
    found = _PART.fullmatch(text)
    if found is None or (found["low"] == "*" and found["high"]):
        raise Malformed(f"`{text}` is no {field.name}: a number, a range `a-b`, a step `*/n`, or a list", offset=offset, length=max(len(text), 1))
    low = field.low if found["low"] == "*" else field.number(found["low"], offset)
    high = field.high if found["low"] == "*" or found["step"] else low
    if found["high"]:
        high = field.number(found["high"], offset + found.start("high"))
        if high < low:
            raise Malformed(f"the range `{text}` ends before it begins", offset=offset, length=len(text))
    step = found["step"] or "1"
    if not (step.isascii() and step.isdigit()) or not 1 <= int(step[:9]) <= field.high:
        at = offset + found.start("step")
        raise Malformed(f"`{step}` is no step: 1 to {field.high}", offset=at, length=len(step))
    return set(range(low, high + 1, int(step)))


def _may_come(sets: list[set[int]], fields: list[re.Match[str]]) -> None:
    """Refuse 30 February: a day that no month of the schedule has (a weekday beside it would still fire)."""
    days, months = sets[2], sets[3]
    if fields[4][0] == "*" and all(min(days) > _DAYS_OF_MONTH[month - 1] for month in months):
        text = fields[2][0]
        raise Malformed(f"the schedule never comes: no month of it has a day {text}", offset=fields[2].start(), length=len(text))
