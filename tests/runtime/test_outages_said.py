"""What is waited for is said: the outage's own words, the first, second, fourth and eighth time, and no value of a row (a hint may hold one)."""

import logging

import pytest

from reactor.errors import Outage
from reactor.runtime import outages, service
from reactor.testing import Record
from tests.harness import Product
from tests.runtime.life import kept, until_said

pytestmark = pytest.mark.anyio


async def test_an_outage_is_named_and_does_not_fill_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "WAIT_MIN_SECONDS", 0.0)
    monkeypatch.setattr(outages, "WAIT_MAX_SECONDS", 0.0)
    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        if asked < 10:
            raise Outage("lake/orders/1.parquet cannot be linked back: Read-only file system", hint="of a row: 4711")
        return asked

    with caplog.at_level(logging.WARNING):
        assert await outages.until_it_answers(ask) == 10
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"waiting, nothing is lost (asked {n} times): lake/orders/1.parquet cannot be linked back: Read-only file system" for n in (1, 2, 4, 8)]


async def test_postgresql_that_is_away_under_a_run_is_waited_for(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.1)
    replica = await product.start()
    held = replica.gates.hold("write", "ducklake://main/t")
    product.logs.produce(product.logs.partition("in"), [Record(0, b'{"n": 1}')])
    await held.reached()
    lines: list[str] = []
    with kept(lines, logging.DEBUG):
        async with product.postgres_away():
            held.release()
            await until_said(lines, "state_away")
            await until_said(lines, "turn_skipped")
        await product.settle()
    assert await product.tool.rows("SELECT n FROM t") == [["1"]]
    assert "failed" not in [run.state for run in await product.runs()]
