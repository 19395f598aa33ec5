"""Another graph takes over while the service runs (OP-12): nothing is lost, nothing is read twice, and who is new is not late."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reactor.errors import StateForbids
from reactor.testing import Record
from tests.harness import Ground, Product, opened_product
from tests.parts.waiting import until
from tests.runtime.life import kept, words

pytestmark = pytest.mark.anyio
ORDERS = "-- on kafka://in\n-- batch n BIGINT\n-- materialize ducklake://main/orders append\n-- debounce 1s max=1s\nSELECT n FROM batch"
TOTAL = "-- on ducklake://main/orders\n-- materialize ducklake://main/{name}\nSELECT count(*) AS total FROM orders"
DAILY = "-- on kafka://in\n-- batch n BIGINT, at TIMESTAMPTZ\n-- partitioned daily event_time=$.{time}\n-- materialize ducklake://main/daily append\n-- debounce {quiet}\nSELECT n FROM batch"


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        product.logs.make("in")
        yield product


def send(product: Product, *numbers: int, topic: str = "in") -> None:
    product.logs.produce(product.logs.partition(topic), [Record(n, b'{"n": %d}' % n) for n in numbers])


async def rows(product: Product, table: str) -> list[int]:
    return sorted(int(row[0] or 0) for row in await product.tool.rows(f"SELECT n FROM {table}"))


async def test_a_new_text_runs_from_the_next_run_on_and_reads_on_where_the_old_one_was(product: Product) -> None:
    product.put({"orders.sql": ORDERS})
    await product.start()
    send(product, 0, 1)
    await product.settle()
    product.put({"orders.sql": ORDERS.replace("SELECT n FROM", "SELECT n + 100 AS n FROM")})
    lines: list[str] = []
    with kept(lines, logging.INFO):
        await product.reload()
    assert "service_reloaded" in words(lines)
    send(product, 2)
    await product.settle()
    assert await rows(product, "orders") == [0, 1, 102]


async def test_a_running_run_ends_on_the_text_that_it_began_with(product: Product) -> None:
    product.put({"orders.sql": ORDERS})
    replica = await product.start()
    held = replica.gates.hold("commit", "ducklake://main/orders")
    send(product, 0)
    await held.reached()
    product.put({"orders.sql": ORDERS.replace("SELECT n FROM", "SELECT n + 100 AS n FROM")})
    await product.reload()
    send(product, 1)
    held.release()
    await product.settle()
    assert await rows(product, "orders") == [0, 101]


async def test_a_new_topic_is_read_and_a_dropped_one_is_not(product: Product) -> None:
    product.put({"orders.sql": ORDERS})
    await product.start()
    send(product, 0)
    await product.settle()
    product.logs.make("more")
    product.put({"orders.sql": ORDERS.replace("-- batch", "-- on kafka://more\n-- batch")})
    await product.reload()
    send(product, 1, 2, topic="more")
    send(product, 1)
    await product.settle()
    assert await rows(product, "orders") == [0, 1, 1, 2]
    product.put({"orders.sql": ORDERS.replace("kafka://in", "kafka://more")})
    await product.reload()
    send(product, 2, 3)
    send(product, 3, topic="more")
    await product.settle()
    assert await rows(product, "orders") == [0, 1, 1, 2, 3]
    product.put({"orders.sql": ORDERS})
    await product.reload()
    await product.settle()
    assert await rows(product, "orders") == [0, 1, 1, 2, 2, 3, 3]


async def test_what_waited_of_a_source_that_is_dropped_is_not_given_to_the_new_text(product: Product) -> None:
    product.logs.make("more")
    product.put({"orders.sql": ORDERS.replace("debounce 1s max=1s", "debounce 1h")})
    replica = await product.start()
    await product.settle()  # what is there at the assignment has waited already
    send(product, 0)

    async def waits() -> bool:
        return await replica.service.loop.ask(lambda engine, _: any(len(lane.debouncer) for lane in engine.lanes.values()))

    await until(waits, "a slice is open")
    product.put({"orders.sql": ORDERS.replace("kafka://in", "kafka://more")})
    await product.reload()
    send(product, 7, topic="more")
    await product.settle()
    assert await rows(product, "orders") == [7]
    product.put({"orders.sql": ORDERS})
    await product.reload()
    await product.settle()
    assert await rows(product, "orders") == [0, 7]


async def test_new_scripts_are_fired_by_the_first_commit_after_the_reload_that_brings_both(product: Product) -> None:
    await product.start()
    send(product, 0)
    product.put({"orders.sql": ORDERS, "total.sql": TOTAL.format(name="total")})
    await product.reload()
    await product.settle()
    assert await product.tool.rows("SELECT total FROM total") == [["1"]]


async def test_a_script_that_is_gone_runs_no_more_and_comes_back_to_what_it_had(product: Product) -> None:
    product.put({"orders.sql": ORDERS, "total.sql": TOTAL.format(name="total")})
    replica = await product.start()
    send(product, 0)
    await product.settle()
    (product.folder / "orders.sql").unlink()
    product.put({})
    await product.reload()
    assert _series(product, "ducklake://main/orders") == set()
    send(product, 1)
    await product.settle()
    assert await rows(product, "orders") == [0]
    assert [source for _, source in replica.service.feedings if source.startswith("kafka://")] == []
    product.put({"renamed/orders_again.sql": ORDERS})
    await product.reload()
    await product.settle()
    assert await rows(product, "orders") == [0, 1]
    assert await product.tool.rows("SELECT total FROM total") == [["2"]]


async def test_a_tag_of_its_own_brings_readers_of_its_own(product: Product) -> None:
    product.put({"orders.sql": ORDERS})
    replica = await product.start()
    send(product, 0)
    await product.settle()
    product.put({"orders.sql": ORDERS.replace("-- debounce", "-- tag heavy\n-- debounce")})
    await product.reload()
    send(product, 1)
    await product.settle()
    assert {tag for tag, _ in replica.service.feedings} == {"heavy"}
    assert await rows(product, "orders") == [0, 1]


async def test_another_routing_takes_over_at_a_common_cut(product: Product) -> None:
    product.put({"daily.sql": DAILY.format(time="at", quiet="0s")})
    await product.start()

    def produce(*numbers: int) -> None:
        record = '{"n": %d, "at": "2026-03-01T10:00:00Z", "then": "2026-04-02T10:00:00Z"}'
        product.logs.produce(product.logs.partition("in"), [Record(n, (record % n).encode()) for n in numbers])

    produce(0, 1)
    await product.settle()
    product.put({"daily.sql": DAILY.format(time="at", quiet="1h")})
    await product.reload()
    produce(2)
    product.put({"daily.sql": DAILY.format(time="then", quiet="0s")})
    await product.reload()
    produce(3)
    await product.settle()
    days = {str(n): day for n, day in await product.tool.rows("SELECT n, _wm_partition FROM daily")}
    assert (days["0"], days["1"], days["3"]) == ("2026-03-01", "2026-03-01", "2026-04-02")
    assert days["2"] in {"2026-03-01", "2026-04-02"}  # whichever text it was read by
    assert len(await product.tool.rows("SELECT n FROM daily")) == 4


async def test_other_names_for_the_slices_of_a_table_refuse_the_whole(product: Product) -> None:
    product.put({"daily.sql": DAILY.format(time="at", quiet="0s")})
    await product.start()
    product.logs.produce(product.logs.partition("in"), [Record(0, b'{"n": 0, "at": "2026-03-01T10:00:00Z"}')])
    await product.settle()
    product.put({"daily.sql": DAILY.format(time="at", quiet="0s").replace("daily event", "hourly event"), "orders.sql": ORDERS})
    with pytest.raises(StateForbids, match="a table keeps the names of its slices"):
        await product.reload()
    product.logs.produce(product.logs.partition("in"), [Record(1, b'{"n": 1, "at": "2026-03-01T10:00:00Z"}')])
    await product.settle()
    assert len(await rows(product, "daily")) == 2
    assert {run.script for run in await product.runs()} == {"daily.sql"}


def _series(product: Product, asset: str) -> set[str]:
    """The metrics that say something of an asset."""
    (replica, *_) = product.living
    families = replica.service.telemetry.registry.collect()
    return {sample.name for family in families for sample in family.samples if sample.labels.get("asset") == asset}
