"""The commit of a run while a part is away: it is written again, and neither fails nor leaves anything open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from reactor.errors import Outage
from reactor.state.lakes import Lakes
from reactor.testing import Record
from tests.harness import Product

pytestmark = pytest.mark.anyio


async def test_a_lock_that_cannot_be_asked_for_leaves_no_transaction_open(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Lakes.commit_lock
    away = [Outage("the lock's session was cut")]

    @asynccontextmanager
    async def commit_lock(self: Lakes, lake: str, timeout_seconds: float) -> AsyncIterator[bool]:
        if away:
            raise away.pop()
        async with asked(self, lake, timeout_seconds) as held:
            yield held

    monkeypatch.setattr(Lakes, "commit_lock", commit_lock)
    await product.start()
    product.logs.produce(product.logs.partition("in"), [Record(0, b'{"n": 1}')])
    await product.settle()
    assert [run.state for run in await product.runs()] == ["aborted", "completed"]
    assert await product.tool.rows("SELECT n FROM t") == [["1"]]
