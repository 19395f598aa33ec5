"""The shape of a span of Kafka records, and how large one may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

SPAN_ROWS_MAX = 50_000
SPAN_BYTES_MAX = 16 * 1024 * 1024
"""Of the Arrow table. One record that is larger is a span of its own."""

INLINE_BYTES_MAX = 65_536
"""Of a fetch that is decoded where it is: to hand it to a thread takes as long, and keeps the loop as busy."""

TIMESTAMP = pa.timestamp("ms", tz="UTC")
HEADER = pa.struct([("name", pa.string()), ("value", pa.binary())])
HEADERS = pa.list_(HEADER)
SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", TIMESTAMP), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)])
"""See `RawSpan`."""

EMPTY = SCHEMA.empty_table()


class Fetched(Protocol):
    """What one fetch brought of one source partition: offsets `[lo, hi)`, not decoded yet."""

    @property
    def lo(self) -> int:
        """First offset."""
        ...

    @property
    def hi(self) -> int:
        """Next offset."""
        ...

    @property
    def small(self) -> bool:
        """Whether decoding it takes the loop no longer than handing it to a thread: it is known to be at most `INLINE_BYTES_MAX`."""
        ...

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """(next offset, records below it) in order; the last next offset is `hi`. Blocking: one step decodes at most a span's worth.

        Raises `CorruptRecordException` or `UnsupportedCodecError` of aiokafka.
        """
        ...


def cut(lo: int, hi: int, table: pa.Table, size_bytes_max: int = SPAN_BYTES_MAX) -> Iterator[tuple[int, int, pa.Table]]:
    """Halve `[lo, hi)` until no part is over a limit; a part ends right behind its last record, the last one at `hi`."""
    rows = table.num_rows
    if rows < 2 or (rows <= SPAN_ROWS_MAX and table.nbytes <= size_bytes_max):
        yield lo, hi, table
        return
    half = (rows + 1) // 2
    middle = table["offset"][half - 1].as_py() + 1
    yield from cut(lo, middle, table.slice(0, half), size_bytes_max)
    yield from cut(middle, hi, table.slice(half), size_bytes_max)
