"""Record batches as a broker would send them, made with aiokafka's own builders."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition

from connectors.kafka import columns, plain
from connectors.kafka.spans import SCHEMA, Fetched

PARTITION = TopicPartition("orders", 0)
COMMIT, ABORT = 1, 0


@dataclass(frozen=True)
class Record:
    """`offset` counts from the batch's base."""

    offset: int
    value: bytes | None = b"v"
    key: bytes | None = None
    timestamp: int = 1_781_827_200_000
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Batch:
    """`next_offset` may lie behind the last record: compaction took the rest."""

    base_offset: int
    records: Sequence[Record]
    next_offset: int
    codec: int = 0
    append_time: int | None = None
    producer_id: int = -1
    transactional: bool = False
    control: bool = False

    def encoded(self) -> bytes:
        builder = DefaultRecordBatchBuilder(2, self.codec, self.transactional, self.producer_id, 0, 0, 1 << 40)
        for record in self.records:
            builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        data = bytearray(builder.build())
        attributes = struct.unpack_from(">h", data, 21)[0] | (0x20 if self.control else 0)
        if self.append_time is not None:
            attributes |= 0x08
            struct.pack_into(">q", data, 35, self.append_time)
        struct.pack_into(">q", data, 0, self.base_offset)
        struct.pack_into(">h", data, 21, attributes)
        struct.pack_into(">i", data, 23, self.next_offset - self.base_offset - 1)
        return sealed(data)


def sealed(data: bytearray) -> bytes:
    """With the right checksum."""
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def marker(offset: int, producer_id: int, kind: int) -> Batch:
    """The end of a transaction."""
    record = Record(0, value=b"\x00\x00\x00\x00\x00\x00", key=struct.pack(">HH", 0, kind))
    return Batch(offset, [record], offset + 1, producer_id=producer_id, transactional=True, control=True)


def legacy(base_offset: int, records: Sequence[Record], magic: Literal[0, 1], codec: int = 0) -> bytes:
    """Format 0 or 1: no headers. A broker gives the envelope of a compressed set the offset of its last record."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 40)
    for record in records:
        builder.append(base_offset + record.offset, record.timestamp if magic else None, record.key, record.value)
    data = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", data, 0, base_offset + records[-1].offset)
    return bytes(data)


@dataclass(frozen=True)
class OldSet:
    """A message set of format 0 or 1; it ends at its last record."""

    base_offset: int
    records: Sequence[Record]
    next_offset: int
    magic: Literal[0, 1] = 0
    codec: int = 0
    producer_id: int = -1
    transactional: bool = False
    control: bool = False

    def encoded(self) -> bytes:
        return legacy(self.base_offset, self.records, self.magic, self.codec)


def spaced(batches: Sequence[Batch | OldSet], gaps: Sequence[int]) -> list[Batch | OldSet]:
    """The same batches one behind the other, with holes between them."""
    at, placed = 0, list[Batch | OldSet]()
    for batch, gap in zip(batches, gaps, strict=True):
        at += gap
        length = batch.next_offset - batch.base_offset
        placed.append(replace(batch, base_offset=at, next_offset=at + length))
        at += length
    return placed


def in_columns(data: bytes, lo: int, aborted: Sequence[tuple[int, int]] = ()) -> tuple[int, pa.Table]:
    """Next offset and records, the columnar way."""
    fetches: list[Fetched] = list(columns.BatchRecords(PARTITION, columns.MessageSet(data), aborted, lo))
    assert [fetch.lo for fetch in fetches] == [lo, *(fetch.hi for fetch in fetches[:-1])]
    tables = []
    for fetch in fetches:
        steps = list(fetch.tables())
        assert [hi for hi, _ in steps] == sorted(hi for hi, _ in steps)
        assert steps[-1][0] == fetch.hi
        tables += [table for _, table in steps]
    for table in tables:
        assert table.schema == SCHEMA
        table.validate(full=True)
    return fetches[-1].hi, pa.concat_tables(tables).combine_chunks()


def in_plain(data: bytes, lo: int, aborted: Sequence[tuple[int, int]] = ()) -> tuple[int, pa.Table]:
    """Next offset and records, the way of aiokafka's objects."""
    records = PartitionRecords(PARTITION, MemoryRecords(data), list(aborted), lo, None, None, True, READ_COMMITTED)
    table = plain.table(list(records))
    table.validate(full=True)
    return records.next_fetch_offset, table.combine_chunks()
