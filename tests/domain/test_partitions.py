"""The calendar: slices tile time in every zone, and what a slice is called leads back to it."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.partitions import MICROSECONDS, Calendar, NoSlice, NoSliceReason, Slice, TimeKind, calendar_of, rfc3339, zone_names
from reactor.domain.partitions import calendars as calendars_module
from reactor.domain.partitions.timelines import Stretch, Timeline
from reactor.domain.partitions.zones import FIRST_YEAR, Change, year_start, zone
from reactor.domain.scripts import Partitioning
from reactor.errors import UsageError

KINDS: tuple[TimeKind, ...] = ("hourly", "daily", "weekly", "monthly")
ODD = (
    "UTC", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu", "Pacific/Apia", "Antarctica/Troll", "America/St_Johns",
    "America/Havana", "Africa/Casablanca", "Africa/Monrovia", "America/Juneau", "Antarctica/Casey", "Pacific/Kwajalein", "Asia/Jerusalem",
)  # fmt: skip
DAY = timedelta(days=1)


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def tiling_problem(calendar: Calendar, instant: int) -> str | None:
    """What is wrong with the slice of an instant, its neighbours and its name."""
    own = calendar.slice_of(instant)
    if not own.start <= instant < own.end:
        return f"{rfc3339(instant)} is not in {own}"
    if calendar.slice_of(max(own.start, calendar.first)) != own or calendar.slice_of(min(own.end, calendar.end) - 1) != own:
        return f"{own} is another one at its ends"
    if own.end < calendar.end and calendar.slice_of(own.end).start != own.end:
        return f"a gap or an overlap behind {own}"
    if own.start > calendar.first and calendar.slice_of(own.start - 1).end != own.start:
        return f"a gap or an overlap before {own}"
    try:
        return None if calendar.parse(own.identity) == own else f"{own.identity} leads to {calendar.parse(own.identity)}"
    except NoSlice as error:
        return f"{own.identity} leads nowhere: {error.reason}"


def changes_of(name: str, years: range) -> Iterator[Change]:
    return (change for year in years for change in zone(name).changes(year))


def around(changes: Iterator[Change]) -> Iterator[int]:
    """Instants just before and after changes, and where the clock shows the same again."""
    for change in changes:
        jump = abs(change.after - change.before)
        for second in (change.at, change.at - jump, change.at + jump):
            yield from (second * MICROSECONDS - 1, second * MICROSECONDS, second * MICROSECONDS + 1)


@st.composite
def moments(draw: st.DrawFn) -> tuple[Calendar, int]:
    """A calendar and an instant that it holds: anywhere, or near a change of the clocks."""
    name = draw(st.sampled_from(ODD) | st.sampled_from(sorted(zone_names())))
    calendar = calendar_of(Partitioning(draw(st.sampled_from(KINDS)), name))
    first = draw(st.integers(FIRST_YEAR, 2200))
    near = [change.at * MICROSECONDS for change in changes_of(name, range(first, first + 2))]
    if draw(st.booleans()) and near:
        return calendar, draw(st.sampled_from(near)) + draw(st.integers(-2 * 86_400 * MICROSECONDS, 2 * 86_400 * MICROSECONDS))
    return calendar, draw(st.integers(calendar.earliest, calendar.end - 1))


@given(moments())
@settings(max_examples=400, deadline=None)
def test_slices_tile_time_and_their_names_lead_back(moment: tuple[Calendar, int]) -> None:
    assert tiling_problem(*moment) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ODD)
def test_all_changes_of_the_odd_zones(name: str, kind: TimeKind) -> None:
    calendar = calendar_of(Partitioning(kind, name))
    for instant in around(changes_of(name, range(FIRST_YEAR, 2040))):
        assert tiling_problem(calendar, instant) is None


def test_all_zones_over_ten_years() -> None:
    for name in {(files("tzdata") / "zoneinfo" / name).read_bytes(): name for name in sorted(zone_names())}.values():
        for kind in KINDS:
            calendar = calendar_of(Partitioning(kind, name))
            for change in changes_of(name, range(2020, 2030)):
                assert tiling_problem(calendar, change.at * MICROSECONDS) is None, name


@pytest.mark.parametrize("kind", KINDS)
def test_the_ends_of_the_calendar(kind: TimeKind) -> None:
    for name in ODD:
        calendar = calendar_of(Partitioning(kind, name))
        assert tiling_problem(calendar, calendar.earliest) is None
        assert tiling_problem(calendar, calendar.end - 1) is None
        for outside in (calendar.earliest - 1, calendar.end):
            with pytest.raises(NoSlice) as refused:
                calendar.slice_of(outside)
            assert refused.value.reason == "event_time_out_of_range"
    berlin = calendar_of(Partitioning("daily", "Europe/Berlin"))
    assert berlin.slice_of(micros("0001-01-01T00:00:00Z")).identity == "0001-01-01"
    assert rfc3339(berlin.earliest) == "0000-12-31T23:06:32Z"
    assert rfc3339(berlin.slice_of(berlin.end - 1).end) == "9999-12-31T23:00:00Z"
    assert rfc3339(calendar_of(Partitioning("daily", "America/New_York")).end) == "10000-01-01T05:00:00Z"


# ------------------------------------------------------------------------------------- against an oracle that knows only one instant at a time


def local(name: str, instant: int) -> datetime:
    with (files("tzdata") / "zoneinfo" / name).open("rb") as data:
        zone_of_file = ZoneInfo.from_file(data)
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)).astimezone(zone_of_file)


def comes_twice(moment: datetime) -> bool:
    minutes = (moment.replace(minute=minute, second=0) for minute in range(60))
    return any(offset(m.replace(fold=0)) > offset(m.replace(fold=1)) for m in minutes)


def offset(moment: datetime) -> timedelta:
    found = moment.utcoffset()
    assert found is not None
    return found


def named_by_the_clock(kind: TimeKind, moment: datetime) -> str:
    week = moment.isocalendar()
    texts = {"daily": moment.date().isoformat(), "weekly": f"{week.year:04d}-W{week.week:02d}", "monthly": moment.date().isoformat()[:7]}
    return texts.get(kind) or f"{moment.date().isoformat()}T{moment.hour:02d}" + (f"{moment:%z}" if comes_twice(moment) else "")


def clock_problem(calendar: Calendar, instant: int) -> str | None:
    wanted = named_by_the_clock(calendar.kind, local(calendar.partitioning.zone, instant))
    return None if calendar.slice_of(instant).identity == wanted else f"{rfc3339(instant)} is not in {wanted}"


@given(moments())
@settings(max_examples=300, deadline=None)
def test_a_slice_is_called_what_the_clock_on_the_wall_says(moment: tuple[Calendar, int]) -> None:
    calendar, instant = moment
    if instant < year_start(2012) * MICROSECONDS:  # before, clocks went back over midnight in places, or by seconds
        instant += year_start(2012) * MICROSECONDS - calendar.earliest
    if calendar.end - instant > 366 * 86_400 * MICROSECONDS:
        assert clock_problem(calendar, instant) is None


# ------------------------------------------------------------------------------------------------------------------------------------- mutants


def problems(names: tuple[str, ...] = ODD, kinds: tuple[TimeKind, ...] = KINDS) -> Iterator[str]:
    """What the tiling property says over all changes of some zones, with calendars made anew."""
    for name in names:
        for kind in kinds:
            calendar = Calendar(Partitioning(kind, name))
            for instant in around(changes_of(name, range(1980, 2030))):
                if said := tiling_problem(calendar, instant):
                    yield said


def uncached(name: str, *, by_hour: bool) -> Timeline:
    return Timeline(zone(name), by_hour=by_hour)


def test_mutant_a_day_falls_apart_where_clocks_go_back_over_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendars_module, "timeline", uncached)
    assert not list(problems(("America/St_Johns",)))
    monkeypatch.setattr("reactor.domain.partitions.timelines._moved", lambda change: change.at)
    assert any(problems(("America/St_Johns",), ("daily",)))


def test_mutant_hours_that_come_twice_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendars_module, "timeline", uncached)
    monkeypatch.setattr("reactor.domain.partitions.timelines._read_twice", lambda _: range(0))
    assert any(problems(("America/St_Johns",), ("hourly",)))
    merged = Calendar(Partitioning("hourly", "America/New_York"))
    assert clock_problem(merged, micros("2026-11-01T06:30:00Z")) == "2026-11-01T06:30:00Z is not in 2026-11-01T01-0500"


def test_mutant_a_slice_ends_where_clocks_change(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Calendar._slice_at

    def cut(self: Calendar, second: int) -> Slice:
        whole, stretch = right(self, second), self.timeline.at(second)
        return Slice(whole.identity, max(whole.start, stretch.start * MICROSECONDS), min(whole.end, stretch.end * MICROSECONDS))

    monkeypatch.setattr(Calendar, "_slice_at", cut)
    assert any(problems(("America/New_York",), ("daily",)))


def test_mutant_a_day_has_24_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Calendar._slice_at

    def even(self: Calendar, second: int) -> Slice:
        whole = right(self, second)
        return Slice(whole.identity, whole.start, whole.start + 86_400 * MICROSECONDS)

    monkeypatch.setattr(Calendar, "_slice_at", even)
    assert any(problems(("America/New_York",), ("daily",)))


# ------------------------------------------------------------------------------------------------------------------------------------ examples


def identities(kind: TimeKind, name: str, first: str, last: str) -> list[str]:
    return [s.identity for s in calendar_of(Partitioning(kind, name)).between(date.fromisoformat(first), date.fromisoformat(last))]


@pytest.mark.parametrize(
    ("kind", "name", "instant", "identity", "start", "end"),
    [
        ("hourly", "Australia/Lord_Howe", "2026-04-04T14:45:00Z", "2026-04-05T01+1100", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"),
        ("hourly", "Australia/Lord_Howe", "2026-04-04T15:15:00Z", "2026-04-05T01+1030", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"),
        ("hourly", "Antarctica/Troll", "2026-10-25T00:30:00Z", "2026-10-25T02+0200", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"),
        ("hourly", "America/St_Johns", "2010-11-07T02:30:30Z", "2010-11-07T00-0230", "2010-11-07T02:30:00Z", "2010-11-07T02:31:00Z"),
        ("hourly", "America/St_Johns", "2010-11-07T02:31:00Z", "2010-11-06T23-0330", "2010-11-07T02:31:00Z", "2010-11-07T03:30:00Z"),
        ("daily", "America/St_Johns", "2010-11-07T03:29:59Z", "2010-11-06", "2010-11-06T02:30:00Z", "2010-11-07T03:30:00Z"),
        ("daily", "Pacific/Apia", "1892-07-04T12:00:00Z", "1892-07-04", "1892-07-03T11:26:56Z", "1892-07-05T11:26:56Z"),
        ("hourly", "Pacific/Apia", "1892-07-04T11:26:55Z", "1892-07-04T23+123304", "1892-07-04T10:26:56Z", "1892-07-04T11:26:56Z"),
        ("daily", "America/New_York", "1700-01-01T12:00:00Z", "1700-01-01", "1700-01-01T04:56:02Z", "1700-01-02T04:56:02Z"),
        ("daily", "America/Havana", "2025-11-02T05:30:00Z", "2025-11-02", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"),
        ("weekly", "Pacific/Apia", "2011-12-31T00:00:00Z", "2011-W52", "2011-12-26T10:00:00Z", "2012-01-01T10:00:00Z"),
        ("monthly", "Asia/Kathmandu", "2026-01-31T18:15:00Z", "2026-02", "2026-01-31T18:15:00Z", "2026-02-28T18:15:00Z"),
    ],
)
def test_slices_of_odd_days(kind: TimeKind, name: str, instant: str, identity: str, start: str, end: str) -> None:
    found = calendar_of(Partitioning(kind, name)).slice_of(micros(instant))
    assert (found.identity, rfc3339(found.start), rfc3339(found.end)) == (identity, start, end)


def test_a_range_holds_the_slices_of_its_dates_only() -> None:
    assert identities("weekly", "UTC", "2026-12-27", "2026-12-28") == ["2026-W52", "2026-W53"]
    assert identities("daily", "Pacific/Apia", "2011-12-30", "2011-12-30") == []
    assert identities("weekly", "Pacific/Apia", "2011-12-30", "2011-12-30") == []
    assert identities("daily", "UTC", "9999-12-30", "9999-12-31") == ["9999-12-30", "9999-12-31"]
    assert identities("daily", "UTC", "2026-03-02", "2026-03-01") == []


@given(st.sampled_from(KINDS), st.sampled_from(ODD), st.dates(date(1850, 1, 1), date(2100, 1, 1)), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_a_range_is_a_row_of_neighbours_that_meet_it(kind: TimeKind, name: str, first: date, days: int) -> None:
    calendar = calendar_of(Partitioning(kind, name))
    found = list(calendar.between(first, first + days * DAY))
    start, end = calendar.of_date(first)[0], calendar.of_date(first + days * DAY)[1]
    assert all(earlier.end == later.start for earlier, later in pairwise(found))
    assert not found or (found[0].start <= start < found[0].end and found[-1].start < end <= found[-1].end)


def test_start_is_a_local_date() -> None:
    calendar = calendar_of(Partitioning("weekly", "America/New_York", start=date(2026, 3, 4)))
    with pytest.raises(NoSlice) as refused:
        calendar.slice_of(micros("2026-03-04T04:59:59.999999Z"))
    assert refused.value.reason == "before_start"
    assert calendar.slice_of(micros("2026-03-04T05:00:00Z")).identity == "2026-W10"
    assert calendar.parse("2026-W10").start == micros("2026-03-02T05:00:00Z")
    assert [s.identity for s in calendar.between(date(2026, 2, 1), date(2026, 3, 9))] == ["2026-W10", "2026-W11"]
    with pytest.raises(NoSlice, match=r"2026-W09.* lies before start=2026-03-04"):
        calendar.parse("2026-W09")


def test_now() -> None:
    assert calendar_of(Partitioning("daily", "Asia/Tokyo")).current(1_772_377_200.5).identity == "2026-03-02"


@pytest.mark.parametrize(
    ("kind", "name", "key", "reason", "said"),
    [
        ("daily", "UTC", "2026-6-1", "malformed_key", "write 2026-06-01"),
        ("daily", "UTC", " 2026-06-01", "malformed_key", "write 2026-06-01"),
        ("daily", "UTC", "２０２６-06-01", "malformed_key", "write it like 2026-"),  # noqa: RUF001 - digits that are not ASCII's
        ("daily", "UTC", "2026-06-01\n", "malformed_key", ""),
        ("daily", "UTC", "", "malformed_key", "write it like 2026-"),
        ("daily", "UTC", "2026-06-01-0400", "malformed_key", ""),
        ("weekly", "UTC", "2026-w9", "malformed_key", "write 2026-W09"),
        ("monthly", "UTC", "2026-00", "no_such_slice", "never comes in UTC"),
        ("daily", "UTC", "0000-01-01", "no_such_slice", ""),
        ("hourly", "UTC", "2026-03-01T24", "no_such_slice", ""),
        ("hourly", "Australia/Lord_Howe", "2026-04-05T01", "ambiguous_key", "write 2026-04-05T01+1100 or 2026-04-05T01+1030"),
        ("hourly", "America/New_York", "2026-11-01T01-0600", "no_such_slice", "there is 2026-11-01T01-0400 or"),
        ("hourly", "America/New_York", "2026-11-01T02-0500", "malformed_key", "write 2026-11-01T02"),
        ("hourly", "America/New_York", "2026-03-08T02-0500", "no_such_slice", ""),
    ],
)
def test_keys_have_one_spelling(kind: TimeKind, name: str, key: str, reason: NoSliceReason, said: str) -> None:
    with pytest.raises(NoSlice) as refused:
        calendar_of(Partitioning(kind, name)).parse(key)
    assert refused.value.reason == reason
    assert said in str(refused.value)


def test_what_makes_no_calendar() -> None:
    for wrong in (Partitioning("dynamic", key=("k",)), Partitioning("daily", "Mars/Olympus"), Partitioning("daily", format="%Y-%m")):
        with pytest.raises(UsageError):
            Calendar(wrong)


def test_stretches_tile_the_year() -> None:
    for year in (0, 1, 1892, 2026, 2600, 10000):
        for name in ODD:
            for by_hour in (False, True):
                found: tuple[Stretch, ...] = uncached(name, by_hour=by_hour).year(year)
                assert (found[0].start, found[-1].end) == (year_start(year), year_start(year + 1))
                assert all(earlier.end == later.start for earlier, later in pairwise(found))
