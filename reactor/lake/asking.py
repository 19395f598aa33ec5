"""Questions of one row, and tables of ours to ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

COMBINED_BYTES_MAX = 2 * 1024 * 1024
"""Of a table that is copied into one piece before it is asked."""


def first_row(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
    """The first row of an answer; None if it has none. Raises `duckdb.Error`.

    The answer is read to its end. What is left of one ends with its cursor, by a ROLLBACK over the network during which the whole interpreter
    waits, and so for as long as PostgreSQL says nothing.
    """
    rows: list[tuple[Any, ...]] = cursor.execute(sql, parameters).fetchall()
    return rows[0] if rows else None


@contextmanager
def shown(cursor: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> Iterator[None]:
    """While this holds, the cursor sees an Arrow table under this name: only when it is asked for, as it takes DuckDB a millisecond.

    And a tenth of one for each of the table's pieces, so what is small is copied into one.
    """
    cursor.register(name, table.combine_chunks() if table.nbytes <= COMBINED_BYTES_MAX else table)
    try:
        yield
    finally:
        cursor.unregister(name)
