"""The decision log of the whole product: what ran names its run, what waits says until when, what was skipped says why."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from reactor.testing import Record
from tests.harness import Ground, Product, opened_product
from tests.harness.replica import Replica
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio
ORDERS = "-- on kafka://in\n-- batch n BIGINT\n-- materialize ducklake://main/orders append\n-- debounce 1s max=1s\nSELECT n FROM batch"
SLOW = "-- on ducklake://main/orders\n-- debounce 1h\n-- materialize ducklake://main/slow\nSELECT count(*) AS total FROM orders"
SLOW_ASSET = "ducklake://main/slow"
MUTED = "-- pipeline\n-- on ducklake://main/nobody\n-- mute ducklake://main/orders\n-- materialize ducklake://main/muted\nSELECT count(*) AS n FROM orders"
TOLD = "# on ducklake://main/orders\ndef main(): ...\n"
FOUND = """SELECT d.consumer, d.source, d.outcome, d.reason, d.hi - d.lo AS n, d.due_at - d.decided_at > interval '50 minutes' AS waits, r.state
  FROM reactor.decision d LEFT JOIN reactor.run r ON r.id = d.run_id ORDER BY d.consumer"""


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        product.put({"orders.sql": ORDERS, "slow.sql": SLOW, "muted.sql": MUTED, "told.py": TOLD})
        product.logs.make("in")
        yield product


def count(replica: Replica) -> float | None:
    labels = {"asset": SLOW_ASSET, "outcome": "dispatched", "reason": ""}
    return replica.service.telemetry.registry.get_sample_value("reactor_decisions_total", labels)


async def found(product: Product) -> list[asyncpg.Record]:
    rows = await product.fetch(FOUND)
    return [row for row in rows if row["consumer"] != "told.py" or row["state"] == "completed"]


async def test_what_ran_what_waits_and_what_was_skipped(product: Product) -> None:
    replica = await product.start()
    product.logs.produce(product.logs.partition("in"), [Record(0, b'{"n": 1}'), Record(1, b'{"n": 2}')])

    async def all_there() -> bool:
        return len(await found(product)) == 4

    await until(all_there, "all four are decided, and the program has run", 60)
    assert [tuple(row) for row in await found(product)] == [
        ("ducklake://main/muted", "outbox://prod", "skipped", "muted", 1, None, None),
        ("ducklake://main/orders", "kafka://main/in", "dispatched", "", 2, False, "completed"),
        ("ducklake://main/slow", "outbox://prod", "dispatched", "", 1, True, None),
        ("told.py", "outbox://prod", "dispatched", "", 1, False, "completed"),
    ]  # fmt: skip
    assert count(replica) == 1
    await product.kill()
    await product.time_passes()
    again = await product.start()

    async def decided_again() -> bool:
        return count(again) == 1

    await until(decided_again, "what waited waits again", 60)
    (row,) = await product.fetch("SELECT count(*) FROM reactor.decision WHERE consumer = $1", SLOW_ASSET)
    assert row[0] == 1, "decided again after a crash, it is the same decision"
