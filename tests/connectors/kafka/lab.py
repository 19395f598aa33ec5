"""A small laboratory for the Kafka room: an intake that keeps what it is offered, and hands that make topics and records."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete

from connectors.kafka.client import KafkaConnection
from connectors.kafka.source import KafkaSource
from connectors.kafka.spans import SCHEMA
from reactor.domain.spans import SourcePartition
from reactor.ports import LogBounds, RawSpan
from tests.parts.waiting import until

CLUSTER = "lab"


class WallClock:
    def now(self) -> float:
        return time.time()


class Recorder:
    """Starts where it is told (else at the log's start), and notes every call. It fails a source that breaks the contract of spans."""

    def __init__(self, starts: Mapping[SourcePartition, int | None] | None = None) -> None:
        self.starts = dict(starts or {})
        self.known: dict[SourcePartition, LogBounds] = {}
        self.held: set[SourcePartition] = set()
        self.spans: dict[SourcePartition, list[RawSpan]] = defaultdict(list)
        self.revokes: list[frozenset[SourcePartition]] = []
        self.out_of_range_asked: list[tuple[SourcePartition, LogBounds]] = []
        self.after_gap: Callable[[LogBounds], int | None] = lambda bounds: bounds.start
        self.on_offer: Callable[[RawSpan], None] = lambda _: None
        self.on_revoke: Callable[[Collection[SourcePartition]], object] = lambda _: None
        self._next: dict[SourcePartition, int] = {}

    async def assigned(self, bounds: Mapping[SourcePartition, LogBounds]) -> Mapping[SourcePartition, int]:
        self.known |= bounds
        self.held |= bounds.keys()
        answer = {part: self._next.get(part, self.starts.get(part, bound.start)) for part, bound in bounds.items()}
        self._next |= {part: offset for part, offset in answer.items() if offset is not None}
        return {part: offset for part, offset in answer.items() if offset is not None}

    async def revoked(self, partitions: Collection[SourcePartition]) -> None:
        self.revokes.append(frozenset(partitions))
        self.held -= set(partitions)
        awaitable = self.on_revoke(partitions)
        if asyncio.iscoroutine(awaitable):
            await awaitable

    async def offer(self, span: RawSpan) -> None:
        part = span.source_partition
        assert part in self.held, f"{part} is not ours"
        assert span.lo == self._next[part] < span.hi, f"{part}: {span.lo} to {span.hi} after {self._next[part]}"
        assert span.records.schema == SCHEMA
        offsets = span.records["offset"].to_pylist()
        assert offsets == sorted(set(offsets))
        assert all(span.lo <= offset < span.hi for offset in offsets)
        self._next[part] = span.hi
        self.spans[part].append(span)
        self.on_offer(span)

    async def out_of_range(self, partition: SourcePartition, bounds: LogBounds) -> int | None:
        self.out_of_range_asked.append((partition, bounds))
        answer = self.after_gap(bounds)
        if answer is not None:
            self._next[partition] = answer
        return answer

    def hi(self, part: SourcePartition) -> int:
        return self._next.get(part, -1)

    def records(self, part: SourcePartition) -> pa.Table:
        return pa.concat_tables([SCHEMA.empty_table(), *(span.records for span in self.spans[part])]).combine_chunks()

    def column(self, part: SourcePartition, name: str) -> list[object]:
        values: list[object] = self.records(part)[name].to_pylist()
        return values

    async def until_at(self, part: SourcePartition, offset: int, seconds: float = 30.0) -> None:
        async def there() -> bool:
            return self.hi(part) >= offset

        await until(there, f"{part} is read up to {offset} (now {self.hi(part)})", seconds)


class Lab:
    """One Kafka, with topic names that are this test's own."""

    def __init__(self, bootstrap_servers: str, topic: Callable[[str], str]) -> None:
        self.bootstrap_servers, self.topic = bootstrap_servers, topic
        self.connection = KafkaConnection(CLUSTER, bootstrap_servers)

    def part(self, topic: str, number: int = 0) -> SourcePartition:
        return self.connection.source(self.topic(topic), number)

    def source(self, *topics: str, columns: bool = True, group_id: str | None = None, replica_id: str | None = None) -> KafkaSource:
        names = [self.topic(topic) for topic in topics]
        return KafkaSource(
            self.connection, group_id or self.topic("group"), names, clock=WallClock(), replica_id=replica_id, columns=columns
        )

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    async def make_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        async with self.admin() as admin:
            made: Any = await admin.create_topics([NewTopic(self.topic(topic), partitions, 1, topic_configs=dict(configs or {}))])
            assert [error[1] for error in made.topic_errors] == [0], made

    async def delete_topic(self, topic: str) -> None:
        async with self.admin() as admin:
            await admin.delete_topics([self.topic(topic)])

            async def gone() -> bool:
                return self.topic(topic) not in await admin.list_topics()

            await until(gone, f"{topic} is deleted")

    async def add_partitions(self, topic: str, total: int) -> None:
        async with self.admin() as admin:
            await admin.create_partitions({self.topic(topic): NewPartitions(total)})

    async def delete_records(self, topic: str, before_offset: int) -> None:
        async with self.admin() as admin:
            await admin.delete_records({TopicPartition(self.topic(topic), 0): RecordsToDelete(before_offset)})

    async def group_offset(self, topic: str, number: int = 0) -> int:
        """What the group has committed, -1: nothing."""
        async with self.admin() as admin:
            partition = TopicPartition(self.topic(topic), number)
            offsets = await admin.list_consumer_group_offsets(self.topic("group"), partitions=[partition])
            return int(offsets[partition].offset)

    @asynccontextmanager
    async def producer(self, **options: object) -> AsyncIterator[AIOKafkaProducer]:
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, acks="all", **options)
        await producer.start()
        try:
            yield producer
        finally:
            await producer.stop()

    async def produce(self, topic: str, values: Sequence[bytes | None], partition: int = 0, **options: object) -> int:
        """Returns the offset behind the last one."""
        async with self.producer(**options) as producer:
            return await self._send(producer, topic, values, partition)

    async def transact(self, topic: str, values: Sequence[bytes | None], *, commit: bool) -> int:
        """In a transaction of its own; returns the offset of its marker."""
        async with self.producer(transactional_id=self.topic(f"txn-{commit}")) as producer:
            await producer.begin_transaction()
            behind = await self._send(producer, topic, values, 0)
            await (producer.commit_transaction() if commit else producer.abort_transaction())
            return behind

    async def _send(self, producer: AIOKafkaProducer, topic: str, values: Sequence[bytes | None], partition: int) -> int:
        name = self.topic(topic)
        sent = [await producer.send(name, value, key=b"%d" % number, partition=partition) for number, value in enumerate(values)]
        await producer.flush()
        return int((await sent[-1]).offset) + 1


@asynccontextmanager
async def reading(source: KafkaSource, intake: Recorder) -> AsyncIterator[None]:
    """The source runs; what ends it early fails the test."""
    task = asyncio.create_task(source.run(intake))
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def reads_a_topic_that_is_made_later(lab: Lab) -> None:
    """A source that runs is told of a topic that is not there yet."""
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a"])
    intake = Recorder()
    source = lab.source("orders")
    async with reading(source, intake):
        await intake.until_at(lab.part("orders"), 1)
        await source.subscribe([lab.topic("orders"), lab.topic("later")])

        async def missed() -> bool:
            return lab.topic("later") in source.trouble and lab.part("orders") in intake.held

        await until(missed, "it is waited for")
        await lab.make_topic("later")
        await lab.produce("later", [b"b"])
        await intake.until_at(lab.part("later"), 1)
        assert source.trouble == ""
    assert intake.column(lab.part("later"), "value") == [b"b"]
