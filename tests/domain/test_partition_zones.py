"""Zones: what the search for changes relies on holds for all of `tzdata`, and its result is what the files say."""

import os
import struct
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.partitions import zone_names
from reactor.domain.partitions.zones import FIRST_YEAR, LAST_YEAR, STEP_SECONDS, Change, ruling_year, year_of, year_start, zone
from reactor.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD = ("America/St_Johns", "Africa/Casablanca", "Pacific/Apia", "America/Juneau", "Asia/Manila", "Europe/Dublin", "Antarctica/Troll", "Asia/Gaza", "UTC")


def file_of(name: str) -> bytes:
    return (files("tzdata") / "zoneinfo" / name).read_bytes()


def listed(name: str) -> list[Change]:
    """The changes that a zone file (RFC 8536, version 2) lists one by one."""
    data = file_of(name)
    utc, std, leaps, times, types, chars = struct.unpack(">6l", data[20:44])
    at = 44 + times * 5 + types * 6 + chars + leaps * 8 + utc + std + 44
    _, _, _, times, types, chars = struct.unpack(">6l", data[at - 24 : at])
    seconds = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    offsets = [struct.unpack(">lbb", data[at + 9 * times + 6 * n : at + 9 * times + 6 * n + 6])[0] for n in range(types)]
    steps = pairwise([(0, offsets[0]), *((second, offsets[kind]) for second, kind in zip(seconds, kinds, strict=True))])
    return [Change(second, before, after) for (_, before), (second, after) in steps if before != after]


@cache
def reference(name: str) -> ZoneInfo:
    with (files("tzdata") / "zoneinfo" / name).open("rb") as data:
        return ZoneInfo.from_file(data)


def test_all_zones_keep_what_the_search_relies_on() -> None:
    for data in {file_of(name): name for name in zone_names()}.values():
        changes = listed(data)
        assert all(year_start(FIRST_YEAR) <= c.at < year_start(LAST_YEAR) for c in changes), data
        assert all(later.at - earlier.at > STEP_SECONDS for earlier, later in pairwise(changes)), data


@pytest.mark.parametrize("name", ODD)
def test_changes_are_those_of_the_file(name: str) -> None:
    wanted = listed(name)
    until = year_of(wanted[-1].at) if wanted else LAST_YEAR
    assert [c for year in range(FIRST_YEAR, until + 1) for c in zone(name).changes(year)][: len(wanted)] == wanted


@given(st.sampled_from(sorted(zone_names())), st.integers(year_start(2), year_start(9999)))
@settings(max_examples=200, deadline=None)
def test_offsets_follow_from_changes(name: str, second: int) -> None:
    year = year_of(second)
    offset = zone(name).opening(year)
    for change in zone(name).changes(year):
        offset = change.after if change.at <= second else offset
    wanted = (EPOCH + timedelta(seconds=second)).astimezone(reference(name)).utcoffset()
    assert timedelta(seconds=offset) == wanted


@given(st.integers(-5000, 20000))
def test_years(year: int) -> None:
    assert year_of(year_start(year)) == year
    assert year_of(year_start(year) - 1) == year - 1
    assert FIRST_YEAR <= ruling_year(year) <= LAST_YEAR + 29
    if 1 <= year <= 9999:
        assert year_start(year) == (datetime(year, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)


def test_an_unknown_zone_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'America/New York' is no IANA time zone\n  did you mean America/New_York"):
        zone("America/New York")
    with pytest.raises(UsageError, match="is no IANA time zone"):
        zone("../zones")


def test_zone_files_of_the_machine_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(file_of("Asia/Tokyo"))
    program = "from reactor.domain.partitions.zones import zone; print(zone('Europe/Berlin').opening(2026))"
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path), "TZ": "Asia/Tokyo"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "3600\n"
