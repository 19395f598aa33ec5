"""What the logs of a cluster hold, asked on connections of our own: the group's may be stuck, and that is what we want to find out."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

from connectors.kafka import hooks, topics
from connectors.kafka.client import KafkaConnection
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

    async def report(self, partitions: Collection[TopicPartition], asked_topics: Collection[str] = ()) -> LogReport:
        """Bounds of these partitions, and which of the topics do not exist. Raises `Outage`."""
        names = {partition.topic for partition in partitions} | set(asked_topics)
        try:
            async with asyncio.timeout(2 * REQUEST_SECONDS_MAX):
                return await self._report(partitions, names)
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise self._connection.failure(error) from error

    async def _report(self, partitions: Collection[TopicPartition], names: Collection[str]) -> LogReport:
        client = await self._connected()
        client.set_topics(names)
        found = await topics.describe(client, names)
        led = [partition for partition in partitions if tuple(partition) in found.leaders]
        starts, ends = await asyncio.gather(*(_offsets(client, found, led, time) for time in (EARLIEST, LATEST)))
        bounds = {
            partition: LogBounds(found.identity(partition.topic), starts[partition], max(ends[partition], starts[partition]))
            for partition in starts.keys() & ends.keys()
        }
        return LogReport(frozenset(names) - found.ids.keys(), bounds)

    async def _connected(self) -> AIOKafkaClient:
        async with self._connecting:
            if self._client is None:
                client = AIOKafkaClient(**self._connection.options(), request_timeout_ms=int(REQUEST_SECONDS_MAX * 1000))
                hooks.refuse_topic_creation(client)
                try:
                    await client.bootstrap()
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._client

    async def close(self) -> None:
        """Release connections; a later question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


async def _offsets(client: AIOKafkaClient, found: topics.Topics, partitions: Collection[TopicPartition], time: int) -> dict[TopicPartition, int]:
    """The offset at a time. A partition whose leader has just changed is missing: it is asked again with the next look."""
    by_leader: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for topic, number in partitions:
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
