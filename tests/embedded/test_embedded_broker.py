import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from reactor.embedded import EmbeddedBroker
from reactor.embedded.broker import speaks_kafka

pytestmark = pytest.mark.broker
TOPIC = "orders"


async def make_topic(bootstrap_servers: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()


async def cluster_id(bootstrap_servers: str) -> str:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        return str((await admin.describe_cluster())["cluster_id"])
    finally:
        await admin.close()


def test_what_is_produced_a_group_consumes_with_headers_and_tombstones(tmp_path: Path) -> None:
    async def scenario(bootstrap_servers: str) -> None:
        await make_topic(bootstrap_servers)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
        await producer.start()
        try:
            await producer.send_and_wait(TOPIC, b"one", key=b"k", headers=[("h", b"1"), ("h", b"2")])
            await producer.send_and_wait(TOPIC, None, key=b"k")
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            TOPIC, bootstrap_servers=bootstrap_servers, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            records = [await asyncio.wait_for(consumer.getone(), 30) for _ in range(2)]
            await consumer.commit()
        finally:
            await consumer.stop()
        assert [(record.offset, record.key, record.value, record.headers) for record in records] == [
            (0, b"k", b"one", (("h", b"1"), ("h", b"2"))),
            (1, b"k", None, ()),
        ]

    with EmbeddedBroker(tmp_path / "broker") as bootstrap_servers:
        asyncio.run(scenario(bootstrap_servers))


def test_each_start_is_a_new_cluster_on_the_same_port(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        with EmbeddedBroker(tmp_path / "broker") as bootstrap_servers:
            ids.append((bootstrap_servers, asyncio.run(cluster_id(bootstrap_servers))))
    assert ids[0][0] == ids[1][0]
    assert ids[0][1] != ids[1][1]


def test_it_tells_when_it_has_ended_by_itself(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "broker")
    with broker as bootstrap_servers:
        assert broker.ended() is None
        assert speaks_kafka(int(bootstrap_servers.rpartition(":")[2]))
    assert broker.ended() is None
    assert not speaks_kafka(int(bootstrap_servers.rpartition(":")[2]))
