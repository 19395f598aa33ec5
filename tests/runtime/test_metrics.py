"""Every metric moves in the life of a product, and what it shows is what happened (OB-1, OB-2)."""

import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from reactor.domain.spans import Consumer
from reactor.errors import Conflict, Outage
from reactor.runtime import service
from reactor.state import PostgresState
from reactor.telemetry import Telemetry
from reactor.testing import Record
from tests.harness import Ground, Product, opened_product
from tests.harness.replica import Replica
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio

SERIES_OF_AN_ASSET_MAX = 50
WAIT_SECONDS = 90.0
LATER = {"joined": "DP-6", "dropped": "OB-9"}
"""Outcomes that nothing has yet, with the row that brings them."""

ORDERS = """-- on kafka://main/in
-- batch id BIGINT, made TIMESTAMPTZ
-- partitioned daily event_time=$.made
-- debounce 1s
-- materialize ducklake://main/orders append
SELECT id, made FROM batch WHERE id >= 0"""
TOTALS = "-- on ducklake://main/orders\n-- materialize ducklake://main/totals\nSELECT count(*) AS orders FROM orders"
CLOCK = "-- materialize ducklake://main/clock\nSELECT now() AS seen"
FIRED = "-- on ducklake://main/clock\n-- partitioned daily\n-- materialize ducklake://main/fired\nSELECT 1 AS one"
BROKEN = "-- on kafka://main/in\n-- batch id BIGINT\n-- debounce 1s\n-- materialize ducklake://main/broken append\nSELECT error('no') AS id FROM batch"
HALF = """-- on kafka://main/in
-- batch id BIGINT, made TIMESTAMPTZ
-- partitioned daily event_time=$.made
-- retry 5 1h
-- debounce 1s
-- materialize ducklake://main/half key=id
SELECT CASE WHEN {partition} = '2026-01-01' THEN error('no') ELSE id END AS id FROM batch"""
PUBLISHER = '\n[publishers.events]\nkind = "kafka"\ntopic = "out"\n'

Labels = frozenset[tuple[str, str]]


@dataclass
class Told:
    """A publisher that is away for its first call."""

    calls: int = 0

    async def publish(self, _events: Sequence[Mapping[str, object]]) -> None:
        self.calls += 1
        if self.calls == 1:
            raise Outage("away")

    async def close(self) -> None:
        """Nothing is held."""


@dataclass
class Life:
    """What replicas have shown: the highest value of each series. `page`: the last one."""

    seen: dict[tuple[str, Labels], float] = field(default_factory=dict)
    page: bytes = b""

    def look(self, replica: Replica) -> None:
        registry = replica.service.telemetry.registry
        for sample in (sample for family in registry.collect() for sample in family.samples):
            key = (sample.name, frozenset(sample.labels.items()))
            self.seen[key] = max(self.seen.get(key, 0.0), sample.value)
        self.page = generate_latest(registry)

    def highest(self, name: str, **labels: str) -> float:
        """Of all series that have these labels."""
        return max((value for (of, has), value in self.seen.items() if of == name and labels.items() <= set(has)), default=0.0)

    async def until(self, replica: Replica, name: str, value: float = 1, **labels: str) -> None:
        """It has been as high as this."""

        async def moved() -> bool:
            self.look(replica)
            return self.highest(name, **labels) >= value

        await until(moved, f"{name} {labels} is {value}", WAIT_SECONDS)


def produce(product: Product, *records: Record) -> None:
    product.logs.produce(product.logs.partition("in"), records)


def record(offset: int, day: str = "2026-01-02", number: int | None = None) -> Record:
    return Record(offset, b'{"id":%d,"made":"%sT10:00:00Z"}' % (offset if number is None else number, day.encode()))


@pytest.fixture(scope="module")
async def life(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Life]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "LOOK_SECONDS", 0.1)
        patch.setattr(service, "TABLES_SECONDS", 0.1)
        async with opened_product(Ground(postgres_server, tmp_path_factory.mktemp("metrics"))) as product:
            toml = product.folder / "reactor.toml"
            toml.write_text(toml.read_text() + PUBLISHER)
            scripts = {"orders": ORDERS, "totals": TOTALS, "clock": CLOCK, "fired": FIRED, "broken": BROKEN, "half": HALF}
            product.put({f"{name}.sql": text for name, text in scripts.items()})
            product.logs.make("in")
            lived = Life()
            await _live(product, lived)
            yield lived


async def _live(product: Product, life: Life) -> None:
    replica = await product.start()
    (publishing,) = replica.service.publishers
    publishing.publisher = Told()
    replica.gates.fail("write", "ducklake://main/orders", Conflict("another one was first"))
    held = replica.gates.hold("stage", "ducklake://main/orders")
    produce(product, record(0), record(1, "2026-01-01"), Record(2, b"no json"), Record(3, None), record(4, number=-1), record(5, "2200-01-01"))
    await held.reached()
    produce(product, record(6))
    for name, state in (("runs", "running"), ("runs", "queued"), ("slices", "due"), ("slices", "blocked"), ("slices", "open")):
        await life.until(replica, f"reactor_{name}", state=state)
    await life.until(replica, "reactor_source_lag_events", 7, source="kafka://main/in")
    held.release()
    await life.until(replica, "reactor_events_published_total", outcome="failed")
    await life.until(replica, "reactor_events_published_total", outcome="sent")
    await _refuse_a_token(product, replica, life)
    await replica.service.state.request_run(script="clock.sql", partition="", actor="test", cascade=False)
    produce(product, record(8))
    await life.until(replica, "reactor_events_settled_total", 6, asset="ducklake://main/orders", outcome="committed")
    await life.until(replica, "reactor_rows_written_total", asset="ducklake://main/totals", operation="delete")
    await life.until(replica, "reactor_decisions_total", outcome="skipped", reason="no_cascade")
    stored = replica.service.state
    assert isinstance(stored, PostgresState)
    await stored.pause(Consumer("ducklake://main/clock"), reason="shown", actor="test")
    await life.until(replica, "reactor_asset_paused")
    await life.until(replica, "reactor_asset_partitions", state="failed")
    await life.until(replica, "reactor_heartbeat_timestamp_seconds", role="outbox")
    await product.stop()
    life.look(replica)
    again = await product.start()
    await life.until(again, "reactor_events_settled_total", outcome="duplicate")
    await product.stop()


async def _refuse_a_token(product: Product, replica: Replica, life: Life) -> None:
    """The total is refused once, and then written; its slice is seen to be at work meanwhile."""
    await life.until(replica, "reactor_rows_written_total", asset="ducklake://main/totals")
    held = replica.gates.hold("commit", "ducklake://main/totals")
    produce(product, record(7))
    await held.reached()
    await life.until(replica, "reactor_asset_partitions", asset="ducklake://main/totals", state="running")
    await product.fetch("UPDATE reactor.materialized_partition SET last_run = gen_random_uuid() WHERE asset = 'ducklake://main/totals'")
    held.release()
    await life.until(replica, "reactor_commits_refused_total", reason="token")


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


async def test_no_label_is_an_asset_partition_or_a_key(life: Life) -> None:
    assert not [labels for _, labels in life.seen if any("2026-01" in value for _, value in labels)]


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
