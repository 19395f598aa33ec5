from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from reactor.cli import live
from reactor.cli.live import Collector, EndedRuns, LaneView, Rates, Totals
from reactor.domain.runs import UpstreamSnapshot
from reactor.errors import Outage
from reactor.lake.session import Instance, InstanceSettings, LakeSettings
from reactor.state import PostgresState
from reactor.telemetry import Telemetry
from tests.state.making import ASSET, Catalog, append, mark, run_committed, run_id, script, trigger

pytestmark = pytest.mark.anyio
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def state(database: str, anyio_backend: str) -> AsyncIterator[PostgresState]:  # noqa: ARG001 (async fixtures need the backend)
    state = await PostgresState.open(database, installation="local", workspace="prod")
    yield state
    await state.close()


@asynccontextmanager
async def watched(state: PostgresState, database: str) -> AsyncIterator[Catalog]:
    """A lake's catalog without DuckLake."""
    async with Catalog.made(database) as catalog:
        await state.watch_lake("main", watch_external=False)
        yield catalog


def samples_of(telemetry: Telemetry) -> Sequence[Sample]:
    return [s for family in text_string_to_metric_families(generate_latest(telemetry.registry).decode()) for s in family.samples]


async def no_metrics() -> Sequence[Sample]:
    raise Outage


async def test_each_run_is_counted_once_when_it_has_ended(state: PostgresState, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "RUNS_LIMIT", 2)
    monkeypatch.setattr(live, "OVERLAP_SECONDS", 0.0)
    async with watched(state, database) as catalog:
        ended = EndedRuns(state, LONG_AGO)
        slow = append([])
        await state.insert_run(slow)
        for n in range(5):
            await run_committed(state, catalog, append([]), [[n, 0]])
        for _ in range(2):
            await ended.look()
            assert ended.totals == Totals(rows=10, runs=5, snapshots=5)
        await run_committed(state, catalog, append([], trigger=trigger(run_id(), reason="asset")), [[3, 1]])
        await state.insert_run(broken := append([]))
        await state.fail(None, broken, "it broke", final=True)
        await catalog.commit(mark(slow, [[100, 0]]))
        for _ in range(2):
            await ended.look()
            assert ended.totals == Totals(rows=113, runs=7, snapshots=7, cascades=1)
        assert ended.last["orders.sql"].error == "it broke"


async def test_what_was_before_is_not_counted(state: PostgresState, database: str) -> None:
    async with watched(state, database) as catalog:
        await run_committed(state, catalog, append([]))
        ended = EndedRuns(state, datetime.now(UTC).replace(year=2100))
        await ended.look()
        assert (ended.totals, ended.last) == (Totals(), {})


async def test_rows_are_those_that_the_lake_counts(state: PostgresState, database: str, lake_folder: Path) -> None:
    instance = Instance(InstanceSettings(database, {"main": LakeSettings(str(lake_folder))}, "main"))
    with instance.lent("writing") as cursor:
        cursor.execute("CREATE TABLE orders AS SELECT range AS id FROM range(1000)")
        cursor.execute("CREATE TABLE empty (id INT)")
        cursor.execute("CREATE TABLE gone AS SELECT 1 AS id")
        cursor.execute("DROP TABLE gone")
        cursor.execute("CREATE SCHEMA other")
        cursor.execute("CREATE TABLE other.orders AS SELECT 1 AS id")
        for statement in (
            "DELETE FROM orders WHERE id % 7 = 0", "INSERT INTO orders SELECT range FROM range(50)", "DELETE FROM orders WHERE id < 10",
            "UPDATE orders SET id = id + 1 WHERE id > 900", "DELETE FROM orders WHERE id > 950",
            "DELETE FROM orders WHERE id >= 50", "INSERT INTO orders SELECT range FROM range(7)", "DELETE FROM orders",
        ):
            cursor.execute(statement)
            (count,) = cursor.execute("SELECT count(*) FROM orders").fetchone() or (None,)
            expected = {"ducklake://main/orders": count, "ducklake://main/empty": 0, "ducklake://main/other.orders": 1}
            assert await state.row_counts("main") == expected
    instance.retire()


async def test_a_view_of_state_and_metrics_together(state: PostgresState, database: str, lake_folder: Path) -> None:
    telemetry = Telemetry()
    telemetry.runs.labels(ASSET, "running").set(1)
    telemetry.slices.labels(ASSET, "blocked").set(2)
    telemetry.source_lag.labels("kafka://main/orders", "0").set(5)
    telemetry.source_lag.labels("kafka://main/orders", "1").set(2)
    telemetry.source_lag.labels("outbox://prod", "").set(100)

    async def scrape() -> Sequence[Sample]:
        return samples_of(telemetry)

    looks = Collector(state, ["main"], [script()], scrape, LONG_AGO)
    assert (await looks.look(0.0)).assets[0].rows is None  # nobody has made the lake yet
    instance = Instance(InstanceSettings(database, {"main": LakeSettings(str(lake_folder))}, "main"))
    await state.watch_lake("main", watch_external=False)
    with instance.lent("writing") as cursor:
        cursor.execute("CREATE TABLE orders AS SELECT 1 AS id")
        cursor.execute("CREATE TABLE _reactor_quarantine AS SELECT range AS id FROM range(3)")
    instance.retire()
    view = await looks.look(1.0)
    (asset,) = view.assets
    assert (asset.name, asset.script, asset.rows, asset.lane) == (ASSET, "orders.sql", 1, LaneView(running=True, slices_blocked=2))
    assert (view.quarantined, view.totals.quarantined, view.lag_events, len(view.sources)) == (3, 3, 7, 1)


async def test_the_newest_run_of_a_script_tells_what_fired_it(state: PostgresState, database: str) -> None:
    async with watched(state, database) as catalog:
        looks = Collector(state, [], [script()], no_metrics, LONG_AGO)  # this catalog has no files to count
        for snapshot_id in (7, 8):
            upstream = UpstreamSnapshot("ducklake://main/customers", snapshot_id)
            await run_committed(state, catalog, append([], trigger=trigger(run_id(), reason="asset", upstream_snapshots=(upstream,))))
            (asset,) = (await looks.look(0.0)).assets
            assert asset.last is not None
            assert asset.last.upstream == [{"asset": "ducklake://main/customers", "snapshot_id": snapshot_id}]
        await run_committed(state, catalog, append([], trigger=trigger(run_id(), positions=({"event_count": 5}, {"event_count": 2}))))
        (asset,) = (await looks.look(0.0)).assets
        assert asset.last is not None
        assert (asset.last.run.reason, asset.last.event_count) == ("kafka", 7)


async def test_without_metrics_the_rest_is_seen(state: PostgresState) -> None:
    view = await Collector(state, ["main"], [script()], no_metrics, LONG_AGO).look(0.0)
    assert [(asset.name, asset.lane) for asset in view.assets] == [(ASSET, None)]
    assert not view.at_rest


def test_a_rate_is_what_came_in_not_what_was_settled() -> None:
    telemetry, rates = Telemetry(), Rates()

    def looked(lag: int, position: int, now: float) -> float | None:
        telemetry.source_lag.labels("kafka://main/orders", "0").set(lag)
        telemetry.source_position.labels("kafka://main/orders", "0").set(position)
        (source,) = rates.of(samples_of(telemetry), now)
        return source.rate

    assert looked(0, 100, 0.0) is None
    assert looked(60, 100, 2.0) == 30.0
    assert looked(0, 160, 3.0) == 20.0
    assert looked(600, 160, 14.0) == pytest.approx(600 / 11.0)
    assert looked(0, 5, 15.0) is None  # the topic was made anew
