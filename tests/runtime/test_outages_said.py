"""What is waited for is said: the outage's own words, the first, second, fourth and eighth time, and no value of a row (a hint may hold one)."""

import logging

import pytest

from reactor.errors import Outage
from reactor.runtime import outages

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
