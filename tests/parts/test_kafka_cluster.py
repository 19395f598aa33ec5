import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.conftest import had
from tests.parts.kafka import KafkaCluster


async def make_topic(bootstrap_servers: str, name: str, copies: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=copies)])
    finally:
        await admin.close()


async def produce(bootstrap_servers: str, name: str, values: list[bytes], transactional_id: str | None = None) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=transactional_id, acks="all")
    await producer.start()
    try:
        if transactional_id is not None:
            await producer.begin_transaction()
        for value in values:
            await producer.send_and_wait(name, value, partition=0)
        if transactional_id is not None:
            await producer.commit_transaction()
    finally:
        await producer.stop()


async def consume(bootstrap_servers: str, name: str, count: int) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False)
    await consumer.start()
    try:
        partition = TopicPartition(name, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        return [(await asyncio.wait_for(consumer.getone(), 60)).value for _ in range(count)]
    finally:
        await consumer.stop()


def test_the_shared_kafka_has_transactions(kafka_bootstrap: str, topic: Callable[[str], str]) -> None:
    async def scenario() -> None:
        await make_topic(kafka_bootstrap, topic("t"), copies=1)
        await produce(kafka_bootstrap, topic("t"), [b"1", b"2"], transactional_id=topic("writer"))
        assert await consume(kafka_bootstrap, topic("t"), 2) == [b"1", b"2"]

    asyncio.run(scenario())


def test_a_killed_broker_comes_back_with_what_it_had(own_kafka: KafkaCluster) -> None:
    bootstrap_servers = own_kafka.bootstrap_servers
    asyncio.run(make_topic(bootstrap_servers, "t", copies=1))
    asyncio.run(produce(bootstrap_servers, "t", [b"1", b"2"]))
    own_kafka.kill()
    own_kafka.start()
    assert asyncio.run(consume(bootstrap_servers, "t", 2)) == [b"1", b"2"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.kafka
def test_three_brokers_go_on_without_one_and_survive_a_restart_of_all(tmp_path: Path) -> None:
    with had(KafkaCluster(tmp_path, brokers=3)) as cluster:
        asyncio.run(make_topic(cluster.bootstrap_servers, "t", copies=3))
        cluster.kill(2)
        asyncio.run(produce(cluster.bootstrap_servers, "t", [b"1"]))
        cluster.restart()
        asyncio.run(produce(cluster.bootstrap_servers, "t", [b"2"]))
        assert asyncio.run(consume(cluster.bootstrap_servers, "t", 2)) == [b"1", b"2"]
