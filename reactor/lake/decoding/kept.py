"""Columns that were read when a span was split, kept for the run that writes them: beside the run, and each payload is scanned once.

They are one more column of the records, a struct, whose own name tells what was read: whoever comes later, by whatever declaration, knows whether
it has what he wants. Why values were refused is in another one, where any were.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from types import MappingProxyType

import duckdb
import numpy as np
import pyarrow as pa

from reactor.domain.scripts import BatchColumn
from reactor.lake.decoding.columns import Column, read
from reactor.lake.decoding.reasons import Reasons
from reactor.lake.decoding.tokens import Tokens, one_array
from reactor.lake.decoding.types import declared

PREFIX, FAULTS = "columns ", "faults "
ROWS_MIN = 1000
"""For fewer records of a span it costs more to make another column than the run will save."""
CELL_BYTES = 8
"""What most values take, and of a text the place where it ends. What is kept takes at most as much as the records."""
CHUNK_ROWS_MIN = 1000
"""Where the pieces of a run have less, on average, they are put together: DuckDB takes some 0.1 ms for each."""

Kept = Sequence[tuple[str, pa.Array]]
"""Columns to append to the records, with their names."""


def worth_keeping(columns: Sequence[BatchColumn], payloads: pa.ChunkedArray) -> Sequence[BatchColumn]:
    """These columns, or none of them."""
    fits = len(payloads) * len(columns) * CELL_BYTES <= payloads.nbytes
    return columns if fits and len(payloads) >= ROWS_MIN and keepable(columns) else ()


def keepable(columns: Sequence[BatchColumn]) -> bool:
    """Whether these columns may be kept: none that holds others. (Of a slice of a struct in a struct DuckDB 1.5 reads the inner one from its beginning.)"""
    return not any(declared(column.type).family in ("struct", "list", "map") for column in columns)


def within(records: pa.Table, size_bytes: int) -> tuple[pa.Table, int]:
    """The records of a piece, without what is kept if that is too much for their size: a piece may be thinner than its span. And its bytes."""
    sizes = {what: sum(records[name].nbytes for name in _names(records, [what])) for what in _kept(records)}
    fitting = {what: kept_bytes for what, kept_bytes in sizes.items() if kept_bytes <= size_bytes}
    return _without(records, list(sizes.keys() - fitting.keys())), sum(fitting.values())


def without_rare(tables: Sequence[pa.Table]) -> Sequence[pa.Table]:
    """The tables without what was kept of less than half of all records: put together, the others would have as much room for it."""
    rows, total = Counter[str](), sum(table.num_rows for table in tables)
    for table in tables:
        rows.update(dict.fromkeys(_kept(table), table.num_rows))
    return [_without(table, [what for what in _kept(table) if 2 * rows[what] < total]) for table in tables]


def _kept(records: pa.Table) -> list[str]:
    return [name.removeprefix(PREFIX) for name in records.column_names if name.startswith(PREFIX)]


def _without(records: pa.Table, dropped: Sequence[str]) -> pa.Table:
    names = _names(records, dropped)
    return records.drop_columns(names) if names else records


def _names(records: pa.Table, kept: Sequence[str]) -> list[str]:
    return [name for what in kept for name in (PREFIX + what, FAULTS + what) if name in records.column_names]


def keep(columns: Sequence[BatchColumn], members: Mapping[str, Tokens], known: Mapping[BatchColumn, Column] = MappingProxyType({})) -> Kept:
    """Read the columns from the members that the scanner has found, but for those that are `known`. Of records without a slice nothing holds."""
    if not columns or sum(_size_bytes(column, members[column.name]) for column in columns) > len(members[columns[0].name].data):
        return ()
    with closing(_engine().cursor()) as cursor:
        values = [known.get(column) or read(members[column.name], declared(column.type), cursor) for column in columns]
    what = json.dumps([(column.name, column.type) for column in columns])
    kept = [(PREFIX + what, pa.StructArray.from_arrays([value.array for value in values], [str(i) for i in range(len(values))]))]
    if any(value.reasons.any() for value in values):
        faults = np.stack([value.reasons for value in values], axis=1)
        kept.append((FAULTS + what, pa.Array.from_buffers(pa.binary(len(values)), len(faults), [None, pa.py_buffer(faults)])))
    return kept


def _size_bytes(column: BatchColumn, tokens: Tokens) -> int:
    texts = declared(column.type).family in ("text", "json", "uuid")
    return len(tokens.kinds) * CELL_BYTES + (int((tokens.stops - tokens.starts).sum()) if texts else 0)


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """For the casts of what is rare (`columns`)."""
    return duckdb.connect(config={"threads": 1})


def kept(records: pa.Table, wanted: Sequence[BatchColumn]) -> Sequence[Column] | None:
    """The wanted columns of these records; None: of one at least it was not kept."""
    for what in _kept(records):
        structs, known = records[PREFIX + what], [BatchColumn(*column) for column in json.loads(what)]
        if not structs.null_count and set(wanted) <= set(known):
            faults = _faults(records, FAULTS + what, len(known))
            return [_column(structs, known.index(column), faults) for column in wanted]
    return None


def _column(structs: pa.ChunkedArray, i: int, faults: Reasons) -> Column:
    array = pa.chunked_array([chunk.field(i) for chunk in structs.chunks], structs.type.field(i).type)
    return Column(one_array(array) if array.num_chunks * CHUNK_ROWS_MIN > len(array) else array, faults[:, i])


def _faults(records: pa.Table, name: str, count: int) -> Reasons:
    """A row for each record, a column for each value. Records that were put together may have some of others that had none."""
    if name not in records.column_names:
        return np.zeros((records.num_rows, count), np.uint8)
    array = one_array(records[name].fill_null(bytes(count)))
    return np.frombuffer(array.buffers()[1], np.uint8, len(array) * count, array.offset * count).reshape(-1, count)
