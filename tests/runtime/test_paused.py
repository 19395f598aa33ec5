"""FH-2: a paused asset gathers under load, within its share of the memory and over restarts; resumed, every row arrives exactly once."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from reactor.core.engine import Engine
from reactor.core.room import PAUSED_SHARE
from reactor.domain.spans import Consumer
from reactor.runtime.watching import glance
from reactor.state import PostgresState
from reactor.testing import Record
from tests.harness import Ground, Product, Replica, opened_product
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio
ORDERS = "-- on kafka://in\n-- batch n BIGINT\n-- materialize ducklake://main/{name} append\n-- debounce 1s max=1s\nSELECT n FROM batch"
FIRED = "-- on ducklake://main/busy\n-- materialize ducklake://main/total\nSELECT count(*) AS total FROM busy"
OPEN_BYTES_MAX = 1_000_000
STEPS, STEP_RECORDS, RECORD_BYTES = 20, 50, 2000
PAUSED, FIRED_BY = Consumer("ducklake://main/paused"), Consumer("ducklake://main/total")
WAIT_SECONDS = 120.0


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        with (product.folder / "reactor.toml").open("a") as settings:
            settings.write(f"[debounce]\nopen_bytes_max = {OPEN_BYTES_MAX}\n")
        product.put({"paused.sql": ORDERS.format(name="paused"), "busy.sql": ORDERS.format(name="busy"), "total.sql": FIRED})
        product.logs.make("in")
        yield product


@pytest.fixture
async def state(product: Product) -> AsyncIterator[PostgresState]:
    state = await PostgresState.open(product.url, installation="local", workspace="prod")
    yield state
    await state.close()


def is_paused(consumer: Consumer, engine: Engine, now: float) -> bool:
    return glance(engine, now).lanes[consumer].paused


def heard(engine: Engine, _now: float) -> int:
    """The offset behind the last update that the engine has taken."""
    return max(head for feed, head in engine.feeds.heads.items() if "outbox" in str(feed))


async def wait_until_paused(replica: Replica, consumer: Consumer, *, paused: bool) -> None:
    async def so() -> bool:
        replica.raise_if_ended()
        return paused == await replica.service.loop.ask(partial(is_paused, consumer))

    await until(so, f"{consumer} is {'paused' if paused else 'resumed'}", WAIT_SECONDS)


async def produce(product: Product, step: int) -> None:
    """A span's worth of records, and wait until the asset that is not paused has them."""
    first = step * STEP_RECORDS
    filler = "x" * RECORD_BYTES
    product.logs.produce(product.logs.partition("in"), [Record(n, f'{{"n": {n}, "filler": "{filler}"}}'.encode()) for n in range(first, first + STEP_RECORDS)])

    async def there() -> bool:
        return (await product.positions("ducklake://main/busy")).get("in/0", 0) >= first + STEP_RECORDS

    await until(there, f"the neighbour has step {step}", WAIT_SECONDS)


async def held_bytes(replica: Replica, consumer: Consumer) -> int:
    return await replica.service.loop.ask(lambda engine, _: engine.lanes[consumer].memory_bytes)


async def test_all_rows_after_a_pause_under_load(product: Product, state: PostgresState) -> None:
    replica = await product.start()
    await produce(product, 0)
    await product.settle()
    await state.pause(PAUSED, reason="", actor="test")
    await wait_until_paused(replica, PAUSED, paused=True)
    held = []
    for step in range(1, STEPS):
        if step == 3:
            await product.stop()
            replica = await product.start()
            await wait_until_paused(replica, PAUSED, paused=True)
        await produce(product, step)
        held.append(await held_bytes(replica, PAUSED))
    span_bytes = 2 * STEP_RECORDS * RECORD_BYTES
    assert 0 < max(held) <= OPEN_BYTES_MAX // PAUSED_SHARE + span_bytes < STEPS * STEP_RECORDS * RECORD_BYTES // 4
    assert await product.tool.rows("SELECT count(*) FROM paused") == [[str(STEP_RECORDS)]]
    assert len(await product.runs("paused.sql")) == 1
    await state.resume(PAUSED)
    await wait_until_paused(replica, PAUSED, paused=False)
    await product.settle()
    for table in ("paused", "busy"):
        assert await product.tool.rows(f"SELECT count(*), count(DISTINCT n), max(n) FROM {table}") == [
            [str(STEPS * STEP_RECORDS)] * 2 + [str(STEPS * STEP_RECORDS - 1)]]


async def test_what_updates_fire_gathers_into_one_run(product: Product, state: PostgresState) -> None:
    replicas = [await product.start(), await product.start()]
    await produce(product, 0)
    await product.settle()
    before = len(await product.runs("total.sql"))
    await state.pause(FIRED_BY, reason="", actor="test")
    for replica in replicas:
        await wait_until_paused(replica, FIRED_BY, paused=True)
    for step in range(1, 5):
        await produce(product, step)
    assert len(await product.runs("total.sql")) == before
    await product.kill()
    await product.time_passes()
    replica = await product.start()
    await wait_until_paused(replica, FIRED_BY, paused=True)
    await produce(product, 5)
    assert len(await product.runs("total.sql")) == before
    told = await state.outbox_next()

    async def all_heard() -> bool:
        return await replica.service.loop.ask(heard) >= told

    await until(all_heard, "all updates are taken", WAIT_SECONDS)
    await state.resume(FIRED_BY)
    await wait_until_paused(replica, FIRED_BY, paused=False)
    await product.settle()
    runs = await product.runs("total.sql")
    assert len(runs) == before + 1
    assert len({e["snapshot_id"] for e in runs[-1].trigger["events"]}) == 5
    assert await product.tool.rows("SELECT total FROM total") == [[str(6 * STEP_RECORDS)]]
