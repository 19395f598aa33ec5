"""The calendar of one `partitioned` line: from an instant to its slice and back from a key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date
from functools import cache
from typing import Literal

from reactor.domain.partitions.formats import STANDARD_FORMATS, TWO_DIGIT_YEARS, SliceFormat, format_problem, offset_text
from reactor.domain.partitions.timelines import Stretch, timeline
from reactor.domain.partitions.units import TimeKind, unit_end, unit_start, wall_of
from reactor.domain.partitions.zones import CYCLE_DAYS, CYCLE_YEARS, DAY_SECONDS
from reactor.domain.scripts import Partitioning
from reactor.errors import UsageError

MICROSECONDS = 1_000_000
"""In a second."""
_EXAMPLE = date(2026, 3, 2)

NoSliceReason = Literal[
    "no_such_slice", "ambiguous_key", "malformed_key", "before_start", "event_time_out_of_range", "no_partition_key", "bad_partition_key"
]


class NoSlice(UsageError):
    """There is no slice for this instant or key: `reason` is the word for it (conventions 11)."""

    def __init__(self, reason: NoSliceReason, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason: NoSliceReason = reason


@dataclass(frozen=True, slots=True)
class Slice:
    """One asset partition of a time kind: its identity and the instants [start, end) it holds, UTC microseconds since 1970."""

    identity: str
    start: int
    end: int


def rfc3339(instant: int) -> str:
    """An instant (UTC microseconds since 1970) as RFC 3339 text with `Z`; a fraction is shown where there is one, in six digits."""
    seconds, fraction = divmod(instant, MICROSECONDS)
    cycles, days = divmod(seconds // DAY_SECONDS + date(1970, 1, 1).toordinal() - 1, CYCLE_DAYS)
    day, time = date.fromordinal(days + 1), seconds % DAY_SECONDS
    clock = f"{time // 3600:02d}:{time // 60 % 60:02d}:{time % 60:02d}" + (f".{fraction:06d}" if fraction else "")
    return f"{day.year + cycles * CYCLE_YEARS:04d}-{day.month:02d}-{day.day:02d}T{clock}Z"


@cache
def calendar_of(partitioning: Partitioning) -> Calendar:
    """The calendar of a time kind, made once. Raises `UsageError` like `Calendar`."""
    return Calendar(partitioning)


class Calendar:
    """The slices of a time kind. They tile the instants [`first`, `end`): half-open, without gap or overlap.

    Instants are UTC microseconds since 1970. `earliest` is where the local year 1 begins, `end` where the year 10000 does, `first` where
    the local date `start` does, if it is later. A format with `%y` and no `%Y` has only the hundred years that it tells apart. Raises
    `UsageError` for a kind without a calendar, an unknown zone or a format that gives two slices one name.
    """

    def __init__(self, partitioning: Partitioning) -> None:
        kind = partitioning.kind
        if kind == "dynamic":
            raise UsageError("slices that are named by a key have no calendar")
        text = partitioning.format or STANDARD_FORMATS[kind]
        if problem := format_problem(kind, text):
            raise UsageError(problem)
        self.partitioning = partitioning
        self.kind: TimeKind = kind
        self.format = SliceFormat(kind, text)
        self.timeline = timeline(partitioning.zone, by_hour=kind == "hourly")
        self._days = timeline(partitioning.zone, by_hour=False)
        self._earliest, self._latest = self._years()
        self.earliest = self._earliest * MICROSECONDS
        start = self.of_date(partitioning.start)[0] if partitioning.start else self.earliest
        self.first, self.end = max(start, self.earliest), self._latest * MICROSECONDS

    def slice_of(self, instant: int) -> Slice:
        """The slice that holds an instant. Raises `NoSlice` (`event_time_out_of_range`, `before_start`)."""
        if not self.earliest <= instant < self.end:
            raise NoSlice("event_time_out_of_range", f"{rfc3339(instant)} has no local date in {self.partitioning.zone} that names a slice")
        if instant < self.first:
            raise NoSlice("before_start", f"{rfc3339(instant)} lies before start={self.partitioning.start} in {self.partitioning.zone}")
        return self._slice_at(instant // MICROSECONDS)

    def parse(self, key: str) -> Slice:
        """The slice of exactly this name. Raises `NoSlice` (`malformed_key`, `no_such_slice`, `ambiguous_key`, `before_start`)."""
        read = self.format.read(key)
        if read is None:
            raise NoSlice("malformed_key", f"{key!r} names no slice of `partitioned {self.kind}`", hint=self._right_form(key))
        wall, said = read
        found = [] if wall is None else self._named_after(wall)
        for candidate in found:
            if candidate.identity == key:
                return self._after_start(candidate)
        raise self._no_name(key, said, found)

    def current(self, now: float) -> Slice:
        """The slice of `now`, POSIX seconds. Raises `NoSlice` (`before_start`)."""
        return self.slice_of(int(now * MICROSECONDS))

    def between(self, from_date: date, to_date: date) -> Iterator[Slice]:
        """All slices that hold a part of these local dates, both included, in time order; those that end before `start` are left out."""
        return self.overlapping(self.of_date(from_date)[0], self.of_date(to_date)[1])

    def of_date(self, day: date) -> tuple[int, int]:
        """The instants [start, end) of a local date, whatever the kind; empty if the zone skipped it."""
        wall = wall_of(day)
        return self._days.when(wall) * MICROSECONDS, self._days.when(wall + DAY_SECONDS) * MICROSECONDS

    def overlapping(self, start: int, end: int) -> Iterator[Slice]:
        """All slices that hold an instant of [start, end), in time order, as far as the calendar goes."""
        instant, last = max(start, self.first), min(end, self.end)
        while instant < last:
            found = self._slice_at(instant // MICROSECONDS)
            yield found
            instant = found.end

    def said(self, stretch: Stretch) -> str:
        """The offset as the names of slices in this stretch say it; empty where they do not."""
        return offset_text(stretch.offset) if stretch.named or self.format.has_offset else ""

    def _years(self) -> tuple[int, int]:
        """The seconds between which local dates name slices."""
        years = TWO_DIGIT_YEARS if self.format.two_digit_year else range(MINYEAR, MAXYEAR + 1)
        first, last = wall_of(date(years[0], 1, 1)), wall_of(date(years[-1], 12, 31))
        unit = unit_start(self.kind, first)
        return self._days.when(first if unit == first else unit_end(self.kind, unit)), self._days.when(last + DAY_SECONDS)

    def _slice_at(self, second: int) -> Slice:
        """The slice of a second of the years: its unit within the stretch, and the neighbours' parts of the unit of the same label."""
        stretch = self.timeline.at(second)
        wall, said = label = self._label(stretch, second)
        close, near = unit_end(self.kind, wall), stretch
        while (start := max(near.start, wall - near.offset)) == near.start and start > self._earliest:
            near = self.timeline.at(start - 1)
            if self._label(near, start - 1) != label:
                break
        near = stretch
        while (end := min(near.end, close - near.offset)) == near.end and end < self._latest:
            near = self.timeline.at(end)
            if self._label(near, end) != label:
                break
        return Slice(self.format.write(wall, said), start * MICROSECONDS, end * MICROSECONDS)

    def _label(self, stretch: Stretch, second: int) -> tuple[int, str]:
        """What tells a slice from its neighbours: the wall second at which its unit begins, and the offset where that is said."""
        return unit_start(self.kind, second + stretch.offset), self.said(stretch)

    def _named_after(self, wall: int) -> list[Slice]:
        """The slices of the unit that begins at a wall second: none if it is skipped, two if the hour comes twice."""
        close, found = unit_end(self.kind, wall), []
        for stretch in self.timeline.over(wall - DAY_SECONDS, close + DAY_SECONDS):
            start, end = max(stretch.start, wall - stretch.offset, self._earliest), min(stretch.end, close - stretch.offset, self._latest)
            if start < end and (candidate := self._slice_at(start)) not in found:
                found.append(candidate)
        return found

    def _no_name(self, key: str, said: str, found: list[Slice]) -> NoSlice:
        """Why a key of the right form names none of the slices `found` in its unit."""
        zone, spellings = self.partitioning.zone, " or ".join(s.identity for s in found)
        if not found:
            return NoSlice("no_such_slice", f"{key!r} never comes in {zone}")
        if not said:
            return NoSlice("ambiguous_key", f"{key!r} comes twice in {zone}", hint=f"write {spellings}")
        if key.removesuffix(said) == spellings:
            return NoSlice("malformed_key", f"{key!r} says an offset, but in {zone} that hour comes once", hint=f"write {spellings}")
        return NoSlice("no_such_slice", f"{key!r} never comes in {zone}", hint=f"there is {spellings}")

    def _after_start(self, candidate: Slice) -> Slice:
        if candidate.end <= self.first:
            raise NoSlice("before_start", f"{candidate.identity!r} lies before start={self.partitioning.start}")
        return candidate

    def _right_form(self, key: str) -> str:
        wall = self.format.read_loosely(key)
        meant = self._named_after(wall) if wall is not None else []
        example = meant or [self._slice_at(wall_of(_EXAMPLE))]
        return f"write {'' if meant else 'it like '}{' or '.join(s.identity for s in example)}"
