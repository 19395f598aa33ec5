"""Formats: one that is taken names every slice apart and can be read back; one that folds slices is refused."""

from datetime import date

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reactor.domain.partitions import IDENTITY_BYTES_MAX, STANDARD_FORMATS, NoSlice, TimeKind, calendar_of, format_problem
from reactor.domain.partitions.formats import FORMAT_BYTES_MAX, TWO_DIGIT_YEARS, SliceFormat, offset_text
from reactor.domain.partitions.units import unit_end, unit_start, wall_of
from reactor.domain.scripts import Partitioning
from reactor.errors import UsageError

DATED: tuple[TimeKind, ...] = ("daily", "weekly", "monthly")
DIRECTIVES = [f"%{letter}" for letter in "YymbBdjGVuwaAHIpMS"]
TEN_YEARS = (date(2021, 1, 1), date(2031, 1, 1))

texts = st.lists(st.sampled_from([*DIRECTIVES, "-", "W", "%%", "é'"]), min_size=1, max_size=7).map("".join)

enough = st.sampled_from([("%Y", "%m", "%d"), ("%y", "%j"), ("%d", "%B", "%Y"), ("%G", "%V", "%u"), ("%A", "%G", "%V"), ("%b", "%d", "%y")])
telling = st.tuples(enough, st.lists(st.sampled_from([*DIRECTIVES, "-", "W", "%%", "é'"]), max_size=4)).flatmap(
    lambda both: st.permutations([*both[0], *both[1]]).map("".join)
)


def units(kind: TimeKind) -> list[int]:
    wall, walls = unit_start(kind, wall_of(TEN_YEARS[0])), []
    while wall < wall_of(TEN_YEARS[1]):
        walls.append(wall)
        wall = unit_end(kind, wall)
    return walls


@given(st.sampled_from(DATED), telling)
@settings(max_examples=100, deadline=None)
def test_a_format_that_is_taken_is_one_to_one_over_ten_years(kind: TimeKind, text: str) -> None:
    assert format_problem(kind, text) is None
    form, walls = SliceFormat(kind, text), units(kind)
    names = [form.write(wall) for wall in walls]
    assert len(set(names)) == len(names)
    assert [form.read(name) for name in names[::37]] == [(wall, "") for wall in walls[::37]]


@given(st.sampled_from(DATED), texts)
@settings(max_examples=100, deadline=None)
def test_a_format_that_folds_is_refused_with_two_slices_that_it_folds(kind: TimeKind, text: str) -> None:
    form = SliceFormat(kind, text)
    names = [form.write(wall) for wall in units(kind)]
    assume(len(set(names)) < len(names))
    assert "one identity" in (format_problem(kind, text) or "")


@given(st.datetimes(), st.sampled_from(["%Y-%m-%dT%H", "%Y%m%d%H", "%d.%m.%Y %I %p", "%G/%V/%A/%H", "%Y %j %H:%M:%S", "%Y%Y%B%d%%%H%z"]))
def test_hours_are_read_back(moment: object, text: str) -> None:
    assert format_problem("hourly", text) is None
    wall = unit_start("hourly", wall_of(date.fromisoformat(str(moment)[:10]))) + int(str(moment)[11:13]) * 3600
    form = SliceFormat("hourly", text)
    assert form.read(form.write(wall, "-0456")) == (wall, "-0456")
    assert form.read(form.write(wall, "+123304")) == (wall, "+123304")


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("daily", "%Y-%m", "2024-01-01 and 2024-01-02 one identity, '2024-01'"),
        ("daily", "%m-%d", "2024-01-01 and 2025-01-01 one identity"),
        ("hourly", "%Y-%m-%d", "one identity"),
        ("hourly", "%Y-%m-%d %I", "2024-01-01T00 and 2024-01-01T12"),
        ("weekly", "%Y-W%V", "2024-W01 and 2025-W01"),
        ("monthly", "%G-%m", "one identity"),
        ("daily", "daily", "one identity, 'daily'"),
        ("daily", "%Y-%m-%d%z", "no place in a daily format"),
        ("daily", "%Y-%-m-%d", "format has %-, which is none of %Y"),
        ("daily", "%Y-%m-%d%", "format has %, which is none of"),
        ("daily", "%Y-%m-%d\0", "NUL"),
        ("daily", "%Y-%m-%d" + "x" * 99, f"longer than {FORMAT_BYTES_MAX} bytes"),
    ],
)
def test_what_is_refused(kind: TimeKind, text: str, said: str) -> None:
    assert said in (format_problem(kind, text) or "")
    with pytest.raises(UsageError):
        calendar_of(Partitioning(kind, format=text))


@pytest.mark.parametrize("kind", list(STANDARD_FORMATS))
def test_standard_formats_are_fine(kind: TimeKind) -> None:
    assert format_problem(kind, STANDARD_FORMATS[kind]) is None


def test_no_format_makes_an_identity_too_long() -> None:
    text = "%Y%m%d" + "%A" * ((FORMAT_BYTES_MAX - 8) // 2)
    assert format_problem("daily", text) is None
    assert len(SliceFormat("daily", text).write(wall_of(date(2026, 9, 16))).encode()) <= IDENTITY_BYTES_MAX - len("+123304")


def test_offsets() -> None:
    assert [offset_text(s) for s in (0, 19800, -12600, 45184, -41216)] == ["+0000", "+0530", "-0330", "+123304", "-112656"]


@pytest.mark.parametrize(("kind", "first"), [("daily", "690101"), ("weekly", "690106"), ("monthly", "690101")])
def test_two_digits_tell_a_hundred_years(kind: TimeKind, first: str) -> None:
    calendar = calendar_of(Partitioning(kind, format="%y%m%d"))
    assert calendar.slice_of(calendar.earliest).identity == first
    assert calendar.slice_of(calendar.end - 1).identity[:2] == str(TWO_DIGIT_YEARS[-1])[2:]
    with pytest.raises(NoSlice):
        calendar.slice_of(calendar.end)
    assert calendar.parse(first).start == calendar.earliest


def test_a_week_is_called_after_its_monday() -> None:
    calendar = calendar_of(Partitioning("weekly", format="%Y-%m-%d"))
    assert calendar.parse("2026-12-28").end == calendar.parse("2027-01-04").start
    with pytest.raises(NoSlice) as refused:
        calendar.parse("2026-12-29")
    assert refused.value.reason == "no_such_slice"


def test_a_weekday_that_the_date_does_not_have_names_nothing() -> None:
    calendar = calendar_of(Partitioning("daily", format="%a %Y-%m-%d"))
    assert calendar.parse("Sun 2026-03-01").identity == "Sun 2026-03-01"
    with pytest.raises(NoSlice) as refused:
        calendar.parse("Mon 2026-03-01")
    assert refused.value.reason == "no_such_slice"
    with pytest.raises(NoSlice, match="write Sun 2026-03-01"):
        calendar.parse("sun 2026-3-1")
