"""The compiled walk over the records of decompressed record batches (message format 2): where each field lies, then a copy of each column.

How it is compiled says `reactor.compiled`. Nothing here checks an index for us: each read is behind a comparison with the end of its record.

    Record => length varint, attributes int8, timestamp delta varint, offset delta varint, key, value, headers
    key, value => length varint (-1: null), bytes        headers => count varint, then per header: name, value
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reactor.compiled import compiled, kernel
from reactor.loads import copied

Bytes = NDArray[np.uint8]
Ints = NDArray[np.signedinteger[Any]]
Int: TypeAlias = Any
"""A machine integer: compiled code has one kind; mypy sees numpy's and Python's."""

DAMAGED = -1
"""The place behind a number or field that does not end before its record does."""


@compiled
def _varint(data: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """The zigzag number at a place, and the place behind it. From `DAMAGED` on everything is damaged."""
    value = np.uint64(0)
    for shift in range(0, 70, 7):
        if at < 0 or at >= end:
            break
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
    return 0, DAMAGED


@compiled
def _field(data: Bytes, at: Int, end: Int) -> tuple[Int, Int, Int]:
    """Where the bytes of a field begin, how many there are (-1: null), and the place behind them."""
    length, begin = _varint(data, at, end)
    if begin == DAMAGED or length > end - begin:
        return 0, 0, DAMAGED
    return begin, max(length, -1), begin + max(length, 0)


@kernel(writes=1)
def records(data: Bytes, begins: Ints, ends: Ints, counts: Ints, found: Ints) -> int:
    """Write one row per record to `found`, shape (8, sum of counts); returns the first batch that is damaged, or -1.

    Rows: offset delta, timestamp delta, key begin, key length, value begin, value length, first header's place, number of headers.
    """
    row = 0
    for batch in range(len(begins)):
        at, end = begins[batch], ends[batch]
        for _ in range(counts[batch]):
            length, at = _varint(data, at, end)
            if length < 1 or length > end - at:
                return batch
            record_end = at + length
            found[1, row], at = _varint(data, at + 1, record_end)  # behind the attributes, which are unused
            found[0, row], at = _varint(data, at, record_end)
            found[2, row], found[3, row], at = _field(data, at, record_end)
            found[4, row], found[5, row], at = _field(data, at, record_end)
            header_count, at = _varint(data, at, record_end)
            if header_count < 0 or header_count > record_end - at:
                return batch
            found[6, row], found[7, row] = at, header_count
            for _ in range(header_count):
                _, name_length, at = _field(data, at, record_end)
                _, _, at = _field(data, at if name_length >= 0 else DAMAGED, record_end)
            if at != record_end:
                return batch
            row += 1
        if at != end:
            return batch
    return -1


@kernel(writes=1)
def headers(data: Bytes, begins: Ints, counts: Ints, found: Ints) -> None:
    """Write one row per header to `found`, shape (4, sum of counts): name begin and length, value begin and length.

    `begins` and `counts` are of records that `records` has walked over, so nothing can be damaged here.
    """
    row = 0
    for record in range(len(begins)):
        at = begins[record]
        for _ in range(counts[record]):
            found[0, row], found[1, row], at = _field(data, at, len(data))
            found[2, row], found[3, row], at = _field(data, at, len(data))
            row += 1


@kernel(writes=1)
def copy(data: Bytes, begins: Ints, lengths: Ints, out: Bytes) -> None:
    """The bytes of a column, one field behind the other; a null has none."""
    to = 0
    for row in range(len(begins)):
        if lengths[row] > 0:
            to += copied(out, to, data, begins[row], lengths[row])


def prepare() -> None:
    """Compile all of it now (`reactor.compiled`)."""
    data, at, one, found = np.frombuffer(bytes(9), np.uint8), np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros((8, 1), np.int64)
    records(data, at, one, one, found)
    headers(data, at, one, found)
    copy(data, at, one, np.zeros(1, np.uint8))
