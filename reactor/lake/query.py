"""Looking at rows from outside of a run: `reactor query`, with lakes that nobody can write through it (FH-1)."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pyarrow as pa

from reactor.errors import RunBlocked, UsageError
from reactor.lake.session import Instance, InstanceSettings

ROWS_MAX = 1000
"""Rows that a query gives, unless told otherwise."""

_LOOKS = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}


def query(settings: InstanceSettings, sql: str, rows_max: int | None = ROWS_MAX) -> pa.Table:
    """The rows of one SELECT, EXPLAIN, DESCRIBE or PIVOT, at most `rows_max` of them (None: all).

    Opens the lakes for reading only, and for this query alone. Raises `UsageError` for any other statement and for one that does not
    bind, `RunFailed`, `Outage`.
    """
    instance = Instance(replace(settings, read_only=True))
    try:
        with instance.lent("the query") as cursor:
            result = cursor.execute(_one_look(cursor, sql))
            if rows_max is None:
                return result.to_arrow_table()
            return _first(result.to_arrow_reader(rows_max), rows_max)
    except RunBlocked as error:
        raise UsageError(str(error.args[0])) from error
    finally:
        instance.retire()


def _first(reader: pa.RecordBatchReader, rows_max: int) -> pa.Table:
    batches, rows = [], 0
    while rows < rows_max and (batch := next(reader, None)) is not None:
        batches.append(batch.slice(0, rows_max - rows))
        rows += batches[-1].num_rows
    return pa.Table.from_batches(batches, reader.schema)


def _one_look(cursor: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The text itself. A PIVOT without its list of values is split: a CREATE that nobody wrote goes before its SELECT."""
    statements = cursor.extract_statements(sql)
    made = [statement.type == duckdb.StatementType.CREATE and not statement.query for statement in statements[:-1]]
    if not statements or statements[-1].type not in _LOOKS or not all(made):
        said = ", ".join(statement.type.name for statement in statements) or "nothing"
        raise UsageError(f"a query is one SELECT, not {said}", hint="rows are written by scripts: reactor run")
    return sql
