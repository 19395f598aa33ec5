"""A lake's folder goes away and comes back (OP-11): no run fails, nothing is written elsewhere, and every row is there once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reactor.errors import Outage
from reactor.testing import Record, Step
from tests.harness import Ground, Product, opened_product
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio
ORDERS = "-- on kafka://in\n-- batch n BIGINT\n-- materialize ducklake://main/orders append\n-- debounce 1s max=1s\nSELECT n FROM batch"
TOTAL = "-- on ducklake://main/orders\n-- materialize ducklake://main/total\nSELECT count(*) AS total FROM orders"


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        product.put({"orders.sql": ORDERS, "total.sql": TOTAL})
        product.logs.make("in")
        yield product


def send(product: Product, *numbers: int) -> None:
    product.logs.produce(product.logs.partition("in"), [Record(n, b'{"n": %d}' % n) for n in numbers])


@asynccontextmanager
async def lake_away(product: Product) -> AsyncIterator[None]:
    """And nobody has made it meanwhile."""
    away = product.lake_folder.with_name("away")
    product.lake_folder.rename(away)
    yield
    assert not product.lake_folder.exists()
    away.rename(product.lake_folder)


async def waits(product: Product, event: str) -> None:
    async def said() -> bool:
        return any("is away" in text for text in product.said(event, "ducklake://main/orders"))

    await until(said, f"{event} is said", 60.0)


async def all_is_there(product: Product, count: int) -> None:
    await product.settle()
    assert await product.tool.rows("SELECT count(*), count(DISTINCT n) FROM orders") == [[str(count), str(count)]]
    assert await product.tool.rows("SELECT total FROM total") == [[str(count)]]
    assert [run.error for run in await product.runs() if run.state == "failed"] == []


async def test_before_a_run_begins(product: Product) -> None:
    replica = await product.start()
    send(product, 0)
    await product.settle()
    async with lake_away(product):
        send(product, 1)
        await waits(product, "run_deferred")
        assert "is away" in replica.service.lakes_away()["main"]
    assert replica.service.lakes_away() == {}
    await all_is_there(product, 2)


@pytest.mark.parametrize("step", ["write", "commit"])
async def test_in_the_middle_of_a_run(product: Product, step: Step) -> None:
    replica = await product.start()
    send(product, 0)
    await product.settle()
    held = replica.gates.hold(step, "ducklake://main/orders")
    send(product, 1)
    await held.reached()
    async with lake_away(product):
        held.release()
        aborted = "SELECT 1 FROM reactor.run WHERE asset = 'ducklake://main/orders' AND state = 'aborted'"

        async def given_up() -> bool:
            return bool(await product.fetch(aborted))

        await until(given_up, "the run is given up", 60.0)
    await all_is_there(product, 2)


async def test_at_the_start_an_empty_folder_is_no_lake_that_has_files(product: Product) -> None:
    await product.start()
    send(product, 0)
    await product.settle()
    await product.stop()
    away = product.lake_folder.with_name("away")
    product.lake_folder.rename(away)
    product.lake_folder.mkdir()
    with pytest.raises(Outage, match="is empty, and lake `main` has files"):
        await product.start()
    product.lake_folder.rmdir()
    away.rename(product.lake_folder)
    await product.start()
    send(product, 1)
    await all_is_there(product, 2)
