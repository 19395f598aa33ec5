"""Logs in memory, with the exact offsets that a test gives them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from reactor.domain.spans import SourcePartition
from reactor.ports import LogBounds, RawSpan

if TYPE_CHECKING:
    from reactor.testing.source import ScriptedSource

RECORDS = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("key", pa.binary()), ("value", pa.binary()),
    ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip
"""The columns of `RawSpan.records`."""


class Sentinel(Enum):
    """What a reader meets in a log instead of a record."""

    PAUSE = "pause"
    CRASH = "crash"
    EOF = "eof"


PAUSE, CRASH, EOF = Sentinel.PAUSE, Sentinel.CRASH, Sentinel.EOF


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `value` None is a tombstone; `timestamp_ms` None or below zero, as Kafka writes it: it has none."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = 1_772_366_400_000


@dataclass(slots=True)
class Log:
    """One source partition. What is between two records is a hole. `sentinels`: (offset, what is met before it)."""

    topic_id: str
    start: int = 0
    end: int = 0
    records: list[Record] = field(default_factory=list)
    sentinels: list[tuple[int, Sentinel]] = field(default_factory=list)

    @property
    def bounds(self) -> LogBounds:
        """What it holds."""
        return LogBounds(self.topic_id, self.start, self.end)


class ScriptedLogs:
    """The logs of one cluster. `group_offsets`: (group, source partition) → what readers have committed, a courtesy."""

    def __init__(self, cluster: str = "main") -> None:
        self.cluster = cluster
        self.group_offsets: dict[tuple[str, SourcePartition], int] = {}
        self._logs: dict[SourcePartition, Log] = {}
        self._readers: list[ScriptedSource] = []
        self._owners: dict[tuple[str, SourcePartition], ScriptedSource] = {}
        self._topic_ids = itertools.count(1)
        self._changed = asyncio.Event()

    # -- what a test does

    def partition(self, topic: str, number: int = 0) -> SourcePartition:
        """Its name."""
        return SourcePartition(f"kafka://{self.cluster}/{topic}", str(number))

    def make(self, topic: str, number: int = 0, *, start: int = 0) -> SourcePartition:
        """An empty log; made again, it is another one. All logs of a topic have one identity."""
        made = self.partition(topic, number)
        known = None if made in self._logs else next((log.topic_id for p, log in self._logs.items() if p.source == made.source), None)
        self._logs[made] = Log(known or f"scripted/{next(self._topic_ids)}", start, start)
        self.wake()
        return made

    def produce(self, partition: SourcePartition, items: Iterable[Record | Sentinel], *, end: int | None = None) -> None:
        """Records in order of their offsets, which are not below the log's end, and sentinels among them. `end`: holes follow up to there."""
        log = self._logs[partition]
        for item in items:
            if isinstance(item, Sentinel):
                log.sentinels.append((log.end, item))
            elif item.offset < log.end:
                raise ValueError(f"{partition} has reached {log.end}: a record cannot be put at {item.offset}")
            else:
                log.records.append(item)
                log.end = item.offset + 1
        log.end = max(log.end, end or 0)
        self.wake()

    def truncate(self, partition: SourcePartition, start: int) -> None:
        """Retention: all below `start` is gone."""
        log = self._logs[partition]
        log.start, log.end = start, max(log.end, start)
        log.records = [r for r in log.records if r.offset >= start]
        self.wake()

    def move(self, partition: SourcePartition, to: ScriptedSource) -> None:
        """The group gives it to another reader, which does not wait for the one that had it."""
        self._owners[to.group_id, partition] = to
        self.wake()

    def go_on(self) -> None:
        """Every reader that stands before a `PAUSE` passes it."""
        for log in self._logs.values():
            log.sentinels = [met for met in log.sentinels if met[1] is not PAUSE]
        self.wake()

    def source(self, cluster: str, group_id: str, topics: Collection[str]) -> ScriptedSource:
        """A reader: fits `wiring.Instead.source`."""
        from reactor.testing.source import ScriptedSource  # noqa: PLC0415 - each needs the other

        if cluster != self.cluster:
            raise ValueError(f"these are the logs of {self.cluster}, not of {cluster}")
        return ScriptedSource(self, group_id, topics)

    # -- what readers see

    def bounds(self, partitions: Iterable[SourcePartition]) -> Mapping[SourcePartition, LogBounds]:
        """Of those that exist."""
        return {p: self._logs[p].bounds for p in partitions if p in self._logs}

    def of_topics(self, topics: Collection[str]) -> Sequence[SourcePartition]:
        """All source partitions of these topics."""
        sources = {self.partition(topic).source for topic in topics}
        return [p for p in self._logs if p.source in sources]

    def joined(self, reader: ScriptedSource) -> None:
        """It takes part in its group."""
        self._readers.append(reader)
        self.wake()

    def left(self, reader: ScriptedSource) -> None:
        """It is gone, and the others take over what it had."""
        self._readers.remove(reader)
        self._owners = {key: owner for key, owner in self._owners.items() if owner is not reader}
        self.wake()

    def owned_by(self, reader: ScriptedSource) -> set[SourcePartition]:
        """Its source partitions: what nobody has goes to the first of the group."""
        mates = [other for other in self._readers if other.group_id == reader.group_id]
        return {p for p in self.of_topics(reader.topics) if self._owners.setdefault((reader.group_id, p), mates[0]) is reader}

    def upcoming(self, partition: SourcePartition, lo: int) -> tuple[RawSpan | None, Sentinel | None]:
        """What a reader at `lo` gets next, and the sentinel that it meets behind that."""
        log = self._logs[partition]
        met = next(((at, sentinel) for at, sentinel in log.sentinels if at >= lo), None)
        hi = met[0] if met else log.end
        return span(partition, lo, hi, log.records) if lo < hi else None, met[1] if met else None

    def span(self, partition: SourcePartition, lo: int, hi: int, size_bytes_max: int | None = None) -> RawSpan:
        """A part of a log, whatever sentinels it has; of its records at least one, and no more than fit."""
        size = 0
        for record in self._logs[partition].records if size_bytes_max is not None else ():
            size += len(record.value or b"") if lo <= record.offset < hi else 0
            if size_bytes_max is not None and size >= size_bytes_max:
                hi = min(hi, record.offset + 1)
        return span(partition, lo, hi, self._logs[partition].records)

    def met(self, partition: SourcePartition, sentinel: Sentinel) -> None:
        """A reader has met it: it is met once."""
        sentinels = self._logs[partition].sentinels
        sentinels.remove(next(found for found in sentinels if found[1] is sentinel))

    @property
    def next_change(self) -> asyncio.Event:
        """Set when something happens to a log or a group from now on."""
        return self._changed

    def wake(self) -> None:
        """Something has changed."""
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()


def span(partition: SourcePartition, lo: int, hi: int, records: Iterable[Record]) -> RawSpan:
    """The records of `[lo, hi)` as a source hands them over."""
    rows = [
        {"offset": r.offset, "timestamp": None if (r.timestamp_ms or 0) < 0 else r.timestamp_ms, "key": r.key, "value": r.value,
         "headers": [{"name": n, "value": v} for n, v in r.headers]}
        for r in records if lo <= r.offset < hi
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, RECORDS)
    return RawSpan(partition, lo, hi, table, table.nbytes)
