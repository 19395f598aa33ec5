"""Runs whose commit is refused, or whose lake is away, through the whole product: they are done again, and a stop does not wait for them."""

import asyncio

import pytest

from reactor.testing import Record
from tests.harness import Product
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio
ASSET = "ducklake://main/t"
STOPS_SECONDS = 20.0
"""Well below `drain_seconds`, which a run in flight may have."""


def produce(product: Product, *offsets: int) -> None:
    product.logs.produce(product.logs.partition("in"), [Record(offset, b'{"n":%d}' % offset) for offset in offsets])


async def test_what_was_staged_for_other_columns_is_staged_again(product: Product) -> None:
    replica = await product.start()
    await product.settle()
    held = replica.gates.hold("write", ASSET)
    produce(product, 0, 1)
    await held.reached()
    await product.tool.execute("ALTER TABLE main.t ADD COLUMN note VARCHAR")
    held.release()
    await product.settle()
    assert await product.tool.rows("SELECT n, note FROM main.t ORDER BY n") == [["0", None], ["1", None]]
    assert [run.state for run in await product.runs()] == ["aborted", "completed"]
    assert "columns missing in the SELECT: note" in " ".join(product.said("run_warned", ASSET))


async def test_a_lane_goes_on_while_its_last_run_is_put_away(product: Product) -> None:
    replica = await product.start()
    await product.settle()
    held = replica.gates.hold("close", ASSET)
    produce(product, 0)
    await held.reached()
    produce(product, 1)

    async def both() -> bool:
        return [run.state for run in await product.runs()] == ["completed", "completed"]

    await until(both, "the next run is completed")
    held.release()
    await product.settle()
    assert await product.tool.rows("SELECT n FROM main.t ORDER BY n") == [["0"], ["1"]]


async def test_a_lake_that_is_away_is_waited_for_and_said(product: Product) -> None:
    await product.start()
    await product.settle()
    product.refuse_writes(refused=True)
    produce(product, 0)

    async def said() -> bool:
        return bool(product.said("run_aborted", ASSET))

    await until(said, "it is said that the lake is away")
    assert "cannot be written" in product.said("run_aborted", ASSET)[0]
    product.refuse_writes(refused=False)
    await product.settle()
    assert await product.tool.rows("SELECT n FROM main.t") == [["0"]]
    assert await product.positions(ASSET) == {"in/0": 1}


async def test_a_stop_does_not_wait_for_a_lake_that_is_away(product: Product) -> None:
    await product.start()
    await product.settle()
    product.refuse_writes(refused=True)
    produce(product, 0)

    async def refused() -> bool:
        return "aborted" in [run.state for run in await product.runs()]

    await until(refused, "a write was refused")
    async with asyncio.timeout(STOPS_SECONDS):
        await product.stop()
    product.refuse_writes(refused=False)
    await product.start()
    await product.settle()
    assert await product.tool.rows("SELECT n FROM main.t") == [["0"]]
