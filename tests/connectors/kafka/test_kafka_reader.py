"""A source partition that is started again while what was fetched before is still in our hands, as a rebalance does that gives it straight back."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.protocol.fetch import FetchRequest

from connectors.kafka import hooks
from connectors.kafka.reader import SpanReader
from connectors.kafka.spans import Fetched
from reactor.ports import RawSpan
from tests.connectors.kafka.lab import Lab
from tests.parts.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("columns", [True, False], ids=["columns", "plain"])]


class Taker:
    """Takes every span; each must begin where the one before has ended. `restarts`: starts the reader again while the first one is offered."""

    def __init__(self, reader: SpanReader, partition: TopicPartition, *, restarts: bool = False) -> None:
        self.reader, self.partition, self.restarts = reader, partition, restarts
        self.next = 0

    async def take(self, _: TopicPartition, span: RawSpan) -> bool:
        if self.restarts:
            self.restarts = False
            self.reader.start(self.partition, span.lo)
            return True
        assert span.lo == self.next
        assert span.records["offset"].to_pylist() == list(range(span.lo, span.hi))
        self.next = span.hi
        return True

    async def hand_over(self, fetched: Sequence[tuple[TopicPartition, Fetched]]) -> None:
        for partition, fetch in fetched:
            await self.reader.hand_over(partition, fetch, self.take)

    async def until_at(self, offset: int) -> None:
        async def there() -> bool:
            await self.hand_over(await self.reader.fetch())
            return self.next >= offset

        await until(there, f"all is taken up to {offset}", 60.0)


@asynccontextmanager
async def opened(lab: Lab, *, columns: bool) -> AsyncIterator[tuple[SpanReader, TopicPartition]]:
    """A reader at the start of ten records."""
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a"] * 10)
    reader, partition = SpanReader(lab.connection, columns=columns), TopicPartition(lab.topic("orders"), 0)
    await reader.open()
    try:
        reader.consumer.assign([partition])
        reader.start(partition, 0)
        yield reader, partition
    finally:
        await reader.close()


async def first_fetch(reader: SpanReader) -> Sequence[tuple[TopicPartition, Fetched]]:
    fetched: list[tuple[TopicPartition, Fetched]] = []

    async def there() -> bool:
        fetched[:] = await reader.fetch()
        return bool(fetched)

    await until(there, "something is fetched", 60.0)
    return fetched


async def start_again(lab: Lab, reader: SpanReader, partition: TopicPartition) -> None:
    """At the same offset; more than before is fetched from there."""
    reader.stop(partition)
    reader.start(partition, 0)
    await lab.produce("orders", [b"b"] * 10)
    reader.consumer.resume(partition)


async def test_what_was_fetched_before_is_not_taken_for_what_comes_then(lab: Lab, *, columns: bool) -> None:
    async with opened(lab, columns=columns) as (reader, partition):
        taker = Taker(reader, partition)
        before = await first_fetch(reader)
        await start_again(lab, reader, partition)
        await taker.hand_over(before)
        assert taker.next == 0
        await taker.until_at(20)
        await lab.produce("orders", [b"c"])
        await taker.until_at(21)


async def test_what_was_offered_while_it_was_started_again_is_read_again(lab: Lab, *, columns: bool) -> None:
    async with opened(lab, columns=columns) as (reader, partition):
        taker = Taker(reader, partition, restarts=True)
        await taker.hand_over(await first_fetch(reader))
        assert reader.next[partition] == 0
        await taker.until_at(10)


async def test_a_broker_is_asked_to_wait_as_is_said(lab: Lab, monkeypatch: pytest.MonkeyPatch, *, columns: bool) -> None:
    asked: list[tuple[int, int]] = []

    def request(wait_ms: int, bytes_min: int, *rest: Any, **named: Any) -> FetchRequest:
        asked.append((wait_ms, bytes_min))
        return FetchRequest(wait_ms, bytes_min, *rest, **named)

    monkeypatch.setattr(fetcher, "FetchRequest", request)
    async with opened(lab, columns=columns) as (reader, partition):
        taker = Taker(reader, partition)
        await taker.until_at(10)
        assert set(asked) == {(500, 1)}
        hooks.set_fetch(reader.consumer, 7, 0.123)

        async def asked_so() -> bool:
            await taker.hand_over(await reader.fetch())
            return (123, 7) in asked

        await until(asked_so, "it is asked for 7 bytes", 60.0)
