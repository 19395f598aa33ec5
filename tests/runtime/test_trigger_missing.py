"""A lake that published rows without its commit trigger: it halts, and the next start accounts for them (commit.md 6)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reactor.errors import LakeHalted
from reactor.testing import Record
from tests.harness import Ground, Product, opened_product

pytestmark = pytest.mark.anyio
ENDS_SECONDS = 90.0
ASSET = "ducklake://main/t"
SCRIPT = "-- on kafka://in\n-- batch n BIGINT\n-- debounce 1s max=1s\n-- materialize ducklake://main/t append\nSELECT n FROM batch"
TOTAL = "-- on ducklake://main/t\n-- materialize ducklake://main/total\nSELECT count(*) AS n FROM t"
GONE = "DROP TRIGGER reactor_commit ON lake_main.ducklake_snapshot_changes"


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        product.put({"t.sql": SCRIPT, "total.sql": TOTAL})
        product.logs.make("in")
        yield product


def produce(product: Product, n: int) -> None:
    product.logs.produce(product.logs.partition("in"), [Record(n, b'{"n":%d}' % n)])


async def published_without_trigger(product: Product) -> None:
    """One row is in the table, and the service has ended."""
    replica = await product.start()
    await product.settle()
    held = replica.gates.hold("commit", ASSET)
    produce(product, 0)
    await held.reached()
    await product.fetch(GONE)
    held.release()
    async with asyncio.timeout(ENDS_SECONDS):
        while replica.lives:
            await asyncio.wait([replica.task])
    assert "no commit trigger" in str(replica.task.exception().exceptions)  # type: ignore[union-attr]
    assert await product.tool.rows("SELECT n FROM t") == [["0"]]
    await product.time_passes()


@pytest.mark.parametrize("state", ["running", "aborted"])
async def test_the_next_start_accounts_for_it(product: Product, state: str) -> None:
    await published_without_trigger(product)
    await product.fetch("UPDATE reactor.run SET state = $1 WHERE state = 'running'", state)
    await product.start()
    await product.settle()
    produce(product, 1)
    await product.settle()
    assert await product.tool.rows("SELECT n FROM t ORDER BY n") == [["0"], ["1"]], "nothing lost, nothing doubled"
    assert await product.tool.rows("SELECT n FROM total") == [["2"]]
    assert await product.positions(ASSET) == {"in/0": 2}
    assert len(await product.updates(ASSET)) == 2


async def test_a_start_refuses_what_cannot_be_accounted_for(product: Product) -> None:
    await published_without_trigger(product)
    await product.fetch("UPDATE reactor.position SET last_run = gen_random_uuid() WHERE consumer = $1", ASSET)
    with pytest.raises(LakeHalted, match="without its commit trigger"):
        await product.start()
    await product.fetch("DELETE FROM reactor.run WHERE state = 'running'")
    await product.tool.execute("DELETE FROM main.t")
    await product.start()
    await product.settle()
    assert await product.tool.rows("SELECT n FROM t") == [["0"]]
