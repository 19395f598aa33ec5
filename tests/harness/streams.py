"""Where records come from: scripted logs, or a real Kafka."""

from collections.abc import Sequence
from typing import Protocol

from reactor.testing import Record, ScriptedLogs


class Streams(Protocol):
    """What case runners ask for."""

    async def make(self, topic: str, partitions: int = 1) -> None:
        """An empty topic."""
        ...

    async def produce(self, topic: str, number: int, records: Sequence[Record]) -> None:
        """Records at the log's end: their offsets are those that they will have."""
        ...


class ScriptedStreams:
    """In memory."""

    def __init__(self, logs: ScriptedLogs) -> None:
        self._logs = logs

    async def make(self, topic: str, partitions: int = 1) -> None:
        """See `Streams`."""
        for number in range(partitions):
            self._logs.make(topic, number)

    async def produce(self, topic: str, number: int, records: Sequence[Record]) -> None:
        """See `Streams`."""
        self._logs.produce(self._logs.partition(topic, number), records)
