"""Questions of one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb


def first_row(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
    """The first row of an answer; None if it has none. Raises `duckdb.Error`.

    The answer is read to its end. What is left of one ends with its cursor, by a ROLLBACK over the network during which the whole interpreter
    waits, and so for as long as PostgreSQL says nothing.
    """
    rows: list[tuple[Any, ...]] = cursor.execute(sql, parameters).fetchall()
    return rows[0] if rows else None
