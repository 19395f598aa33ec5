"""Topics of a real Kafka that belong to one test."""

import uuid
from collections.abc import Sequence
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from reactor.domain.spans import SourcePartition
from reactor.testing import Record


class KafkaStreams:
    """`tests.harness.streams.Streams` on a real Kafka. `prefix`: of all names, so that tests do not meet. Its topics are deleted at the end."""

    reader = None

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers, self.prefix = bootstrap_servers, f"test_{uuid.uuid4().hex[:8]}_"
        self._made: dict[str, int] = {}
        self._admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")

    async def __aenter__(self) -> Self:
        await self._admin.start()
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()
        if self._made:
            await self._admin.delete_topics(list(self._made))
        await self._admin.close()

    @property
    def settings(self) -> str:
        """See `Streams`."""
        return f'bootstrap_servers = "{self.bootstrap_servers}"\ngroup_id = "{self.prefix}group"'

    async def make(self, topic: str, partitions: int = 1) -> None:
        """See `Streams`."""
        made: Any = await self._admin.create_topics([NewTopic(topic, partitions, 1)])
        assert [error[1] for error in made.topic_errors] == [0], made
        self._made[topic] = partitions

    async def produce(self, topic: str, number: int, records: Sequence[Record]) -> None:
        """See `Streams`."""
        await self._send(self._producer, topic, number, records)

    async def transact(self, topic: str, number: int, records: Sequence[Record], *, commit: bool) -> None:
        """In a transaction of its own, whose marker takes the next offset."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, transactional_id=f"{self.prefix}{uuid.uuid4().hex[:8]}")
        await producer.start()
        try:
            await producer.begin_transaction()
            await self._send(producer, topic, number, records)
            await (producer.commit_transaction() if commit else producer.abort_transaction())
        finally:
            await producer.stop()

    async def _send(self, producer: AIOKafkaProducer, topic: str, number: int, records: Sequence[Record]) -> None:
        sent = [
            await producer.send(topic, r.value, key=r.key, headers=list(r.headers), partition=number, timestamp_ms=r.timestamp_ms) for r in records
        ]  # fmt: skip
        await producer.flush()
        assert [(await one).offset for one in sent] == [r.offset for r in records]

    def partitions(self, topic: str) -> Sequence[SourcePartition]:
        """See `Streams`."""
        return [SourcePartition(f"kafka://main/{topic}", str(number)) for number in range(self._made[topic])]
