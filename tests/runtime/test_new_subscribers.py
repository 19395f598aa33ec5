"""A script that is new starts at the moment in which it is first loaded (DP-3), whoever reads the outbox then."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reactor.testing import Record
from tests.harness import Ground, Product, opened_product
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio
ORDERS = "-- on kafka://in\n-- batch n BIGINT\n-- materialize ducklake://main/orders append\n-- debounce 1s max=1s\nSELECT n FROM batch"
TOTAL = "-- on ducklake://main/orders\n-- materialize ducklake://main/{name}\nSELECT count(*) AS total FROM orders"

HELD = """
INSERT INTO reactor.lease VALUES ('outbox:', 'dead', clock_timestamp() + interval '1 hour')
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
"""


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        product.put({"orders.sql": ORDERS, "known.sql": TOTAL.format(name="known")})
        product.logs.make("in")
        yield product


async def orders_completed(product: Product) -> int:
    return sum(run.state == "completed" for run in await product.runs("orders.sql"))


async def test_it_is_fired_by_what_is_committed_while_a_dead_replica_still_has_the_lease(product: Product) -> None:
    partition = product.logs.partition("in")
    await product.start()
    product.logs.produce(partition, [Record(0, b'{"n": 1}')])
    await product.settle()
    await product.kill()
    await product.fetch(HELD)
    product.put({"new.sql": TOTAL.format(name="new")})
    await product.start()
    product.logs.produce(partition, [Record(1, b'{"n": 2}')])

    async def both() -> bool:
        return await orders_completed(product) == 2

    await until(both, "the second record is committed")
    await product.time_passes()
    await product.settle()
    assert await product.tool.rows("SELECT total FROM known") == [["2"]]
    assert await product.tool.rows("SELECT total FROM new") == [["2"]]
