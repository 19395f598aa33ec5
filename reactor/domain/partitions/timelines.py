"""A zone's time as stretches of one offset: the one rule from which slices, keys and the SQL of `wm_partition` are made.

Wall seconds are what a clock on the wall would count: seconds since 1970 plus the offset. Two views of the same zone:

- by hour, the stretches end where the clocks change. An hour of which any part is read twice is *named*: its slices carry the offset.
- by day, wall time must never go back over a midnight, else a day would not be one interval. Where clocks are set back over midnight
  (St. John's until 2010: 00:01 became 23:01 of the day before) the later offset counts from the first midnight on. So a day begins at the
  last instant at which the clock shows its midnight, and what was read as the new day before belongs to the old one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from reactor.domain.partitions.zones import DAY_SECONDS, Change, Zone, year_of, year_start, zone

HOUR_SECONDS = 3600


class Stretch(NamedTuple):
    """Seconds [start, end) of UTC in which wall time is UTC plus `offset`; `named`: its hours carry the offset in their identity."""

    start: int
    end: int
    offset: int
    named: bool = False


@cache
def timeline(zone_name: str, *, by_hour: bool) -> Timeline:
    """The timeline of a zone, made once. Raises `UsageError` if there is no such zone."""
    return Timeline(zone(zone_name), by_hour=by_hour)


class Timeline:
    """The stretches of one zone in one view; years are worked out as they are asked for."""

    def __init__(self, of: Zone, *, by_hour: bool) -> None:
        self._zone, self._by_hour = of, by_hour
        self._years: dict[int, tuple[Stretch, ...]] = {}

    def year(self, year: int) -> tuple[Stretch, ...]:
        """The stretches of a UTC year (0 to 10000): they tile it, the first and the last are cut at its bounds."""
        if year not in self._years:
            self._years[year] = tuple(self._stretches(year))
        return self._years[year]

    def at(self, second: int) -> Stretch:
        """The stretch that holds a second."""
        stretches = self.year(year_of(second))
        return stretches[bisect_right(stretches, second, key=lambda s: s.start) - 1]

    def over(self, start: int, end: int) -> Iterator[Stretch]:
        """The stretches that meet [start, end), in time order."""
        while start < end:
            stretch = self.at(start)
            yield stretch
            start = stretch.end

    def when(self, wall: int) -> int:
        """The first second whose wall time is `wall` or later. By day and for a midnight: where that day begins."""
        seconds = (max(s.start, wall - s.offset) for s in self.over(wall - DAY_SECONDS, wall + DAY_SECONDS) if wall - s.offset < s.end)
        return next(seconds)

    def _stretches(self, year: int) -> Iterator[Stretch]:
        start, end = year_start(year), year_start(year + 1)
        changes = [c for near in (year - 1, year, year + 1) for c in self._zone.changes(near)]
        offsets = [(_moved(c) if not self._by_hour else c.at, c.after) for c in changes]
        named = [_read_twice(c) for c in changes if c.after < c.before] if self._by_hour else []
        cuts = {at for at, _ in offsets} | {edge for span in named for edge in (span.start, span.stop)}
        offset = self._zone.opening(year - 1)
        for lo, hi in pairwise(sorted({start, end, *(cut for cut in cuts if start < cut < end)})):
            offset = _last_before(offsets, lo, offset)
            yield Stretch(lo, hi, offset, any(lo in span for span in named))


def _last_before(offsets: Iterable[tuple[int, int]], second: int, otherwise: int) -> int:
    for at, offset in offsets:
        if at <= second:
            otherwise = offset
    return otherwise


def _moved(change: Change) -> int:
    """Where a change counts by day: at the first midnight that it will go back over, else where it is."""
    midnight = (change.at + change.after) // DAY_SECONDS * DAY_SECONDS + DAY_SECONDS
    return min(change.at, midnight - change.before)


def _read_twice(change: Change) -> range:
    """The seconds of the whole hours of which a part comes twice because clocks are set back."""
    first = (change.at + change.after) // HOUR_SECONDS * HOUR_SECONDS
    last = -(-(change.at + change.before) // HOUR_SECONDS) * HOUR_SECONDS
    return range(first - change.before, last - change.after)
