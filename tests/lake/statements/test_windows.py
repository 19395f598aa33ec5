"""`wm_partition` calls an instant what the calendar does, in every zone; `{partition}` and the bounds are whole literals."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.partitions import MICROSECONDS, Calendar, TimeKind, calendar_of, zone_names
from reactor.domain.partitions.zones import FIRST_YEAR, year_start, zone
from reactor.domain.scripts import Partitioning
from reactor.errors import RunBlocked
from reactor.lake.statements import windows
from reactor.lake.statements.quoting import literal
from reactor.lake.statements.windows import fill_in, partition_macro

KINDS: tuple[TimeKind, ...] = ("hourly", "daily", "weekly", "monthly")
ODD = ("UTC", "America/Vancouver", "Africa/Casablanca", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe", "Africa/Monrovia", "America/Juneau")
BOUNDS = ("2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z")


@pytest.fixture(scope="module")
def cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")  # the worst that a script could have left behind
        yield connection


def names(cursor: duckdb.DuckDBPyConnection, partitioning: Partitioning, instants: Sequence[int]) -> list[str | None]:
    cursor.execute(partition_macro(partitioning))
    cursor.register("instants", pa.table({"us": pa.array(instants, pa.int64())}))
    return [name for (name,) in cursor.execute("SELECT wm_partition(make_timestamptz(us)) FROM instants").fetchall()]


def difference(cursor: duckdb.DuckDBPyConnection, partitioning: Partitioning, instants: Sequence[int]) -> list[tuple[int, str | None, str]]:
    wanted = [calendar_of(partitioning).slice_of(instant).identity for instant in instants]
    return [(at, got, right) for at, got, right in zip(instants, names(cursor, partitioning, instants), wanted, strict=True) if got != right]


def near_changes(name: str, years: range) -> list[int]:
    seconds = [c.at + late for year in years for c in zone(name).changes(year) for late in (-7200, -1800, -1, 0, 1, 1800, 7200)]
    return [second * MICROSECONDS for second in (*seconds, year_start(years[0]), year_start(years[0]) - 1)]


@pytest.mark.parametrize("name", ODD)
def test_all_changes_of_the_odd_zones(cursor: duckdb.DuckDBPyConnection, name: str) -> None:
    for kind in KINDS:
        assert difference(cursor, Partitioning(kind, name), near_changes(name, range(FIRST_YEAR + 1, 2110))) == []


@given(
    st.builds(Partitioning, kind=st.sampled_from(KINDS), zone=st.sampled_from(sorted(zone_names()))),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=50),
)
@settings(max_examples=40, deadline=None)
def test_an_instant_lies_in_the_slice_that_its_text_names(partitioning: Partitioning, places: list[float]) -> None:
    calendar = calendar_of(partitioning)
    instants = [calendar.earliest + int(place * (calendar.end - calendar.earliest - 1)) for place in places]
    with duckdb.connect(config={"threads": 1}) as connection:
        assert difference(connection, partitioning, [*instants, *near_changes(partitioning.zone, range(2020, 2030)), calendar.end - 1]) == []


@pytest.mark.long
def test_all_zones_over_ten_years(cursor: duckdb.DuckDBPyConnection) -> None:
    years = range(2020, 2031)
    unlike = {(zone(name).opening(years[0]), *map(zone(name).changes, years)): name for name in sorted(zone_names())}
    for name in unlike.values():
        assert difference(cursor, Partitioning("hourly", name), near_changes(name, years)) == [], name


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("hourly", "%Y%m%d%H"), ("hourly", "%z%Y-%m-%d %I %p"), ("hourly", "%Y %j%z%H'%%"), ("hourly", "%%z%z%z%Y%m%d%H"), ("daily", "%a %d %b %y"), ("daily", "%A, %d %B %Y, %H:%M:%S"),
        ("weekly", "%Y-%m-%d"), ("weekly", "%GW%V-%u%w"), ("monthly", "%B %Y é%%"), ("monthly", "%Y/%m/%d"),
    ],
)  # fmt: skip
def test_formats(cursor: duckdb.DuckDBPyConnection, kind: TimeKind, text: str) -> None:
    assert difference(cursor, Partitioning(kind, "America/New_York", text), near_changes("America/New_York", range(1970, 2060))) == []


def test_a_mutant_whose_stretches_begin_a_moment_late_falls(cursor: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    late, right = Partitioning("hourly", "Europe/Paris"), windows._shape

    def shape(calendar: Calendar, year: int) -> tuple[windows._Begins, ...]:
        return tuple(replace(begins, since=begins.since and begins.since + 1) for begins in right(calendar, year))

    monkeypatch.setattr(windows, "_shape", shape)
    cursor.execute(partition_macro.__wrapped__(late))
    monkeypatch.setattr(f"{__name__}.partition_macro", lambda _: "SELECT 1")
    assert difference(cursor, late, near_changes(late.zone, range(2026, 2031)))


def answer(cursor: duckdb.DuckDBPyConnection, sql: str) -> object:
    found = cursor.execute(sql).fetchone()
    assert found is not None
    return found[0]


def test_a_naive_time_is_local_time_already(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(partition_macro(Partitioning("hourly", "America/New_York")))
    assert answer(cursor, "SELECT wm_partition(TIMESTAMP '2026-11-01 01:30:00')") == "2026-11-01T01"
    assert answer(cursor, "SELECT wm_partition(TIMESTAMPTZ '2026-11-01 01:30:00-04')") == "2026-11-01T01-0400"
    assert answer(cursor, "SELECT wm_partition(DATE '2026-11-01')") == "2026-11-01T00"
    cursor.execute(partition_macro(Partitioning("hourly", "America/New_York", "%z|%Y-%m-%dT%H")))
    assert answer(cursor, "SELECT wm_partition(TIMESTAMP '2026-11-01 01:30:00')") == "|2026-11-01T01"


def test_what_has_no_slice_is_null(cursor: duckdb.DuckDBPyConnection) -> None:
    for partitioning in (Partitioning("daily"), Partitioning("hourly", "America/New_York"), Partitioning("daily", format="%y%m%d")):
        cursor.execute(partition_macro(partitioning))
        outside = ["NULL", "NULL::TIMESTAMPTZ", "TIMESTAMPTZ 'infinity'", "TIMESTAMPTZ '-infinity'", "TIMESTAMPTZ '0001-01-01 00:00:00+14'",
                   "TIMESTAMPTZ '10000-01-02 00:00:00Z'"]  # fmt: skip
        assert [answer(cursor, f"SELECT wm_partition({value})") for value in outside] == [None] * 6


def test_columns_of_any_name_go_in(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(partition_macro(Partitioning("hourly", "Europe/Berlin")))
    cursor.execute("CREATE OR REPLACE TEMP TABLE t AS SELECT TIMESTAMPTZ '2026-03-29 01:00:00Z' AS x, TIMESTAMPTZ '2026-10-25 00:00:00Z' AS k")
    assert cursor.execute("SELECT wm_partition(x), wm_partition(k) FROM t").fetchall() == [("2026-03-29T03", "2026-10-25T02+0200")]
    assert answer(cursor, "SELECT count(*) FROM t WHERE wm_partition(k) = '2026-10-25T02+0200'") == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT wm_partition(max(x)) FROM t", "SELECT (SELECT max(wm_partition(b.x)) FROM t AS b WHERE wm_partition(b.x) = wm_partition(a.x)) FROM t AS a",
        "SELECT p FROM (SELECT wm_partition(x) AS p, count(*) FROM t GROUP BY ALL)", "SELECT max(a) FROM (SELECT any_value(wm_partition(x)) OVER () AS a FROM t)",
        "SELECT wm_partition(a.x) FROM t AS a JOIN t AS b ON wm_partition(a.x) = wm_partition(b.x)",
    ],
)  # fmt: skip
def test_it_stands_wherever_a_function_does(cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
    cursor.execute(partition_macro(Partitioning("hourly", "Europe/Berlin")))
    cursor.execute("CREATE OR REPLACE TEMP TABLE t AS SELECT TIMESTAMPTZ '2026-10-25 01:00:00Z' AS x")
    assert answer(cursor, sql) == "2026-10-25T02+0100"


@pytest.mark.parametrize("partitioning", [None, Partitioning("dynamic", key=("k",))])
def test_without_a_calendar_a_call_says_so(cursor: duckdb.DuckDBPyConnection, partitioning: Partitioning | None) -> None:
    cursor.execute(partition_macro(partitioning))
    with pytest.raises(duckdb.InvalidInputException, match="not made of time"):
        answer(cursor, "SELECT wm_partition(now())")


# ------------------------------------------------------------------------------------------------------------------------- names and bounds


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
@settings(max_examples=60, deadline=None)
def test_any_identity_comes_back_from_every_place(identity: str) -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        places = ["{partition}", "'{partition}'", "'a''{partition}{partition}b'", r"E'a\n{partition}b'", "$$a'{partition}$$", "$q${partition}$q$"]
        wanted = (identity, identity, f"a'{identity}{identity}b", f"a\n{identity}b", f"a'{identity}", identity)
        assert connection.execute(fill_in(f"SELECT {', '.join(places)}", identity, None)).fetchone() == wanted


@pytest.mark.parametrize(
    "sql", ['SELECT 1 AS "{partition}"', "SELECT 1 -- it's {partition}", "SELECT /* {partition} $WM_PARTITION_START */ 1", "SELECT '$WM_PARTITION_START'", "SELECT $1"]
)
def test_what_stays_as_it_is(sql: str) -> None:
    assert fill_in(sql, "x", BOUNDS) == sql
    assert fill_in(sql, None, None) == sql


def test_bounds_are_instants(cursor: duckdb.DuckDBPyConnection) -> None:
    sql = fill_in("SELECT ($wm_partition_end - $WM_PARTITION_START)::VARCHAR || {partition} -- '\n", "O'Brien", BOUNDS)
    assert answer(cursor, sql) == "23:00:00O'Brien"
    for text in ("0000-12-31T23:06:32Z", "10000-01-01T00:00:00Z"):
        assert answer(cursor, fill_in("SELECT typeof($WM_PARTITION_START)", "x", (text, text))) == "TIMESTAMP WITH TIME ZONE"


def test_a_word_that_the_asset_does_not_have_blocks_the_run() -> None:
    for sql in ("SELECT {partition}", "SELECT 'x{partition}'"):
        with pytest.raises(RunBlocked, match="not partitioned"):
            fill_in(sql, None, None)
    with pytest.raises(RunBlocked, match="no bounds"):
        fill_in("SELECT $WM_PARTITION_START", "key", None)


def test_identities_are_literals() -> None:
    assert fill_in("{partition}", "O'Brien", None) == literal("O'Brien") == "'O''Brien'"
    assert calendar_of(Partitioning("daily", start=date(2026, 3, 1))).parse("2026-03-01").identity == "2026-03-01"
