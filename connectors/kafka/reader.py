"""One aiokafka consumer as a reader of spans."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib import import_module
from time import monotonic
from types import FunctionType
from typing import Any

import pyarrow as pa
from aiokafka import AIOKafkaConsumer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import IllegalStateError, KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord, TopicPartition

from connectors.kafka import hooks
from connectors.kafka.client import KafkaConnection
from connectors.kafka.plain import PlainFetch
from connectors.kafka.spans import SPAN_BYTES_MAX, SPAN_ROWS_MAX, Fetched, cut
from reactor.errors import Outage
from reactor.ports import RawSpan

FETCH_BYTES_MAX = 32 * 1024 * 1024
"""What a broker may answer to one fetch, all its partitions together."""
PARTITION_FETCH_BYTES_MAX = 4 * 1024 * 1024
"""And of one partition; a record batch that is larger comes alone."""
FETCH_WAIT_SECONDS = 0.5
"""How long a broker holds back the answer to a fetch while there is nothing to say."""
GATHER_SECONDS, GATHER_BYTES = 0.025, 1024 * 1024
"""While records come, a broker gathers them for so long, or until there are so many, before it answers: a span costs as much as 500 records."""
GATHER_WITHIN_SECONDS = 0.1
"""They come if a fetch brought some so soon after the one before that did."""
ANSWER_SECONDS_MAX = 60.0
"""How long a group may take to assign (a rebalance has 30 s) before the consumer connects anew."""
METADATA_SECONDS = 15.0
"""How often a consumer looks for new topics and partitions."""
STOP_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)
Offer = Callable[[TopicPartition, RawSpan], Awaitable[bool]]


class OutOfLog(Exception):
    """There is no record at the next offset of this source partition. It never leaves this room."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(partition)
        self.partition = partition


class SpanReader:
    """Reads source partitions that were started, in order, each from the offset it was started at.

    aiokafka fetches ahead: per broker at most `FETCH_BYTES_MAX` wait here undecoded, and as much is on its way. A paused source partition
    is not fetched, and what was fetched of it is dropped. `next`: the offset behind the last span that was taken.
    """

    def __init__(self, connection: KafkaConnection, *, columns: bool, gathers: bool = False, **options: Any) -> None:  # noqa: ANN401 - of aiokafka
        self._connection, self._columns, self._gathers = connection, columns, gathers
        self._came_at, self._warm = 0.0, False
        self.next: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._starts_when_fetched: Mapping[TopicPartition, int] = {}
        self.consumer = AIOKafkaConsumer(
            **connection.options(),
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            fetch_max_wait_ms=int(FETCH_WAIT_SECONDS * 1000),
            fetch_max_bytes=FETCH_BYTES_MAX,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES_MAX,
            metadata_max_age_ms=int(METADATA_SECONDS * 1000),
            **options,
        )

    async def open(self) -> None:
        """Connect. Raises `Outage`."""
        fetching, connection = await self._in_columns() if self._columns else (None, hooks.Connection)
        hooks.prepare(hooks.client_of(self.consumer), connection)
        try:
            await self.consumer.start()
        except (KafkaError, OSError, TimeoutError) as error:
            raise self._connection.failure(error) from error
        if fetching is not None:
            hooks.replace_fetching(self.consumer, fetching)
        try:
            hooks.set_fetch(self.consumer, 1, FETCH_WAIT_SECONDS)
        except hooks.HookError as missing:
            self._gathers = False
            log.warning("Kafka is asked for each record at once, which takes more of the processor: %s", missing)

    async def _in_columns(self) -> tuple[FunctionType | None, type[AIOKafkaConnection]]:
        """How it fetches in columns. Imported here: numba takes 0.4 s, and a command that reads nothing should not pay for it."""
        try:
            columns = await asyncio.to_thread(import_module, "connectors.kafka.columns")
            frames = await asyncio.to_thread(import_module, "connectors.kafka.frames")
            return hooks.fetching(columns.MessageSet, columns.BatchRecords), hooks.framing(frames.Frames, frames.Answer)
        except (ImportError, hooks.HookError) as missing:
            self._columns = False
            log.warning("Kafka is read record by record, at a third of the speed: %s", missing)
            return None, hooks.Connection

    async def close(self) -> None:
        """Leave the group and disconnect."""
        self.next.clear()
        await hooks.stop_consumer(self.consumer, STOP_SECONDS_MAX)

    def start(self, partition: TopicPartition, offset: int) -> None:
        """Read this source partition from this offset on (once it is not paused), if it is still assigned."""
        if partition in self.consumer.assignment():
            self.consumer.seek(partition, offset)
            self.next[partition] = offset
            self._starts[partition] = self._starts.get(partition, 0) + 1

    def stop(self, partition: TopicPartition) -> None:
        """Read it no more."""
        self.next.pop(partition, None)
        self.hold(partition)

    def hold(self, partition: TopicPartition) -> None:
        """Do not fetch it, until it is resumed."""
        if partition in self.consumer.assignment():
            self.consumer.pause(partition)

    def release(self, partition: TopicPartition) -> None:
        """Fetch it."""
        if partition in self.consumer.assignment():
            self.consumer.resume(partition)

    async def fetch(self) -> Sequence[tuple[TopicPartition, Fetched]]:
        """What has come in, or nothing after `FETCH_WAIT_SECONDS`. Raises `OutOfLog`, `Outage`. Who gathers changes how the broker waits."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                wait_ms = int(FETCH_WAIT_SECONDS * 1000)
                got: dict[TopicPartition, list[Any]] = await self.consumer.getmany(timeout_ms=wait_ms, max_records=SPAN_ROWS_MAX)
        except OffsetOutOfRangeError as error:
            raise OutOfLog(*error.args[0]) from error
        except NoOffsetForPartitionError:
            return ()  # assigned a moment ago and not started yet: the group's own offset means nothing to us
        except Exception as error:  # where aiokafka decodes, each codec and its own walk have errors of their own
            raise self._connection.failure(error) from error
        if self._gathers:
            self._gather(came=bool(got))
        self._starts_when_fetched = dict(self._starts)
        if self._columns:
            return [(partition, fetch) for partition, fetches in got.items() for fetch in fetches]
        return [(partition, fetch) for partition, lo in self.next.items() if (fetch := await self._moved(partition, lo, got)) is not None]

    def _gather(self, *, came: bool) -> None:
        """The first record after a silence is told of at once."""
        now = monotonic()
        steadily = came and now - self._came_at < GATHER_WITHIN_SECONDS
        self._came_at = now if came else self._came_at
        hooks.set_fetch(self.consumer, *((GATHER_BYTES, GATHER_SECONDS) if steadily else (1, FETCH_WAIT_SECONDS)))

    async def _moved(
        self, partition: TopicPartition, lo: int, got: Mapping[TopicPartition, Sequence[ConsumerRecord[bytes, bytes]]]
    ) -> Fetched | None:
        """The position tells how far aiokafka has passed over markers and aborted records, of which it says nothing."""
        try:
            hi = await self.consumer.position(partition)
        except IllegalStateError:
            return None  # revoked in this moment
        return PlainFetch(lo, hi, got.get(partition, ())) if hi > lo else None

    async def hand_over(self, partition: TopicPartition, fetched: Fetched, offer: Offer, size_bytes_max: int = SPAN_BYTES_MAX) -> None:
        """Decode, in a thread unless that costs more, and offer span by span as long as they are taken; what is not taken is fetched again.

        Of the newest fetch. `size_bytes_max`: of a span. Raises `Outage`: a record batch cannot be decoded.
        """
        lo, tables = fetched.lo, fetched.tables()
        while lo < fetched.hi and self._stands_at(partition, lo):
            if fetched.small and self._warm:
                hi, decoded = self._decoded(partition, tables)
                await asyncio.sleep(0)  # nothing else here has to wait
            else:  # compiled code is loaded, or even made, at its first call
                hi, decoded = await asyncio.to_thread(self._decoded, partition, tables)
                self._warm = True
            for part_lo, part_hi, table in cut(lo, hi, decoded, size_bytes_max) if hi > lo else ():
                if not self._stands_at(partition, part_lo):
                    return  # stopped, or started again, while we decoded
                taken = await offer(partition, RawSpan(self._connection.source(*partition), part_lo, part_hi, table, table.nbytes))
                if self._stands_at(partition, part_lo):
                    if not taken:
                        self.start(partition, part_lo)
                        return
                    self.next[partition] = part_hi
            lo = hi

    def _stands_at(self, partition: TopicPartition, offset: int) -> bool:
        """And has not been started since the fetch, at the same offset maybe: then aiokafka brings all of it again, and more."""
        started_since = self._starts.get(partition) != self._starts_when_fetched.get(partition)
        return self.next.get(partition) == offset and not started_since

    def _decoded(self, partition: TopicPartition, tables: Iterator[tuple[int, pa.Table]]) -> tuple[int, pa.Table]:
        try:
            return next(tables)
        except KafkaError as error:
            where = f"{self._connection.source(*partition)} from offset {self.next.get(partition)} on"
            raise Outage(
                f"{where}: a record batch cannot be decoded: {error}.",
                hint="It is fetched again. If this repeats, the batch is damaged: `positions reset` behind it skips it.",
            ) from error
