"""Topics of orders: filled once and found again, or fed at a rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench import orders

PARTITIONS = 4
BATCH_BYTES_MAX = 256 * 1024
"""Of a record batch of a topic that is filled; one that is fed has a batch for each tick and source partition."""
TICK_SECONDS = 0.02
UNACKNOWLEDGED_MAX = 64

Advance = Callable[[float], None]
"""Told of how many more."""


def _nobody(_: float) -> None:
    return


async def make(bootstrap_servers: str, *names: str, partitions: int = PARTITIONS) -> None:
    """Empty topics, where they are not there."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1) for name in set(names) - set(await admin.list_topics())])
    finally:
        await admin.close()


async def filled(bootstrap_servers: str, name: str, count: int, *, dirty: bool = False, advance: Advance = _nobody) -> None:
    """The topic with the orders from number 0 on; one that holds so many already stays as it is."""
    await make(bootstrap_servers, name)
    if await _held(bootstrap_servers, name) == count:
        advance(count)
        return
    async with sender(bootstrap_servers, name) as sending:
        values = orders.values(count, dirty=dirty)
        while sent := await sending.send_batch(values):
            advance(sent)


async def _held(bootstrap_servers: str, name: str) -> int:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers)
    await consumer.start()
    try:
        ends = await consumer.end_offsets([TopicPartition(name, number) for number in range(PARTITIONS)])
        return sum(ends.values())
    finally:
        await consumer.stop()


@dataclass(slots=True)
class Sent:
    """Records `[lo, hi)` of a source partition, handed to the producer at `at` (POSIX seconds)."""

    number: int
    lo: int
    hi: int
    at: float


@dataclass(slots=True)
class Sender:
    """Sends whole record batches to one source partition after the other."""

    producer: AIOKafkaProducer
    topic: str
    partitions: int
    log: list[Sent] = field(default_factory=list)
    _turn: int = 0
    _waiting: set[asyncio.Task[None]] = field(default_factory=set)

    async def send_batch(self, values: Iterator[bytes]) -> int:
        """As many as fit into a batch; how many."""
        batch, at, rows = self.producer.create_batch(), time.time(), 0
        for value in values:
            if batch.append(key=None, value=value, timestamp=int(at * 1000)) is None:
                raise ValueError("a batch holds fewer records than a chunk")
            rows += 1
            if batch.size() > BATCH_BYTES_MAX - 1024:
                break
        if not rows:
            return 0
        batch.close()
        number, self._turn = self._turn % self.partitions, self._turn + 1
        acknowledged = await self.producer.send_batch(batch, self.topic, partition=number)
        task = asyncio.create_task(self._note(acknowledged, number, rows, at))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        if len(self._waiting) > UNACKNOWLEDGED_MAX:
            await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        return rows

    async def _note(self, acknowledged: asyncio.Future, number: int, rows: int, at: float) -> None:  # type: ignore[type-arg]
        found = await acknowledged
        self.log.append(Sent(number, found.offset, found.offset + rows, at))

    async def flush(self) -> None:
        """Until all is acknowledged."""
        if self._waiting:
            await asyncio.gather(*self._waiting)

    async def feed(self, rate: float, seconds: float, numbers: Iterator[int], advance: Advance = _nobody) -> int:
        """`rate` events a second for so long, in ticks over all source partitions; how many. Late ticks are made good."""
        began_at, sent = time.monotonic(), 0
        while (elapsed := time.monotonic() - began_at) < seconds:
            owed = int(rate * elapsed) - sent
            share = max(1, owed // self.partitions)
            for _ in range(min(self.partitions, owed)):
                rows = await self.send_batch(_encoded(islice(numbers, share)))
                sent += rows
                advance(rows)
            await asyncio.sleep(TICK_SECONDS)
        await self.flush()
        return sent


def _encoded(numbers: Iterable[int]) -> Iterator[bytes]:
    return map(orders.value, numbers)


@asynccontextmanager
async def sender(bootstrap_servers: str, topic: str, partitions: int = PARTITIONS) -> AsyncIterator[Sender]:
    """Everything is acknowledged when it is left."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", max_batch_size=BATCH_BYTES_MAX, linger_ms=0)
    await producer.start()
    try:
        sending = Sender(producer, topic, partitions)
        yield sending
        await sending.flush()
    finally:
        await producer.stop()
