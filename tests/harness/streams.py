"""Where records come from: scripted logs, or a real Kafka."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from reactor.domain.spans import SourcePartition
from reactor.ports import Source
from reactor.testing import Record, ScriptedLogs


class Streams(Protocol):
    """The cluster `main` of a product. `reader`: makes what reads it instead of the Kafka source, or None."""

    @property
    def settings(self) -> str:
        """The lines of `[kafka.main]`."""
        ...

    @property
    def reader(self) -> Callable[[str, str, Collection[str]], Source] | None:
        """See `reactor.wiring.Instead`."""
        ...

    async def make(self, topic: str, partitions: int = 1) -> None:
        """An empty topic."""
        ...

    async def produce(self, topic: str, number: int, records: Sequence[Record]) -> None:
        """Records at the log's end: their offsets are those that they will have."""
        ...

    def partitions(self, topic: str) -> Sequence[SourcePartition]:
        """Of a topic that was made."""
        ...


class ScriptedStreams:
    """In memory."""

    settings = 'bootstrap_servers = "127.0.0.1:9"'

    def __init__(self) -> None:
        self.logs = ScriptedLogs("main")

    @property
    def reader(self) -> Callable[[str, str, Collection[str]], Source] | None:
        """See `Streams`."""
        return self.logs.source

    async def make(self, topic: str, partitions: int = 1) -> None:
        """See `Streams`."""
        for number in range(partitions):
            self.logs.make(topic, number)

    async def produce(self, topic: str, number: int, records: Sequence[Record]) -> None:
        """See `Streams`."""
        self.logs.produce(self.logs.partition(topic, number), records)

    def partitions(self, topic: str) -> Sequence[SourcePartition]:
        """See `Streams`."""
        return self.logs.of_topics([topic])
