"""The units that the kinds cut wall time into: whole hours, days, ISO weeks (from Monday) and months, in wall seconds since 1970."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import Literal

from reactor.domain.partitions.timelines import HOUR_SECONDS
from reactor.domain.partitions.zones import DAY_SECONDS

TimeKind = Literal["hourly", "daily", "weekly", "monthly"]

WEEK_SECONDS = 7 * DAY_SECONDS
_MONDAY = -3 * DAY_SECONDS  # 1970 began on a Thursday
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def wall_of(day: date) -> int:
    """The wall second at which a local date begins."""
    return (day.toordinal() - _EPOCH_ORDINAL) * DAY_SECONDS


def date_of(wall: int) -> date:
    """The local date of a wall second of the years 1 to 9999."""
    return date.fromordinal(wall // DAY_SECONDS + _EPOCH_ORDINAL)


def unit_start(kind: TimeKind, wall: int) -> int:
    """The first wall second of the unit that holds `wall`."""
    match kind:
        case "hourly":
            return wall - wall % HOUR_SECONDS
        case "daily":
            return wall - wall % DAY_SECONDS
        case "weekly":
            return wall - (wall - _MONDAY) % WEEK_SECONDS
        case "monthly":
            return wall_of(date_of(wall).replace(day=1))


def unit_end(kind: TimeKind, start: int) -> int:
    """The first wall second after the unit that begins at `start`; it may lie in the year 10000."""
    match kind:
        case "hourly":
            return start + HOUR_SECONDS
        case "daily":
            return start + DAY_SECONDS
        case "weekly":
            return start + WEEK_SECONDS
        case "monthly":
            first = date_of(start)
            return start + monthrange(first.year, first.month)[1] * DAY_SECONDS
