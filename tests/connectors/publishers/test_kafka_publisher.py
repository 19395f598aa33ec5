"""The Kafka publisher against a real Apache Kafka and the embedded broker."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import ConsumerRecord

from connectors.kafka.client import KafkaConnection
from connectors.publishers.kafka import Guarantee, KafkaPublisher
from reactor.errors import Conflict, Outage
from tests.parts.kafka import KafkaCluster

pytestmark = pytest.mark.anyio


def events(*ids: int) -> list[dict[str, object]]:
    common = {"specversion": "1.0", "partitionkey": "ducklake://main/a", "datacontenttype": "application/json"}
    return [{**common, "id": str(number), "data": {"n": number}} for number in ids]


@asynccontextmanager
async def publishing(bootstrap_servers: str, topic: str, name: str, *, best: Guarantee = Guarantee.TRANSACTIONAL) -> AsyncIterator[KafkaPublisher]:
    publisher = KafkaPublisher(name, KafkaConnection("main", bootstrap_servers), topic=topic, best=best)
    try:
        yield publisher
    finally:
        await publisher.close()


async def received(bootstrap_servers: str, topic: str, count: int) -> Sequence[ConsumerRecord[bytes, bytes]]:
    """What a reader of committed data sees from the start on."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest")
    await consumer.start()
    try:
        return [await consumer.getone() for _ in range(count)]
    finally:
        await consumer.stop()


def ids(records: Sequence[ConsumerRecord[bytes, bytes]]) -> list[int]:
    return [int(dict(record.headers)["ce_id"]) for record in records]


async def test_events_arrive_in_order_on_a_topic_that_is_made(kafka_bootstrap: str, topic: Callable[[str], str]) -> None:
    name = topic("updated")
    async with publishing(kafka_bootstrap, name, name) as publisher:
        await publisher.publish([])
        await publisher.publish(events(*range(300)))
        await publisher.publish(events(300))
        assert publisher._guarantee is Guarantee.TRANSACTIONAL
    records = await received(kafka_bootstrap, name, 301)
    assert ids(records) == list(range(301))
    assert {record.partition for record in records} == {0}
    assert (records[7].key, json.loads(records[7].value or b"")) == (b"ducklake://main/a", {"n": 7})
    assert dict(records[7].headers)["content-type"] == b"application/json"


async def test_one_that_slept_is_fenced(kafka_bootstrap: str, topic: Callable[[str], str]) -> None:
    name = topic("updated")
    async with publishing(kafka_bootstrap, name, name) as slept, publishing(kafka_bootstrap, name, name) as other:
        await slept.publish(events(1))
        await other.publish(events(2))
        with pytest.raises(Conflict, match="taken over"):
            await slept.publish(events(1))
        await other.publish(events(3))
        await slept.publish(events(4))  # it holds the lease again
    assert ids(await received(kafka_bootstrap, name, 4)) == [1, 2, 3, 4]


async def test_without_transactions_order_is_kept_all_the_same(kafka_bootstrap: str, topic: Callable[[str], str]) -> None:
    name = topic("updated")
    async with publishing(kafka_bootstrap, name, name, best=Guarantee.IDEMPOTENT) as publisher:
        await publisher.publish(events(1, 2, 3))
        assert publisher._guarantee is Guarantee.IDEMPOTENT
    assert ids(await received(kafka_bootstrap, name, 3)) == [1, 2, 3]


async def test_the_embedded_broker_gets_them_one_by_one(embedded_broker: str) -> None:
    async with publishing(embedded_broker, "publisher-updated", "p") as publisher:
        await publisher.publish(events(1, 2))
        await publisher.publish(events(3))
        assert publisher._guarantee is Guarantee.ACKNOWLEDGED
    assert ids(await received(embedded_broker, "publisher-updated", 3)) == [1, 2, 3]


async def test_a_broker_that_is_known_to_have_less_is_not_asked_for_more(embedded_broker: str, caplog: pytest.LogCaptureFixture) -> None:
    async with publishing(embedded_broker, "publisher-quiet", "p", best=Guarantee.ACKNOWLEDGED) as publisher:
        await publisher.publish(events(1))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_broker_that_is_away_is_an_outage_that_says_where() -> None:
    async with publishing("127.0.0.1:1", "t", "p") as publisher:
        with pytest.raises(Outage, match=r"Kafka cluster main \(127.0.0.1:1\)"):
            await publisher.publish(events(1))


@pytest.mark.slow
async def test_after_an_outage_the_same_events_go_out_again(own_kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.publishers.kafka.PUBLISH_SECONDS_MAX", 3.0)
    bootstrap_servers = own_kafka.bootstrap_servers
    async with publishing(bootstrap_servers, "updated", "p") as publisher:
        await publisher.publish(events(1))
        own_kafka.kill()
        for _ in range(2):
            with pytest.raises(Outage):
                await publisher.publish(events(2, 3))
        own_kafka.start()
        monkeypatch.setattr("connectors.publishers.kafka.PUBLISH_SECONDS_MAX", 60.0)
        await publisher.publish(events(2, 3))
    assert ids(await received(bootstrap_servers, "updated", 3)) == [1, 2, 3]
