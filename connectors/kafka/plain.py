"""The plain way: aiokafka makes an object of every record, and we make columns of the objects.

The fallback where the columnar way cannot be used, and the measure that the contract suite holds it to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from aiokafka.structs import ConsumerRecord

from connectors.kafka.spans import EMPTY, HEADERS, INLINE_BYTES_MAX, SCHEMA, TIMESTAMP


@dataclass(frozen=True, slots=True)
class PlainFetch:
    """Records as aiokafka hands them out; offsets `[lo, hi)`."""

    lo: int
    hi: int
    records: Sequence[ConsumerRecord[bytes, bytes]]

    @property
    def small(self) -> bool:
        """By keys and values."""
        return sum(max(0, record.serialized_key_size) + max(0, record.serialized_value_size) for record in self.records) <= INLINE_BYTES_MAX

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """One table."""
        yield self.hi, table(self.records)


def table(records: Sequence[ConsumerRecord[bytes, bytes]]) -> pa.Table:
    """Columns of these records. A timestamp below zero says that the record has none."""
    if not records:
        return EMPTY
    timestamps = [record.timestamp for record in records]
    columns = [
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([None if time is None or time < 0 else time for time in timestamps], TIMESTAMP),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([[{"name": name, "value": value} for name, value in record.headers] for record in records], HEADERS),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
