"""Payloads into a table of typed columns: the accepted records in one temp table, the others with their reasons in another."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa

from reactor.domain.scripts import BatchColumn
from reactor.lake.decoding import columns as made
from reactor.lake.decoding import grammar
from reactor.lake.decoding import reasons as why
from reactor.lake.decoding.columns import Column
from reactor.lake.decoding.reasons import Reasons
from reactor.lake.decoding.tokens import Tokens, children, one_array, payloads, picked
from reactor.lake.decoding.types import Declared, declared

ROWS_MAX = 50_000
"""Rows that are read from their tokens at once."""

_TOKENS, _STAGED = "_reactor_tokens", "_reactor_decoded"
_BOM = b"\xef\xbb\xbf"


def decode(
    cursor: duckdb.DuckDBPyConnection, raw: str, columns: Sequence[BatchColumn] | None, keep: Sequence[str], into: str, rejects: str,
) -> None:
    """Decode the relation `raw`, which the cursor sees, into two TEMP tables; each of its rows is in exactly one of them.

    `raw` has `_row` BIGINT (unique), `value` BLOB and the columns to `keep`. `into`: those, then the declared ones with their types; with
    `columns` None the payload itself, `value` JSON, any JSON text, as it came (without a BOM). `rejects`: `_row` BIGINT, `reason` VARCHAR
    (conventions 11), `column` VARCHAR (the declared column at fault, or NULL). A NULL `value` has no place here: it is rejected as
    `tombstone`. Raises ValueError for a type that `decodable` refuses.
    """
    types = [declared(column.type) for column in (columns if columns is not None else [BatchColumn("value", "JSON")])]
    names = [column.name for column in columns] if columns is not None else None
    kept = "".join(f", {_quoted(name)} AS k{i}" for i, name in enumerate(keep))
    table = cursor.execute(f"SELECT _row::BIGINT AS row, value AS payload{kept} FROM {_quoted(raw)}").to_arrow_table()
    cursor.register(_TOKENS, pa.concat_tables([_tokens(piece, names, types, cursor) for piece in _pieces(table)]))
    try:
        _stage(cursor, len(keep), types)
    finally:
        cursor.unregister(_TOKENS)
    _split(cursor, list(keep), names or ["value"], into, rejects)
    cursor.execute(f"DROP TABLE {_STAGED}")


def _pieces(table: pa.Table) -> list[pa.Table]:
    """The table in pieces small enough for the caches and the memory of a loader."""
    return [table.slice(lo, ROWS_MAX) for lo in range(0, max(len(table), 1), ROWS_MAX)]


def _tokens(piece: pa.Table, names: Sequence[str] | None, types: Sequence[Declared], cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """`row`, what to keep as `k0…`, the values still to be cast as `c0…`, `o0…` (they are out of range), `reason` and `fault` of the record."""
    texts, present = payloads(one_array(piece["payload"]))
    reasons, held = children(texts, present)
    reasons[~present] = why.TOMBSTONE
    if names is None:
        reasons[reasons == why.NOT_OBJECT] = why.FINE
        found = [_whole(texts)]
    else:
        found = picked(held, names)
    readable = reasons == why.FINE
    read = [made.read(tokens.having(readable), type_, cursor) for tokens, type_ in zip(found, types, strict=True)]
    reason, fault = _worst(reasons, read)
    arrays = {name: piece[name] for name in piece.column_names if name != "payload"}
    for i, column in enumerate(read):
        arrays |= {f"c{i}": column.array, f"o{i}": pa.array(column.reasons == why.OUT_OF_RANGE)}
    return pa.table({**arrays, "reason": pa.array(reason), "fault": pa.array(fault)})


def _whole(texts: Tokens) -> Tokens:
    """The payloads themselves as JSON tokens, without a BOM."""
    starts = texts.starts.copy()
    long = np.flatnonzero(texts.stops - starts >= len(_BOM))
    marked = np.logical_and.reduce([texts.data[starts[long] + i] == b for i, b in enumerate(_BOM)])
    starts[long[marked]] += len(_BOM)
    return Tokens(texts.data, np.full(len(starts), grammar.OBJECT, np.uint8), starts, texts.stops)


def _worst(reasons: Reasons, columns: Sequence[Column]) -> tuple[Reasons, np.ndarray]:
    """The reason of each record that counts, and the first column that has it (-1: none); OUT_OF_RANGE is left to the cast."""
    for column in columns:
        reasons = why.graver(reasons, np.where(column.reasons == why.OUT_OF_RANGE, why.FINE, column.reasons).astype(np.uint8))
    fault = np.full(len(reasons), -1, np.int16)
    for i, column in enumerate(columns):
        fault[(fault < 0) & (reasons != why.FINE) & (column.reasons == reasons)] = i
    return reasons, fault


def _stage(cursor: duckdb.DuckDBPyConnection, kept: int, types: Sequence[Declared]) -> None:
    """Cast. `fault` gets the first column whose type cannot hold its value."""
    values = [f"{made.cast(f'c{i}', type_)} AS v{i}" for i, type_ in enumerate(types)]
    beyond = [f"WHEN o{i} OR (v{i} IS NULL AND c{i} IS NOT NULL) THEN {i}" for i in range(len(types))]
    cursor.execute(
        f"CREATE OR REPLACE TEMP TABLE {_STAGED} AS SELECT row, {''.join(f'k{i}, ' for i in range(kept))}{', '.join(values)}, reason, "
        f"CASE WHEN reason <> {why.FINE} THEN fault {' '.join(beyond)} ELSE -1 END AS fault FROM {_TOKENS}"
    )


def _split(cursor: duckdb.DuckDBPyConnection, keep: Sequence[str], names: Sequence[str], into: str, rejects: str) -> None:
    kept = [f"k{i} AS {_quoted(name)}" for i, name in enumerate(keep)]
    values = [f"v{i} AS {_quoted(name)}" for i, name in enumerate(names)]
    fine = f"reason = {why.FINE} AND fault < 0"
    cursor.execute(f"CREATE TEMP TABLE {_quoted(into)} AS SELECT {', '.join(kept + values)} FROM {_STAGED} WHERE {fine}")
    cursor.execute(
        f"CREATE TEMP TABLE {_quoted(rejects)} AS SELECT row AS _row, "
        f"($words::VARCHAR[])[if(reason = {why.FINE}, {why.OUT_OF_RANGE}, reason) + 1] AS reason, "
        f'($names::VARCHAR[])[fault + 1] AS "column" FROM {_STAGED} WHERE NOT ({fine})',
        {"words": list(why.WORDS), "names": list(names)},
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
