"""Orders: what is sent to Kafka, and what must have become of it."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.parts.waiting import until

DAYS = ("2026-03-01", "2026-03-02", "2026-03-03")
CUSTOMERS = 5
BURST_RECORDS, BURST_PAUSE_SECONDS = 40, 0.05
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Order:
    """A record. Which day, customer and amount it has follows from its number."""

    number: int

    @property
    def day(self) -> str:
        return DAYS[self.number % len(DAYS)]

    @property
    def customer(self) -> int:
        return self.number % CUSTOMERS

    @property
    def cents(self) -> int:
        return self.number * 7 % 10_000

    @property
    def value(self) -> bytes:
        second = self.number % 86_400
        at = f"{self.day}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
        amount = f"{self.cents // 100}.{self.cents % 100:02}"
        return json.dumps({"order_id": self.number, "customer_id": self.customer, "amount": amount, "ordered_at": at}).encode()


def totals(orders: Iterable[Order]) -> dict[tuple[str, int], tuple[int, int]]:
    """(day, customer) → how many orders, and how much in cents."""
    count: Counter[tuple[str, int]] = Counter()
    cents: Counter[tuple[str, int]] = Counter()
    for order in orders:
        count[order.day, order.customer] += 1
        cents[order.day, order.customer] += order.cents
    return {key: (n, cents[key]) for key, n in count.items()}


@dataclass(slots=True)
class OrderTopic:
    """A topic and all that was sent to it and acknowledged. `begins`: the first order of each log that it has been.

    `idempotent`: the broker tells a repeated record from a new one; the small one does not.
    """

    bootstrap_servers: str
    name: str
    partitions: int
    copies: int = 1
    idempotent: bool = True
    sent: list[Order] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)

    def make(self) -> None:
        """Make it, empty; another time it is deleted first, with all that it held."""
        asyncio.run(self._make())

    async def _make(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        await admin.start()
        try:
            if self.begins:
                await admin.delete_topics([self.name])

            async def made() -> bool:
                """The old one may still be there."""
                made: Any = await admin.create_topics([NewTopic(self.name, self.partitions, self.copies)])
                return bool(made.topic_errors[0][1] == 0)

            await until(made, f"the topic {self.name} is made", 60.0)
        finally:
            await admin.close()
        self.begins.append(len(self.sent))

    def producer(self, patience_seconds: float = PATIENCE_SECONDS) -> AIOKafkaProducer:
        """Whoever sends: what is not acknowledged within `patience_seconds` has failed."""
        return AIOKafkaProducer(
            bootstrap_servers=self.bootstrap_servers, acks="all", enable_idempotence=self.idempotent, linger_ms=5,
            request_timeout_ms=round(patience_seconds * 1000))

    def ends(self) -> Counter[str]:
        """How many orders the log of each source partition holds."""
        return Counter(str(order.number % self.partitions) for order in self.sent[self.begins[-1] :])

    def send(self, count: int) -> None:
        """So many more orders, over all source partitions."""
        asyncio.run(self._send([Order(len(self.sent) + i) for i in range(count)]))

    def send_raw(self, *values: bytes, partition: int = 0) -> None:
        """Records that are no orders."""

        async def send() -> None:
            async with self.producer() as producer:
                for value in values:
                    await producer.send_and_wait(self.name, value, partition=partition)

        asyncio.run(send())

    async def _send(self, orders: Sequence[Order]) -> None:
        async with self.producer() as producer:
            await self._burst(producer, orders)

    async def _burst(self, producer: AIOKafkaProducer, orders: Sequence[Order]) -> None:
        sending = [await producer.send(self.name, order.value, partition=order.number % self.partitions) for order in orders]
        await asyncio.gather(*sending)
        self.sent += orders


class Load:
    """`with Load(topic)`: orders keep coming, some hundred a second, until it is left. What a broker that dies has not acknowledged is repeated.

    `patience_seconds`: how long a broker may be away.
    """

    def __init__(self, topic: OrderTopic, pause_seconds: float = BURST_PAUSE_SECONDS, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._topic, self._pause_seconds, self._patience_seconds = topic, pause_seconds, patience_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._produce()))
        self._failure: BaseException | None = None

    async def _produce(self) -> None:
        try:
            async with self._topic.producer(self._patience_seconds) as producer:
                while not self._over.is_set():
                    await self._topic._burst(producer, [Order(len(self._topic.sent) + i) for i in range(BURST_RECORDS)])
                    await asyncio.to_thread(self._over.wait, self._pause_seconds)
        except BaseException as error:  # noqa: BLE001 - raised where the test waits for it
            self._failure = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure


def published(bootstrap_servers: str, topic: str) -> list[str]:
    """The ids of the CloudEvents of a topic with one partition, in order; what an aborted transaction left does not count."""
    return asyncio.run(_published(bootstrap_servers, topic))


async def _published(bootstrap_servers: str, topic: str) -> list[str]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest")
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        ids: list[str] = []
        while await consumer.position(partition) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                ids += [dict(record.headers)["ce_id"].decode() for record in records]
        return ids
    finally:
        await consumer.stop()
