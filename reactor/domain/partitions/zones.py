"""When the clocks of a zone change, from the `tzdata` package alone: the machine's own zone files are never read.

`ZoneInfo` answers for one instant only, so the changes of a year are found by asking at steps shorter than any two of its changes are
apart, and halving. Outside the years that `tzdata` lists one by one nothing new happens: before, local mean time holds; after, the
zone's last rule repeats for ever. All times are whole seconds since 1970 (UTC).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import ZoneInfo

from reactor.errors import UsageError

DAY_SECONDS = 86_400
CYCLE_YEARS = 400
CYCLE_DAYS = 146_097
"""After which Gregorian dates fall on the same weekdays."""
FIRST_YEAR = 1840
"""No zone has changed its clocks before."""
LAST_YEAR = 2099
"""No zone lists changes beyond; from here on only rules repeat."""
STEP_SECONDS = 5 * DAY_SECONDS
"""Two changes of one zone are further apart."""


class Change(NamedTuple):
    """At the second `at` the offset (seconds east of UTC) goes from `before` to `after`."""

    at: int
    before: int
    after: int


def year_start(year: int) -> int:
    """The first second of a UTC year, also of the years 0 and 10000 that `datetime` does not have."""
    past = year - 1
    days = 365 * (year - 1970) + past // 4 - past // 100 + past // 400 - (1969 // 4 - 1969 // 100 + 1969 // 400)
    return days * DAY_SECONDS


def year_of(second: int) -> int:
    """The UTC year of a second."""
    year = 1970 + second // 31_556_952
    return year + (second >= year_start(year + 1)) - (second < year_start(year))


@cache
def ruling_year(year: int) -> int:
    """A year whose changes come the same number of seconds after its start: beyond `LAST_YEAR` another one that begins on the same weekday.

    The rules of zones know months, weekdays and leap years, nothing else; so 14 years stand for all that come.
    """
    if year <= LAST_YEAR:
        return max(year, FIRST_YEAR)
    return next(like for like in range(LAST_YEAR + 2, LAST_YEAR + 30) if _year_shape(like) == _year_shape(year))


def _year_shape(year: int) -> tuple[int, int]:
    start, end = year_start(year), year_start(year + 1)
    return start // DAY_SECONDS % 7, end - start


@cache
def zone_names() -> frozenset[str]:
    """All IANA names that `tzdata` knows."""
    return frozenset((files("tzdata") / "zones").read_text(encoding="utf-8").split())


@cache
def zone(name: str) -> Zone:
    """The zone of an IANA name. Raises `UsageError` with the nearest names for any other text."""
    if name not in zone_names():
        near = get_close_matches(name, zone_names(), n=3)
        raise UsageError(f"{name!r} is no IANA time zone", hint=f"did you mean {' or '.join(near)}?" if near else "write one like Europe/Berlin")
    with (files("tzdata") / "zoneinfo" / name).open("rb") as data:
        return Zone(ZoneInfo.from_file(data, key=name))


class Zone:
    """The offsets of one zone at every second of the years 0 to 10000."""

    def __init__(self, info: ZoneInfo) -> None:
        self._info = info
        self._epoch = datetime(1970, 1, 1, tzinfo=info)  # as `fromutc` wants it: UTC that calls itself local
        self._found: dict[int, tuple[int, tuple[Change, ...]]] = {}

    def opening(self, year: int) -> int:
        """The offset in force as a UTC year begins."""
        return self._ruled(ruling_year(year))[0]

    def changes(self, year: int) -> tuple[Change, ...]:
        """The changes within a UTC year, in time order."""
        ruling = ruling_year(year)
        shift = year_start(year) - year_start(ruling)
        return tuple(Change(c.at + shift, c.before, c.after) for c in self._ruled(ruling)[1])

    def _ruled(self, year: int) -> tuple[int, tuple[Change, ...]]:
        if year not in self._found:
            start, end = year_start(year), year_start(year + 1)
            self._found[year] = (self._offset(start - 1), self._find(start, end))
        return self._found[year]

    def _find(self, start: int, end: int) -> tuple[Change, ...]:
        """Changes at `start` <= second < `end`."""
        changes = []
        probe, before = start - 1, self._offset(start - 1)
        while probe < end - 1:
            further = min(probe + STEP_SECONDS, end - 1)
            after = self._offset(further)
            if after != before:
                changes.append(Change(self._first_with(after, probe, further), before, after))
            probe, before = further, after
        return tuple(changes)

    def _first_with(self, offset: int, without: int, having: int) -> int:
        while having - without > 1:
            middle = (without + having) // 2
            without, having = (without, middle) if self._offset(middle) == offset else (middle, having)
        return having

    def _offset(self, second: int) -> int:
        offset = self._info.fromutc(self._epoch + timedelta(seconds=second)).utcoffset()
        return int(offset.total_seconds()) if offset else 0
