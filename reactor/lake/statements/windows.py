"""What SQL says of its asset partition: `{partition}`, `$WM_PARTITION_START`, `$WM_PARTITION_END` and `wm_partition(ts)`.

`wm_partition` is a macro made of the very stretches that the calendar cuts slices from, because DuckDB's own zone data is of another day:
it may not know yet what a government has decided. UTC years that go alike (offsets change the same number of microseconds after New Year)
are one *shape*, and a zone has some dozens of them at most: the macro looks up the shape of a year, counts which of its stretches have
begun and adds the offset of the last one. Beyond the years that zones list, years go alike every 400 years.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby

from reactor.domain.partitions import MICROSECONDS, Calendar, calendar_of
from reactor.domain.partitions.zones import CYCLE_YEARS, FIRST_YEAR, LAST_YEAR, year_start
from reactor.domain.scripts import Partitioning
from reactor.errors import RunBlocked
from reactor.lake.statements.quoting import literal

_PLACEHOLDER = "{partition}"
_PLACES = re.compile(
    r"""(?P<escaping>\b[eE]'(?:[^'\\]|\\.|'')*') | (?P<plain>'(?:[^']|'')*') | (?P<dollar>\$(?P<tag>\w*)\$(?P<inside>.*?)\$(?P=tag)\$)
      | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/
      | (?P<name>\{partition\}) | \$WM_PARTITION_(?P<edge>START|END)\b""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_UNITS = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}
_NEVER = 10**15
"""Microseconds since New Year that no year has."""


def fill_in(sql: str, asset_partition: str | None, bounds: tuple[str, str] | None) -> str:
    """SQL with what it says of its asset partition filled in. `bounds`: RFC 3339 text; None where there are none, as `asset_partition`.

    `{partition}` becomes a whole literal, and the raw text within a longer one; names in double quotes and comments stay. Raises `RunBlocked`
    if something is said that the asset does not have.
    """

    def filled(place: re.Match[str]) -> str:
        if place["edge"]:
            if bounds is None:
                raise RunBlocked(f"{place[0]} is said, but the slices of this asset have no bounds", hint="they have with `partitioned daily`")
            return f"TIMESTAMPTZ {literal(bounds[place['edge'].upper() == 'END'])}"
        if _PLACEHOLDER not in place[0] or not (place["name"] or place["plain"] or place["escaping"] or place["dollar"]):
            return place[0]
        if asset_partition is None:
            raise RunBlocked(f"{_PLACEHOLDER} is said, but this asset is not partitioned", hint="add a `partitioned` line")
        return _with_name(place, asset_partition)

    return _PLACES.sub(filled, sql)


def _with_name(place: re.Match[str], asset_partition: str) -> str:
    if place["escaping"]:
        return place[0].replace(_PLACEHOLDER, asset_partition.replace("\\", "\\\\").replace("'", "''"))
    if place["name"]:
        return literal(asset_partition)
    text = place["inside"] if place["dollar"] else place[0][1:-1].replace("''", "'")
    return literal(text.replace(_PLACEHOLDER, asset_partition))


@cache
def partition_macro(partitioning: Partitioning | None) -> str:
    """The statement that makes `wm_partition` for one asset.

    A TIMESTAMPTZ gives the identity of the slice that holds it, NULL where no year names one; a TIMESTAMP is local time already and is
    formatted as it is, without an offset; NULL gives NULL. Where slices have no calendar, a call fails and says so.
    """
    if partitioning is None or partitioning.kind == "dynamic":
        said = "wm_partition(ts) is called, but the slices of this asset are not made of time"
        return f"CREATE OR REPLACE TEMP MACRO wm_partition(ts) AS error({literal(said)})"
    calendar = calendar_of(partitioning)
    # Not two macros by type: DuckDB cannot choose between them for an aggregate or a column of an outer query.
    return (
        f"CREATE OR REPLACE TEMP MACRO wm_partition(ts) AS CASE typeof(ts)\nWHEN 'TIMESTAMP WITH TIME ZONE' THEN {_name_of_instant(calendar)}\n"
        f"ELSE {_name(calendar, 'CAST(ts AS TIMESTAMP)', '')} END"
    )


def _name(calendar: Calendar, wall: str, said: str) -> str:
    """The name of the unit of a wall time; `said`: SQL of the offset to say, if any."""
    unit = f"date_trunc('{_UNITS[calendar.kind]}', {wall})"
    parts = calendar.format.parts if calendar.format.has_offset else (*calendar.format.parts, "%z")
    written: list[str] = []
    for is_offset, run in groupby(parts, lambda part: part == "%z"):
        texts = list(run)
        written += [said] * len(texts) if is_offset else [f"strftime({unit}, {literal(''.join(texts))})"]
    return " || ".join(filter(None, written))


def _name_of_instant(calendar: Calendar) -> str:
    instant = "CAST(ts AS TIMESTAMP WITH TIME ZONE)"  # it is one already; a bare NULL has no type
    held = f"{instant} >= make_timestamptz({calendar.earliest}) AND {instant} < make_timestamptz({calendar.end})"
    utc = f"make_timestamp(epoch_us(CASE WHEN {held} THEN {instant} END))"
    shapes = _shapes(calendar)
    if shapes.always is not None:
        said = literal(shapes.always.said) if shapes.always.said else ""
        return _name(calendar, f"make_timestamp(epoch_us({utc}) + {shapes.always.shift})", said)
    years = f"CASE WHEN year({utc}) > {LAST_YEAR} THEN (year({utc}) - {LAST_YEAR + 1}) % {CYCLE_YEARS} + {LAST_YEAR + 1} ELSE greatest(year({utc}), {FIRST_YEAR}) END"
    shape = f"({_list(shapes.of_years, 'INTEGER')})[{years} - {FIRST_YEAR - 1}]"
    # What lambdas bind is worked out once; DuckDB does not see equal parts of a filter. Their names are reserved, so no column is hidden.
    begun = " + ".join(f"(_wm_x.r >= ({_list(since, 'BIGINT')})[_wm_x.n])::INTEGER" for since in shapes.since)
    wall = f"make_timestamp(epoch_us({utc}) + ({_list((s.shift for s in shapes.flat), 'BIGINT')})[_wm_k])"
    said = f"({_list((s.said for s in shapes.flat), 'VARCHAR')})[_wm_k]" if any(s.said for s in shapes.flat) else ""
    return (
        f"list_transform(list_transform([{{n: {shape}, r: epoch_us({utc}) - epoch_us(date_trunc('year', {utc}))}}],"
        f" lambda _wm_x: _wm_x.n * {shapes.width} - {shapes.width - 1} + {begun}), lambda _wm_k: {_name(calendar, wall, said)})[1]"
    )


def _list(values: Iterable[int | str], of: str) -> str:
    """A list as one literal: DuckDB parses it in a fraction of the time that an expression for each element takes."""
    return f"'[{','.join(map(str, values))}]'::{of}[]"


@dataclass(frozen=True, slots=True)
class _Begins:
    """From `since` microseconds after New Year on wall time is UTC plus `shift` microseconds, and `said` is the offset in a name."""

    since: int
    shift: int
    said: str = ""


_Shape = tuple[_Begins, ...]


@dataclass(frozen=True, slots=True)
class _Shapes:
    """The shapes of a zone's years, all of one width, and which of them (from 1) each year from FIRST_YEAR on has."""

    of_years: tuple[int, ...]
    shapes: tuple[_Shape, ...]

    @property
    def width(self) -> int:
        return len(self.shapes[0])

    @property
    def always(self) -> _Begins | None:
        """What holds at all times, if nothing ever changes."""
        return self.shapes[0][0] if self.width == len(self.shapes) == 1 else None

    @property
    def flat(self) -> list[_Begins]:
        return list(chain.from_iterable(self.shapes))

    @property
    def since(self) -> list[list[int]]:
        """When the second, third … stretch of each shape begins."""
        return [[shape[place].since for shape in self.shapes] for place in range(1, self.width)]


def _shapes(calendar: Calendar) -> _Shapes:
    numbers: dict[_Shape, int] = {}
    of_years = [numbers.setdefault(_shape(calendar, year), len(numbers) + 1) for year in range(FIRST_YEAR, LAST_YEAR + CYCLE_YEARS + 1)]
    width = max(map(len, numbers))
    return _Shapes(tuple(of_years), tuple(shape + (_Begins(_NEVER, 0),) * (width - len(shape)) for shape in numbers))


def _shape(calendar: Calendar, year: int) -> _Shape:
    new_year = year_start(year)
    return tuple(
        _Begins((s.start - new_year) * MICROSECONDS, s.offset * MICROSECONDS, calendar.said(s)) for s in calendar.timeline.year(year)
    )
