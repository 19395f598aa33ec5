"""What every publisher owes, shown by the shipped fake, by a real Apache Kafka and by the small broker, which has no transactions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaConsumer

from connectors.kafka.client import KafkaConnection
from connectors.publishers.kafka import KafkaPublisher
from reactor.errors import Outage
from reactor.ports import Publisher
from reactor.testing import MemoryPublisher

pytestmark = pytest.mark.anyio
Events = list[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Outside:
    """A publisher, and the ids that somebody outside has received, once there are so many."""

    publisher: Publisher
    received: Callable[[int], Awaitable[Sequence[str]]]


@asynccontextmanager
async def in_memory() -> AsyncIterator[Outside]:
    publisher = MemoryPublisher()

    async def received(_count: int) -> Sequence[str]:
        return [str(event["id"]) for event in publisher.received]

    yield Outside(publisher, received)


@asynccontextmanager
async def on_kafka(bootstrap_servers: str) -> AsyncIterator[Outside]:
    topic = f"contract-{uuid.uuid4().hex[:8]}"
    publisher = KafkaPublisher(topic, KafkaConnection("main", bootstrap_servers), topic=topic)

    async def received(count: int) -> Sequence[str]:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest")
        await consumer.start()
        try:
            async with asyncio.timeout(60):
                return [dict((await consumer.getone()).headers)["ce_id"].decode() for _ in range(count)]
        finally:
            await consumer.stop()

    try:
        yield Outside(publisher, received)
    finally:
        await publisher.close()


@pytest.fixture(params=["memory", "embedded_broker", "kafka_bootstrap"])
async def outside(request: pytest.FixtureRequest) -> AsyncIterator[Outside]:
    async with in_memory() if request.param == "memory" else on_kafka(request.getfixturevalue(request.param)) as made:
        yield made


def events(*numbers: int) -> Events:
    return [{"specversion": "1.0", "id": str(n), "partitionkey": "ducklake://main/a", "datacontenttype": "application/json", "data": {}} for n in numbers]


async def test_what_is_published_has_arrived_in_order_when_it_returns(outside: Outside) -> None:
    await outside.publisher.publish([])
    await outside.publisher.publish(events(*range(50)))
    await outside.publisher.publish(events(50))
    assert await outside.received(51) == [str(n) for n in range(51)]


async def test_what_is_sent_again_arrives_again(outside: Outside) -> None:
    """At least once is the caller's business: a publisher drops nothing that it knows."""
    for _ in range(2):
        await outside.publisher.publish(events(1, 2))
    assert await outside.received(4) == ["1", "2", "1", "2"]


async def test_it_publishes_again_after_it_was_closed_or_cut_off(outside: Outside) -> None:
    await outside.publisher.publish(events(1))
    await outside.publisher.close()
    await outside.publisher.close()
    await outside.publisher.publish(events(2))
    assert await outside.received(2) == ["1", "2"]


async def test_a_receiver_that_is_away_is_an_outage_and_then_taken_up_again() -> None:
    """For real brokers: `test_kafka_publisher.py` and the chaos rounds kill them."""
    publisher = MemoryPublisher(away_after=2)
    with pytest.raises(Outage):
        await publisher.publish(events(1, 2, 3))
    publisher.away_after = None
    await publisher.publish(events(1, 2, 3))
    heard = [event["id"] for event in publisher.received]
    assert list(dict.fromkeys(heard)) == ["1", "2", "3"]
    nowhere = KafkaPublisher("nowhere", KafkaConnection("main", "127.0.0.1:9"), topic="nowhere")
    with pytest.raises(Outage):
        await nowhere.publish(events(1))
    await nowhere.close()
