"""Every metric moves in the life of a product, and what it shows is what happened (OB-1, OB-2)."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from reactor.runtime import service
from reactor.telemetry import Telemetry
from tests.harness import Ground, opened_product
from tests.harness.replica import Replica
from tests.parts.waiting import until
from tests.runtime.life import BROKEN, PLANTED, Life

pytestmark = pytest.mark.anyio

SERIES_OF_AN_ASSET_MAX = 50
LATER = {"joined": "DP-6", "dropped": "OB-9"}
"""Outcomes that nothing has yet, with the row that brings them."""


def families() -> list[str]:
    """The name of every metric, as it stands on the page."""
    endings = {"counter": "_total", "histogram": "_count"}
    return [family.name + endings.get(family.type, "") for family in Telemetry().registry.collect()]


@pytest.mark.parametrize("name", families())
async def test_it_moves(life: Life, name: str) -> None:
    assert life.highest(name) > 0


@pytest.mark.parametrize(("name", "label"), [
    ("events_settled_total", "outcome"), ("rows_written_total", "operation"), ("commits_refused_total", "reason"), ("decisions_total", "outcome"),
    ("events_published_total", "outcome"), ("run_duration_seconds_count", "outcome"), ("runs", "state"), ("slices", "state"), ("asset_partitions", "state"),
    ("heartbeat_timestamp_seconds", "role"),
])
async def test_each_value_of_its_label_moves(life: Life, name: str, label: str) -> None:
    values = {dict(labels)[label] for of, labels in life.seen if of == f"reactor_{name}"}
    assert values
    assert [value for value in values - LATER.keys() if not life.highest(f"reactor_{name}", **{label: value})] == []


async def test_records_are_counted_by_what_became_of_them(life: Life) -> None:
    asset = "ducklake://main/orders"
    wanted = {"committed": 6, "filtered": 1, "quarantined": 1, "tombstone": 1, "skewed": 1}
    assert {outcome: life.highest("reactor_events_settled_total", asset=asset, outcome=outcome) for outcome in wanted} == wanted


async def test_an_asset_has_few_series(life: Life) -> None:
    series = Counter(dict(labels)["asset"] for _, labels in life.seen if "asset" in dict(labels))
    assert {"ducklake://main/orders", "ducklake://main/fired"} <= series.keys()
    assert max(series.values()) <= SERIES_OF_AN_ASSET_MAX, series


async def test_no_label_is_an_asset_partition_or_a_value_of_a_row(life: Life) -> None:
    assert not [labels for _, labels in life.seen if any("2026-01" in value or PLANTED in value for _, value in labels)]


def test_the_page_is_as_prometheus_wants_it(life: Life, promtool: Path) -> None:
    checked = subprocess.run([promtool, "check", "metrics"], input=life.page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


async def test_a_replica_shows_what_it_reads(postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.1)
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        topics = ("first", "second")
        product.put({f"{topic}.sql": BROKEN.replace("main/in", f"main/{topic}").replace("main/broken", f"main/{topic}") for topic in topics})
        for topic in topics:
            product.logs.make(topic)
        one = await product.start()
        every = {f"kafka://main/{topic}" for topic in topics}

        async def one_shows_all() -> bool:
            return all(sources(one, name) == every for name in OF_A_SOURCE)

        await until(one_shows_all, "one shows both")
        two = await product.start()
        await until_joined(two)
        assert two.source is not None
        product.logs.move(product.logs.partition("second"), two.source)

        async def shared() -> bool:
            return all((sources(one, name), sources(two, name)) == ({"kafka://main/first"}, {"kafka://main/second"}) for name in OF_A_SOURCE)

        await until(shared, "each shows one")


async def until_joined(replica: Replica) -> None:
    async def reached() -> bool:
        return replica.source is not None and replica.source.reached

    await until(reached, "it reads")


OF_A_SOURCE = ("reactor_source_lag_events", "reactor_source_position_offset", "reactor_source_events")


def sources(replica: Replica, name: str) -> set[str]:
    """The topics that it shows this metric of."""
    samples = [sample for family in replica.service.telemetry.registry.collect() if family.name == name for sample in family.samples]
    return {sample.labels["source"] for sample in samples if sample.labels["source"].startswith("kafka:")}
