"""Members that were found when a span was split, kept for the run that decodes it: each payload is scanned once.

They are one more column of the records, of a fixed width: where in its payload the member of each name begins and ends, and its kind. The
column's own name tells the names, so whoever comes later, by whatever declaration, knows whether it has what he wants.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from reactor.lake.decoding.tokens import Tokens, one_array

PREFIX = "members of "
ROWS_MIN = 1000
"""For fewer records of a span it costs more to make another column than the run will save."""
SIZE_SHARE = 3
"""What is kept takes at most this part of the bytes of the records, which are what is counted against the limits of memory."""
_PLACES_END = 1 << 16


def worth_keeping(names: Sequence[str], payloads: pa.ChunkedArray) -> Sequence[str]:
    """These names, or none of them."""
    return names if len(payloads) >= ROWS_MIN and len(payloads) * _layout(len(names)).itemsize * SIZE_SHARE <= payloads.nbytes else ()


def within_share(records: pa.Table, size_bytes: int) -> pa.Table:
    """The records of a piece, without what is kept if that is too much for their size: a piece may be thinner than its span."""
    many = [name for name in _columns(records) if records[name].nbytes * SIZE_SHARE > size_bytes]
    return records.drop_columns(many) if many else records


def without_rare(tables: Sequence[pa.Table]) -> Sequence[pa.Table]:
    """The tables without what was kept of less than half of all records: put together, the others would have as much room for it."""
    rows = Counter[str]()
    for table in tables:
        rows.update(dict.fromkeys(_columns(table), table.num_rows))
    rare = {name for name, count in rows.items() if 2 * count < sum(table.num_rows for table in tables)}
    return [table.drop_columns([name for name in _columns(table) if name in rare]) for table in tables] if rare else tables


def _columns(records: pa.Table) -> list[str]:
    return [name for name in records.column_names if name.startswith(PREFIX)]


def keep(names: Sequence[str], found: Sequence[Tokens], texts: Tokens) -> tuple[str, pa.Array] | None:
    """The column of the members of these names, as the scanner has found them in texts, and its name. None: a text is too long, or there are no names."""
    if not names or (texts.stops - texts.starts).max(initial=0) >= _PLACES_END:
        return None
    rows = np.empty(len(texts.kinds), _layout(len(names)))
    for i, token in enumerate(found):
        rows["starts"][:, i], rows["stops"][:, i], rows["kinds"][:, i] = token.starts - texts.starts, token.stops - texts.starts, token.kinds
    return PREFIX + json.dumps(list(names)), pa.Array.from_buffers(pa.binary(rows.itemsize), len(rows), [None, pa.py_buffer(rows)])


def kept(records: pa.Table, texts: Tokens, wanted: Sequence[str]) -> list[Tokens] | None:
    """The member of each wanted name in the texts of these records; None: it was not kept, of one at least."""
    for column in _columns(records):
        if not records[column].null_count and set(wanted) <= set(names := json.loads(column.removeprefix(PREFIX))):
            layout, array = _layout(len(names)), one_array(records[column])
            rows = np.frombuffer(array.buffers()[1], layout, len(array), array.offset * layout.itemsize)
            return [_token(rows, names.index(name), texts) for name in wanted]
    return None


def _layout(names: int) -> np.dtype[np.void]:
    return np.dtype([("starts", np.uint16, (names,)), ("stops", np.uint16, (names,)), ("kinds", np.uint8, (names,))])


def _token(rows: np.ndarray[tuple[int], np.dtype[np.void]], i: int, texts: Tokens) -> Tokens:
    return Tokens(texts.data, rows["kinds"][:, i].copy(), texts.starts + rows["starts"][:, i], texts.starts + rows["stops"][:, i])
