from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor.core.router import FAN_OUT_MAX, Skip, targets
from reactor.domain.events import AssetUpdated
from reactor.domain.partitions import calendar_of
from reactor.domain.scripts import Edge, Header, Partitioning, PartitionKind, Script, ScriptPath

HOURLY, DAILY, MONTHLY, DYNAMIC = Partitioning("hourly"), Partitioning("daily"), Partitioning("monthly"), Partitioning("dynamic", key=("k",))
COMMITTED_AT = 1_772_366_400.0
"""2026-03-01T12:00:00Z."""


def routed(own: Partitioning | None, producer: Partitioning | None, partition: str, at: float = COMMITTED_AT) -> tuple[str, ...] | Skip:
    edge = Edge("asset", "ducklake://main/src")
    script = Script(ScriptPath("x.sql"), "sql", "", Header(partitioned=own, edges=(edge,)), edges=(edge,))
    return targets(script, own, AssetUpdated(0, "e", edge.uri, partition, 1, "main", at), producer)


@pytest.mark.parametrize(("own", "producer", "partition", "found"), [
    (DAILY, DAILY, "2026-03-01", ("2026-03-01",)),
    (DAILY, HOURLY, "2026-03-01T23", ("2026-03-01",)),
    (None, DAILY, "2026-03-01", ("",)),
    (None, None, "", ("",)),
    (DAILY, None, "", ("2026-03-01",)),
    (DYNAMIC, DYNAMIC, "eu/north", ("eu/north",)),
    (DYNAMIC, None, "", Skip("fan_out")),
    (Partitioning("daily", "America/New_York"), HOURLY, "2026-03-01T03", ("2026-02-28",)),
])  # fmt: skip
def test_grains(own: Partitioning | None, producer: Partitioning | None, partition: str, found: object) -> None:
    assert routed(own, producer, partition) == found


def test_a_coarser_slice_fans_out_to_all_inside() -> None:
    found = routed(HOURLY, DAILY, "2026-03-01")
    assert isinstance(found, tuple)
    assert (len(found), found[0], found[-1]) == (24, "2026-03-01T00", "2026-03-01T23")


def test_what_lies_before_the_start_is_skipped() -> None:
    late = Partitioning("daily", start=date(2026, 4, 1))
    assert routed(late, HOURLY, "2026-03-01T01") == Skip("before_start")
    assert routed(late, None, "") == Skip("before_start")


def test_fan_out_has_a_limit() -> None:
    assert FAN_OUT_MAX == 1000
    assert isinstance(routed(HOURLY, MONTHLY, "2026-03"), tuple)


KINDS: list[PartitionKind] = ["hourly", "daily", "weekly", "monthly"]


@given(st.sampled_from(KINDS), st.sampled_from(KINDS), st.integers(0, 4_000_000_000), st.sampled_from(["UTC", "Europe/Prague", "America/New_York"]))
def test_targets_hold_the_slice_and_are_always_the_same(mine: PartitionKind, its: PartitionKind, second: int, zone: str) -> None:
    own, producer = Partitioning(mine, zone), Partitioning(its, zone)
    source = calendar_of(producer).slice_of(second * 1_000_000)
    found = routed(own, producer, source.identity)
    assert isinstance(found, tuple)
    assert found == routed(own, producer, source.identity)
    slices = [calendar_of(own).parse(d) for d in found]
    assert slices[0].start <= source.start
    assert slices[-1].end >= source.end
    assert all(a.end == b.start for a, b in pairwise(slices))
