"""What the logs of a cluster hold, asked on connections of our own: the group's may be stuck, and that is what we want to find out."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

from connectors.kafka import hooks, topics
from connectors.kafka.client import KafkaConnection
from reactor.errors import Outage
from reactor.ports import LogBounds

REQUEST_SECONDS_MAX = 10.0
"""How long one request may take before the cluster counts as away."""
READ_COMMITTED = 1
EARLIEST, LATEST = -2, -1
"""Times that stand for the log's start and, with `READ_COMMITTED`, for the last stable offset."""


@dataclass(frozen=True, slots=True)
class LogReport:
    """An answer. A partition without a leader, or that does not exist, is missing from `bounds`."""

    absent: frozenset[str]
    bounds: Mapping[TopicPartition, LogBounds]


class Logs:
    """Asks a cluster about its logs. Connects at the first question, and anew after an error."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._client: AIOKafkaClient | None = None
        self._connecting = asyncio.Lock()
        self._asked_topics: set[str] = set()

    async def report(self, partitions: Collection[TopicPartition], asked_topics: Collection[str] = ()) -> LogReport:
        """Bounds of these partitions, and which of the topics do not exist. Raises `Outage`."""
        names = {partition.topic for partition in partitions} | set(asked_topics)
        if not names:
            return LogReport(frozenset(), {})
        async with self._asking(names) as client:
            found = await topics.describe(client, names)
            starts, ends = await asyncio.gather(*(_offsets(client, found, partitions, time) for time in (EARLIEST, LATEST)))
        bounds = {
            partition: LogBounds(found.identity(partition.topic), starts[partition], max(ends[partition], starts[partition]))
            for partition in starts.keys() & ends.keys()
        }
        return LogReport(frozenset(names) - found.ids.keys(), bounds)

    async def offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        """The first offset whose record is not older, None if there is none. Raises `Outage`: nobody leads that partition."""
        async with self._asking([partition.topic]) as client:
            found = await topics.describe(client, [partition.topic])
            offsets = await _offsets(client, found, [partition], timestamp_ms)
        if partition not in offsets:
            raise Outage(f"{self._connection.source(*partition)} has no leader that could be asked for a time.", hint="It is asked again.")
        return offsets[partition] if offsets[partition] >= 0 else None

    @asynccontextmanager
    async def _asking(self, names: Collection[str]) -> AsyncIterator[AIOKafkaClient]:
        """After an error the connection is not trusted any more. A client that follows no topics would now and then ask for all."""
        self._asked_topics |= set(names)
        try:
            async with asyncio.timeout(2 * REQUEST_SECONDS_MAX):
                client = await self._connected()
                client.set_topics(self._asked_topics)
                yield client
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise self._connection.failure(error) from error

    async def _connected(self) -> AIOKafkaClient:
        async with self._connecting:
            if self._client is None:
                client = AIOKafkaClient(**self._connection.options(), request_timeout_ms=int(REQUEST_SECONDS_MAX * 1000))
                hooks.prepare(client)
                try:
                    await client.bootstrap()
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await client.close()
                    raise
                self._client = client
            return self._client

    async def close(self) -> None:
        """Release connections; a later question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


async def _offsets(
    client: AIOKafkaClient, found: topics.Topics, partitions: Collection[TopicPartition], time: int
) -> dict[TopicPartition, int]:
    """The offset at a time. A partition without a leader, or whose leader has just changed, is missing: it is asked with the next look."""
    by_leader: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for topic, number in partitions:
        if (topic, number) in found.leaders:
            by_leader[found.leaders[topic, number]][topic].append((number, time))
    requests = ((leader, OffsetRequest(-1, READ_COMMITTED, list(asked.items()))) for leader, asked in by_leader.items())
    responses = await asyncio.gather(*(client.send(leader, request) for leader, request in requests))
    return {
        TopicPartition(topic, number): offset
        for response in responses
        for topic, answers in response.topics
        for number, error_code, _, offset in answers
        if error_code == topics.NO_ERROR
    }
