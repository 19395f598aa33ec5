"""Asset partitions as records, operators and backfills name them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor.domain.partitions import IDENTITY_BYTES_MAX, NoSlice, asked_partition, asked_range, dynamic_key, rfc3339, window
from reactor.domain.scripts import Partitioning
from reactor.domain.spans import UNROUTED
from reactor.errors import UsageError

NOW = 1_774_008_000.0  # 2026-03-20T12:00:00Z
DYNAMIC = Partitioning("dynamic", key=("k",))


def key_of(text: str) -> str:
    return dynamic_key(json.loads(text, parse_int=str, parse_float=str))


@pytest.mark.parametrize(
    ("text", "key"),
    [('"eu/north"', "eu/north"), ("7", "7"), ('"7"', "7"), ("1.10", "1.10"), ("-1e5", "-1e5"), ("true", "true"), ("false", "false"), ('" "', " "), ('"null"', "null")],
)
def test_keys_are_the_text_of_the_value(text: str, key: str) -> None:
    assert key_of(text) == key


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("null", "no_partition_key"), ('""', "bad_partition_key"), ("{}", "bad_partition_key"), ("[1]", "bad_partition_key"),
        (r'"a\u0000b"', "bad_partition_key"), (r'"\ud800"', "bad_partition_key"), (f'"{UNROUTED}"', "bad_partition_key"),
        (f'"{"é" * 257}"', "bad_partition_key"),
    ],
)  # fmt: skip
def test_what_cannot_name_a_slice(text: str, reason: str) -> None:
    with pytest.raises(NoSlice) as refused:
        key_of(text)
    assert refused.value.reason == reason


@given(st.text(min_size=1).filter(lambda text: text != UNROUTED))
def test_any_other_text_of_the_right_size_is_a_key(text: str) -> None:
    fits = len(text.encode(errors="replace")) <= IDENTITY_BYTES_MAX and "\0" not in text
    if fits:
        assert dynamic_key(text) == text
    else:
        with pytest.raises(NoSlice):
            dynamic_key(text)


def test_a_run_by_hand() -> None:
    assert asked_partition(None, None, NOW) == ""
    assert asked_partition(None, "", NOW) == ""
    assert asked_partition(DYNAMIC, "eu", NOW) == "eu"
    assert asked_partition(Partitioning("daily"), "2026-03-01", NOW) == "2026-03-01"
    assert asked_partition(Partitioning("hourly", "Asia/Kathmandu"), None, NOW) == "2026-03-20T17"
    with pytest.raises(UsageError, match="not partitioned"):
        asked_partition(None, "2026-03-01", NOW)
    for partitioning, key in ((DYNAMIC, None), (DYNAMIC, ""), (Partitioning("daily"), ""), (Partitioning("daily"), "2026-3-1")):
        with pytest.raises(NoSlice):
            asked_partition(partitioning, key, NOW)


def asked(partitioning: Partitioning | None, first: str, last: str) -> list[str]:
    return [s.identity for s in asked_range(partitioning, first, last)]


def test_a_range_of_dates_or_keys() -> None:
    hourly = Partitioning("hourly", "America/New_York")
    assert asked(Partitioning("daily"), "2026-02-28", "2026-03-01") == ["2026-02-28", "2026-03-01"]
    assert asked(Partitioning("weekly"), "2026-12-27", "2026-W53") == ["2026-W52", "2026-W53"]
    assert asked(hourly, "2026-11-01T01-0500", "2026-11-01T02") == ["2026-11-01T01-0500", "2026-11-01T02"]
    assert len(asked(hourly, "2026-11-01", "2026-11-01")) == 25
    assert asked(Partitioning("daily", "Pacific/Apia"), "2011-12-30", "2011-12-31") == ["2011-12-31"]
    # a key counts before a date
    assert asked(Partitioning("weekly", format="%Y-%m-%d"), "2026-03-02", "2026-03-03") == ["2026-03-02"]
    for partitioning in (None, DYNAMIC):
        with pytest.raises(UsageError):
            asked_range(partitioning, "2026-03-01", "2026-03-05")
    with pytest.raises(UsageError, match="2026-03-05 comes after 2026-03-01"):
        asked_range(Partitioning("daily"), "2026-03-05", "2026-03-01")
    for wrong, reason in (("2026-02-30", "no_such_slice"), ("yesterday", "malformed_key"), ("2026-3-1", "malformed_key")):
        with pytest.raises(NoSlice) as refused:
            asked_range(Partitioning("daily"), wrong, "2026-03-05")
        assert refused.value.reason == reason


def test_windows() -> None:
    assert window(Partitioning("daily", "America/New_York"), "2026-03-08") == ("2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z")
    assert window(Partitioning("daily"), "9999-12-31") == ("9999-12-31T00:00:00Z", "10000-01-01T00:00:00Z")
    for partitioning, identity in ((None, ""), (DYNAMIC, "eu"), (Partitioning("daily"), UNROUTED)):
        assert window(partitioning, identity) == (None, None)
    with pytest.raises(NoSlice):
        window(Partitioning("daily"), "2026-W10")


def test_instants_as_text() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00Z"
    assert rfc3339(-1) == "1969-12-31T23:59:59.999999Z"
    assert rfc3339(-62_135_596_800_000_001) == "0000-12-31T23:59:59.999999Z"
