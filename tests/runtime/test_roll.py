"""OP-8: a roll under load. The new version migrates and starts beside the old one, which goes on; every row arrives exactly once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reactor.errors import UsageError
from reactor.state import migrations
from reactor.state.migrations import Migration, shipped
from reactor.testing import Record
from tests.harness import Ground, Product, opened_product
from tests.parts.waiting import pace, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ORDERS = "-- on kafka://in\n-- batch n BIGINT\n-- materialize ducklake://main/{name} {strategy}\n-- debounce 1s max=1s\nSELECT n FROM batch"
FIRED = "-- on ducklake://main/appended\n-- materialize ducklake://main/total\nSELECT count(*) AS total FROM appended"
NEXT = Migration(len(shipped()) + 1, "add_notes", "alter table reactor.run add column note text; alter table reactor.outbox add column note text; "
                 "alter table reactor.position add column note text; alter table reactor.fence add column note text; create table reactor.note (a int)")
WAIT_SECONDS = 120.0


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        product.put({"appended.sql": ORDERS.format(name="appended", strategy="append"), "merged.sql": ORDERS.format(name="merged", strategy="key=n"),
                     "total.sql": FIRED})
        for number in range(3):
            product.logs.make("in", number)
        yield product


@asynccontextmanager
async def load(product: Product) -> AsyncIterator[list[int]]:
    """Records all the time, on three source partitions; how many went into each."""
    sent = [0, 0, 0]

    async def produce() -> None:
        while True:
            for number in range(3):
                value = b'{"n": %d}' % (sent[number] * 3 + number)
                product.logs.produce(product.logs.partition("in", number), [Record(sent[number], value)])
                sent[number] += 1
            await pace(0.2)

    producing = asyncio.create_task(produce())
    try:
        yield sent
    finally:
        producing.cancel()
        await asyncio.wait([producing])


async def completed(product: Product) -> int:
    (row,) = await product.fetch("SELECT count(*) AS n FROM reactor.run WHERE state = 'completed'")
    return int(row["n"])


async def more_runs(product: Product) -> None:
    before = await completed(product)

    async def there() -> bool:
        for replica in product.living:
            replica.raise_if_ended()
        return await completed(product) >= before + 6

    await until(there, "six runs more", WAIT_SECONDS)


async def test_the_old_version_goes_on_while_the_new_one_comes(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    old = await product.start()
    async with load(product) as sent:
        await more_runs(product)
        with monkeypatch.context() as newer:
            newer.setattr(migrations, "shipped", lambda: [*shipped(), NEXT])
            new = await product.start()
        await more_runs(product)
        assert old.lives
        assert new.lives
        with pytest.raises(UsageError, match="this version of Reactor knows"):
            await product.start()
        await old.stop()
        await more_runs(product)
    product.replicas.remove(product.replicas[-1])
    await product.settle()
    assert [run for run in await product.runs() if run.state == "failed"] == []
    for table in ("appended", "merged"):
        assert await product.tool.rows(f"SELECT count(*), count(DISTINCT n) FROM {table}") == [[str(sum(sent))] * 2]
    assert await product.tool.rows("SELECT total FROM total") == [[str(sum(sent))]]
