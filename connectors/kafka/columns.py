"""The columnar way: one record batch becomes columns of one Arrow table, without a Python object per record.

`MessageSet` and `BatchRecords` stand in for aiokafka's `MemoryRecords` and `PartitionRecords` (see `hooks`). They keep the bytes of a fetch
as they are and hand them out as one `BatchFetch`, which a thread decodes: checksum, transactions, decompression, walk, table. Message
formats 0 and 1 (before Kafka 0.11) go the plain way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple, Self

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from aiokafka import codec
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition

from connectors.kafka import walk
from connectors.kafka.plain import PlainFetch
from connectors.kafka.spans import EMPTY, HEADER, HEADERS, INLINE_BYTES_MAX, SCHEMA, SPAN_BYTES_MAX, SPAN_ROWS_MAX, TIMESTAMP, Fetched

HEADER_OF_BATCH = struct.Struct(">qiibIhiqqqhii")
LENGTH = struct.Struct(">i")
LENGTH_AT, BEHIND_LENGTH, MAGIC_AT, CHECKED_FROM = 8, 12, 16, 21
"""Where the length of a batch stands, what it counts from, the message format, and the bytes that the checksum covers."""
RECORD_BYTES_MIN = 7
BATCH_BYTES_MAX = 2**31 - 1
"""Of one decompressed batch: what Arrow's offsets can count."""
COMPRESSION = 0x07
"""Bits of a batch's attributes."""
crc32c: Callable[[bytes], int] = google_crc32c.value if google_crc32c.implementation == "c" else calc_crc32c
"""By the processor's own instruction, where there is a wheel for it; in Python it would take a hundred times as long as aiokafka's."""
NO_HEADERS = pa.array([], HEADER)
DECODERS = {1: codec.gzip_decode, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}


class BatchHeader(NamedTuple):
    """The fixed part of a record batch (format 2). `attributes`: codec in bits 0 to 2, log append time 3, transactional 4, control 5."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    checksum: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    rows: int

    @classmethod
    def of(cls, batch: memoryview) -> Self:
        """Raises `CorruptRecordException`: it is too short."""
        if len(batch) < HEADER_OF_BATCH.size:
            raise CorruptRecordException(f"a record batch of {len(batch)} bytes")
        return cls(*HEADER_OF_BATCH.unpack_from(batch))

    @property
    def next_offset(self) -> int:
        """Behind the batch, whatever compaction has left of it."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def has_append_time(self) -> bool:
        """Whether the broker's time of writing stands for the time of each record."""
        return bool(self.attributes & 0x08)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        """Whether it is a marker that ends a transaction."""
        return bool(self.attributes & 0x20)


class MessageSet:
    """The record batches of one source partition in the answer to a fetch; the last one may have been cut off and is left out."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.batches: list[memoryview] = []
        view, at = memoryview(data), 0
        while at + BEHIND_LENGTH <= len(data):
            end = at + BEHIND_LENGTH + LENGTH.unpack_from(view, at + LENGTH_AT)[0]
            if not at + MAGIC_AT < end <= len(data):
                break
            self.batches.append(view[at:end])
            at = end

    def has_next(self) -> bool:
        """Whether there is a whole batch."""
        return bool(self.batches)

    def size_in_bytes(self) -> int:
        """As it came."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class BatchFetch:
    """Batches of format 2 as they came; offsets `[lo, hi)`. `aborted`: (producer id, first offset) of aborted transactions."""

    lo: int
    hi: int
    batches: Sequence[memoryview]
    aborted: Sequence[tuple[int, int]] = ()

    @property
    def small(self) -> bool:
        """What is compressed may be of any size."""
        if sum(map(len, self.batches)) > INLINE_BYTES_MAX:
            return False
        return all(len(batch) < HEADER_OF_BATCH.size or not BatchHeader.of(batch).attributes & COMPRESSION for batch in self.batches)

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """Batches are put together up to a span's size."""
        group: list[tuple[BatchHeader, bytes | memoryview]] = []
        rows = size_bytes = 0
        for header, records in self._published():
            if group and (rows + header.rows > SPAN_ROWS_MAX or size_bytes + len(records) > SPAN_BYTES_MAX):
                yield group[-1][0].next_offset, table(group, self.lo)
                group, rows, size_bytes = [], 0, 0
            group.append((header, records))
            rows, size_bytes = rows + header.rows, size_bytes + len(records)
        yield self.hi, table(group, self.lo)

    def _published(self) -> Iterator[tuple[BatchHeader, bytes | memoryview]]:
        """What a reader of committed data may see: no markers, nothing of an aborted transaction."""
        begun = sorted(self.aborted, key=lambda transaction: transaction[1])
        aborting: set[int] = set()
        for batch in self.batches:
            header = BatchHeader.of(batch)
            if header.checksum != crc32c(batch[CHECKED_FROM:].tobytes()):
                raise CorruptRecordException(f"the checksum of the record batch at offset {header.base_offset} is wrong")
            while begun and begun[0][1] <= header.base_offset:
                aborting.add(begun.pop(0)[0])
            if header.is_control:
                if _aborts(header, batch):
                    aborting.discard(header.producer_id)
            elif header.rows and not (header.is_transactional and header.producer_id in aborting):
                yield header, _decompressed(header, batch[HEADER_OF_BATCH.size :])


class BatchRecords:
    """What aiokafka iterates over instead of records: the fetch as a whole. The arguments are those of `PartitionRecords`.

    Of a log that lived through an upgrade the sets of old formats come first, as a fetch of their own, one by one: aiokafka reads all batches of
    an answer in the format of the first. What should follow in an old format again is left for the next fetch.
    """

    def __init__(
        self,
        partition: TopicPartition,
        records: MessageSet,
        aborted_transactions: Sequence[tuple[int, int]] | None,
        fetch_offset: int,
        *_: object,
    ) -> None:
        self._partition, self._aborted = partition, aborted_transactions or ()
        self.next_fetch_offset = fetch_offset
        self._old = list(takewhile(_is_old, records.batches))
        self._new = list(takewhile(lambda batch: not _is_old(batch), records.batches[len(self._old) :]))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Fetched:
        lo = self.next_fetch_offset
        if self._old:
            fetch: Fetched = self._plain(lo)
            self._old = []
        elif self._new:
            fetch = BatchFetch(lo, max(lo, BatchHeader.of(self._new[-1]).next_offset), self._new, self._aborted)
            self._new = []
        else:
            raise StopIteration
        self.next_fetch_offset = fetch.hi
        return fetch

    def _plain(self, lo: int) -> PlainFetch:
        hi, records = lo, []
        for batch in self._old:
            old = PartitionRecords(self._partition, MemoryRecords(bytes(batch)), [], hi, None, None, True, READ_COMMITTED)
            records += list(old)
            hi = old.next_fetch_offset
        return PlainFetch(lo, hi, records)


def _is_old(batch: memoryview) -> bool:
    return batch[MAGIC_AT] < 2


def table(group: Sequence[tuple[BatchHeader, bytes | memoryview]], lo: int) -> pa.Table:
    """Columns of the records of these decompressed batches, from offset `lo` on. Raises `CorruptRecordException`."""
    if not group:
        return EMPTY
    headers = [header for header, _ in group]
    counts = np.array([header.rows for header in headers], np.int64)
    data, found = _walked(group, counts)
    offsets = _of_each(headers, counts, "base_offset") + found[0]
    if (np.diff(offsets) <= 0).any() or offsets[-1] >= headers[-1].next_offset:
        raise CorruptRecordException(f"the offsets of the batches from {headers[0].base_offset} on are out of order")
    appended = np.repeat([header.has_append_time for header in headers], counts)
    times = np.where(appended, _of_each(headers, counts, "max_timestamp"), _of_each(headers, counts, "first_timestamp") + found[1])
    wanted = offsets >= lo  # a fetch begins with the whole batch that holds its offset
    if not wanted.all():
        offsets, times, found = offsets[wanted], times[wanted], found[:, wanted]
    columns = [
        pa.array(offsets),
        pa.Array.from_buffers(TIMESTAMP, len(times), [_valid(times < 0), pa.py_buffer(times)]),
        _binary(data, found[2], found[3]),
        _binary(data, found[4], found[5]),
        _headers(data, found[6], found[7]),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _walked(group: Sequence[tuple[BatchHeader, bytes | memoryview]], counts: walk.Ints) -> tuple[walk.Bytes, walk.Ints]:
    """The bytes of all batches, and where in them the fields of each record lie (see `walk.records`)."""
    parts = [records for _, records in group]
    data, begins = _in_one_piece(parts)
    ends = begins + np.array([len(records) for records in parts], np.int64)
    found = np.empty((8, int(counts.sum())), np.int64)
    damaged = walk.records(data, begins, ends, counts, found)
    if damaged >= 0:
        raise CorruptRecordException(f"the records of the batch at offset {group[damaged][0].base_offset} are damaged")
    return data, found


def _in_one_piece(parts: Sequence[bytes | memoryview]) -> tuple[walk.Bytes, walk.Ints]:
    """Bytes that hold all parts, and where each begins. What was not compressed still lies in one answer."""
    answers = [part.obj if isinstance(part, memoryview) else part for part in parts]
    if any(answer is not answers[0] for answer in answers):
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return np.frombuffer(b"".join(parts), np.uint8), np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    data = np.frombuffer(memoryview(answers[0]), np.uint8)
    return data, np.array([pa.py_buffer(part).address for part in parts], np.int64) - data.ctypes.data


def _of_each(headers: Sequence[BatchHeader], counts: walk.Ints, name: str) -> walk.Ints:
    """A number of its batch for each record."""
    return np.repeat(np.array([getattr(header, name) for header in headers], np.int64), counts)


def _aborts(header: BatchHeader, batch: memoryview) -> bool:
    """Whether a marker ends its transaction by aborting it."""
    try:
        (record,) = DefaultRecordBatch(bytes(batch))
        return ControlRecord.parse(record.key or b"") == ABORT_MARKER
    except Exception as error:  # aiokafka's walk has errors of its own, too
        raise CorruptRecordException(f"the marker at offset {header.base_offset} is damaged: {error}") from error


def _decompressed(header: BatchHeader, records: memoryview) -> bytes | memoryview:
    compression = header.attributes & COMPRESSION
    if compression == 0:
        plain: bytes | memoryview = records
    elif compression in DECODERS:
        try:
            plain = DECODERS[compression](bytes(records))
        except Exception as error:  # each codec has errors of its own
            raise CorruptRecordException(f"the record batch at offset {header.base_offset} cannot be decompressed: {error}") from error
    else:
        raise UnsupportedCodecError(f"the record batch at offset {header.base_offset} is compressed with the unknown codec {compression}")
    if not 0 <= header.rows * RECORD_BYTES_MIN <= len(plain) <= BATCH_BYTES_MAX:
        raise CorruptRecordException(f"the record batch at offset {header.base_offset} claims {header.rows} records in {len(plain)} bytes")
    return plain


def _ends(lengths: walk.Ints) -> walk.Ints:
    """Arrow's offsets of fields with these lengths."""
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=ends[1:])
    return ends


def _binary(data: walk.Bytes, begins: walk.Ints, lengths: walk.Ints) -> pa.Array:
    ends = _ends(lengths)
    out = np.empty(int(ends[-1]), np.uint8)
    walk.copy(data, begins, lengths, out)
    return pa.Array.from_buffers(pa.binary(), len(lengths), [_valid(lengths < 0), pa.py_buffer(ends), pa.py_buffer(out)])


def _valid(nulls: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


def _headers(data: walk.Bytes, begins: walk.Ints, counts: walk.Ints) -> pa.Array:
    ends = _ends(counts)
    if not ends[-1]:
        return pa.ListArray.from_arrays(pa.array(ends), NO_HEADERS, type=HEADERS)
    found = np.empty((4, int(ends[-1])), np.int64)
    walk.headers(data, begins, counts, found)
    names = _text(_binary(data, found[0], found[1]))
    pairs = pa.StructArray.from_arrays([names, _binary(data, found[2], found[3])], fields=list(HEADER))
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=HEADERS)


def _text(names: pa.Array) -> pa.Array:
    """Header names are UTF-8 by Kafka's word, and bytes by what producers send: what is none is shown with U+FFFD, as Java does."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
