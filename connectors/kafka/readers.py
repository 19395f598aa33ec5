"""Readers of one's own: assigned without a group, each on one source partition, kept while consecutive reads follow."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import anyio
from aiokafka.structs import TopicPartition

from connectors.kafka.client import KafkaConnection
from connectors.kafka.logs import Logs
from connectors.kafka.reader import OutOfLog, SpanReader
from connectors.kafka.spans import SPAN_BYTES_MAX
from reactor.errors import Outage
from reactor.ports import Clock, OutOfRange, RawSpan

READERS_MAX = 4
"""Clients at once, idle ones included; a read that finds them all busy waits for its turn."""
READER_IDLE_SECONDS = 60.0
READ_SECONDS_MAX = 30.0
"""How long a read waits for records that should be there."""


@dataclass(slots=True)
class _Idle:
    reader: SpanReader
    since: float


class Readers:
    """A pool of at most `READERS_MAX` clients by source partition and next offset."""

    def __init__(self, connection: KafkaConnection, logs: Logs, clock: Clock, *, columns: bool) -> None:
        self._connection, self._logs, self._clock, self._columns = connection, logs, clock, columns
        self._idle: dict[tuple[TopicPartition, int], _Idle] = {}
        self._turns = asyncio.Semaphore(READERS_MAX)
        self._busy = 0

    async def read(self, partition: TopicPartition, lo: int, hi: int, size_bytes_max: int) -> Sequence[RawSpan]:
        """See `Source.read`. Raises `OutOfRange`, `Outage`."""
        if lo >= hi:
            return ()
        async with self._turns:
            self._busy += 1
            try:
                reader = await self._reader(partition, lo)
                try:
                    spans = await self._read(reader, partition, hi, size_bytes_max)
                except BaseException:
                    await _close(reader)
                    raise
            finally:
                self._busy -= 1
            self._idle[partition, reader.next[partition]] = _Idle(reader, self._clock.now())
            return spans

    async def _reader(self, partition: TopicPartition, lo: int) -> SpanReader:
        idle = self._idle.pop((partition, lo), None)
        if idle is not None:
            return idle.reader
        while self._idle and len(self._idle) + self._busy > READERS_MAX:
            oldest = min(self._idle, key=lambda key: self._idle[key].since)
            await self._idle.pop(oldest).reader.close()
        reader = SpanReader(self._connection, columns=self._columns)
        try:
            await reader.open()
            reader.consumer.assign([partition])
            reader.start(partition, lo)
        except BaseException:
            await _close(reader)
            raise
        return reader

    async def _read(self, reader: SpanReader, partition: TopicPartition, hi: int, size_bytes_max: int) -> list[RawSpan]:
        """Spans up to `hi`, until they hold `size_bytes_max`; a span that passes `hi` is cut there."""
        spans: list[RawSpan] = []

        async def take(_: TopicPartition, span: RawSpan) -> bool:
            if span.lo >= hi or sum(each.size_bytes for each in spans) >= size_bytes_max:
                return False
            spans.append(span if span.hi <= hi else _below(span, hi))
            return span.hi <= hi

        source = self._connection.source(*partition)
        try:
            async with asyncio.timeout(READ_SECONDS_MAX):
                while reader.next[partition] < hi and sum(each.size_bytes for each in spans) < size_bytes_max:
                    for _, fetched in await reader.fetch():
                        await reader.hand_over(partition, fetched, take, min(size_bytes_max, SPAN_BYTES_MAX))
                    if spans and spans[-1].hi == hi:
                        break
        except OutOfLog:
            bounds = (await self._logs.report([partition])).bounds
            raise OutOfRange(source, reader.next[partition], bounds.get(partition)) from None
        except TimeoutError:
            raise Outage(f"{source}: nothing came within {READ_SECONDS_MAX:.0f} s from offset {reader.next[partition]} on.") from None
        if spans and reader.next[partition] != spans[-1].hi:
            reader.start(partition, spans[-1].hi)
        return spans

    async def close_idle(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Close what has not been used for `READER_IDLE_SECONDS`, and those of source partitions that are no longer ours."""
        since = self._clock.now() - READER_IDLE_SECONDS
        for key in [key for key, idle in self._idle.items() if idle.since < since or key[0] in partitions]:
            if key in self._idle:
                await self._idle.pop(key).reader.close()

    async def close(self) -> None:
        """Close all that are idle; a read under way closes its own when it is cancelled."""
        while self._idle:
            await self._idle.popitem()[1].reader.close()


async def _close(reader: SpanReader) -> None:
    """Of a read that failed or was cancelled: what is cut off on the way would be reported as left open."""
    with anyio.CancelScope(shield=True):
        await reader.close()


def _below(span: RawSpan, hi: int) -> RawSpan:
    offsets = span.records["offset"].to_numpy()
    records = span.records.slice(0, int(offsets.searchsorted(hi)))
    return RawSpan(span.source_partition, span.lo, hi, records, records.nbytes)
