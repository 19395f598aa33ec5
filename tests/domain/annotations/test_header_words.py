"""Which lines are annotations: prose, misspelt and old words, blanks that are none."""

import pytest

from reactor.domain.annotations import HeaderReading, read_header
from reactor.domain.assets import ProjectNames

NAMES = ProjectNames(lakes=("main", "sales"), clusters=("eu",), stores=("land",))


def read(*lines: str) -> HeaderReading:
    return read_header("\n".join(lines), NAMES)


@pytest.mark.parametrize(
    "line",
    [
        "-- Orders of the shop, owned by the data team.", "-- This pipeline reads from Kafka.", "-- triggers: see wiki", "-- columns: id, v",
        "-- muted colours", "-- pipelines are described in the manual", "-- raw orders", "-- the orders", "-- bad rows", "-- two stages",
        "-- materialised views of the shop", "-- - kafka://orders", "-- by ducklake://main/orders", "-- snapshot of the orders", "-- append only",
        "-- unique_key is the id", "-- test the new tariff", "-- measures of it", "-- entry three apples", "-- used by lib", "-- ", "--", "-- é",
    ],
)
def test_prose_is_prose(line: str) -> None:
    reading = read(line)
    assert (reading.findings, reading.annotated) == ((), False)


@pytest.mark.parametrize(
    ("line", "suggestion", "refused"),
    [
        ("-- Pipeline", "pipeline", False),
        ("-- PIPELINE", "pipeline", False),
        ("-- pipelines", "pipeline", False),
        ("-- On kafka://orders", "on", False),
        ("-- onn kafka://orders", "on", False),
        ("-- no kafka://orders", "on", False),
        ("-- partitoned daily", "partitioned", True),
        ("-- materialise ducklake://main/t", "materialize", True),
        ("-- materialized ducklake://main/t", "materialize", True),
        ("-- materialise ducklake://main/t key=a, b", "materialize", True),
        ("-- tiggers all", "trigger", True),
        ("-- debouce 2s", "debounce", False),
        ("-- fresness 5m", "freshness", False),
        ("-- retries 3", None, False),
        ("-- retyr 3", "retry", False),
        ("-- tags: nightly", "tag", False),
        ("-- tga nightly", "tag", False),
        ("-- datatest unique id", "data_test", False),
        ("-- data-test unique id", "data_test", False),
        ("-- colum t <- ducklake://main/a.b", "column", False),
        ("-- mutes all", "mute", False),
        ("-- incremntal cdc=u", "incremental", True),
        ("-- macro", "macros", False),
        ("-- uses lib/x.sql", "use", False),
        ("-- on-failure x.py", "on_failure", False),
        ("-- prerun x.py", "pre_run", False),
        ("-- reads pinned", "read", True),
        ("-- bacth id BIGINT", "batch", True),
    ],
)
def test_a_misspelt_keyword_is_told_if_the_rest_has_its_form(line: str, suggestion: str | None, refused: bool) -> None:
    reading = read(line)
    assert [found.suggestion for found in reading.findings] == ([suggestion] if suggestion else [])
    assert reading.refused == refused
    assert reading.annotations == ()


@pytest.mark.parametrize(
    ("line", "today", "refused"),
    [
        ("-- snapshot ducklake://main/t", "materialize scd2 ducklake://lake/table key=…", True),
        ("-- snapshot", "materialize scd2 ducklake://lake/table key=…", True),
        ("-- unique_key id", "materialize ducklake://lake/table key=id", True),
        ("-- unique_key=a, b", "materialize ducklake://lake/table key=a,b", True),
        ("-- append", "materialize ducklake://lake/table append", True),
        ("-- materialized ducklake://main/t wrap=x", "materialize ducklake://lake/table", True),
        ("-- test unique id", "data_test unique id", False),
        ("-- test uniq  id", "data_test uniq id", False),
        ("-- test lib/x.sql min=1", "data_test lib/x.sql min=1", False),
    ],
)
def test_old_words_are_answered_with_todays(line: str, today: str, refused: bool) -> None:
    reading = read(line)
    assert [(found.range.column, found.suggestion) for found in reading.findings] == [(4, today)]
    assert reading.refused == refused


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("-- on\u00a0kafka://orders", 6), ("--\u00a0pipeline", 3), ("-- tag nightly\u00a0", 15), ("-- o\u200bn kafka://orders", 5),
        ("-- on kafka://ord\u200bers", 18), ("-- partitoned\u00a0daily", 14), ("-- test\u00a0unique id", 8), ("-- on\u3000kafka://orders", 6), ("-- pipeline\x0c", 12),
    ],
)
def test_what_only_looks_like_a_blank_is_told(line: str, column: int) -> None:
    reading = read(line)
    assert [found.range.column for found in reading.findings] == [column]
    assert f"column {column}" in reading.findings[0].message
    assert len(reading.malformed) == 1


@pytest.mark.parametrize("line", ["-- Orders of\u00a0the shop", '-- data_test accepted_values s = "a\u00a0b"', "\u00a0-- tag nightly"])
def test_prose_and_quotes_may_hold_any_blank(line: str) -> None:
    assert read(line).findings == ()
