"""A service that cannot go on ends by itself, with the reason: it neither hangs nor goes on without a part."""

import asyncio

import pytest

from reactor.testing import CRASH, EOF, Crashed, Record, Sentinel
from tests.harness import Product

pytestmark = pytest.mark.anyio
ENDS_SECONDS = 60.0


async def test_in_order_with_what_is_running(product: Product) -> None:
    """Intake ends, the run that is under way commits, and nothing is left open."""
    replica = await product.start()
    held = replica.gates.hold("write", "ducklake://main/t")
    product.logs.produce(product.logs.partition("in"), [Record(0, b"{}")])
    await held.reached()
    replica.service.stopping.set()
    held.release()
    async with asyncio.timeout(ENDS_SECONDS):
        await replica.task
    assert [run.state for run in await product.runs()] == ["completed"]
    assert await product.positions("ducklake://main/t") == {"in/0": 1}


async def why_it_ended(product: Product) -> str:
    (replica,) = product.replicas
    async with asyncio.timeout(ENDS_SECONDS):
        while replica.lives:
            await asyncio.wait([replica.task])
    assert replica.task.exception() is not None
    return str(replica.task.exception().exceptions)  # type: ignore[union-attr]


@pytest.mark.parametrize(("sentinel", "why"), [(CRASH, Crashed.__name__), (EOF, "TaskEnded")])
async def test_with_a_source_that_ends(product: Product, sentinel: Sentinel, why: str) -> None:
    await product.start()
    product.logs.produce(product.logs.partition("in"), [sentinel])
    assert why in await why_it_ended(product)


async def test_with_a_mistake_in_the_loop(product: Product) -> None:
    replica = await product.start()
    await product.settle()
    replica.service.loop.tell(lambda engine, _: [engine.limits.nothing])  # type: ignore[attr-defined]
    assert "AttributeError" in await why_it_ended(product)
    assert product.said("task_failed", "") == ["loop failed"]
