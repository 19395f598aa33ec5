"""`reactor query`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from itertools import count
from typing import Annotated

import pyarrow as pa
import typer

from reactor.cli.answers import Json, as_json, table
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.database import at_hand
from reactor.errors import UsageError
from reactor.lake.query import ROWS_MAX, query
from reactor.wiring import lake_settings, state_url

app = verbs()


@app.command(name="query", epilog=example('reactor query "SELECT * FROM orders_daily ORDER BY total DESC" --limit 20'))
@verb
def query_rows(
    call: Call,
    sql: Annotated[str, typer.Argument(help="One SELECT; the default lake's tables need no lake's name.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000_000, help="Rows at most.")] = ROWS_MAX,
    as_csv: Annotated[bool, typer.Option("--csv", help="The rows as CSV.")] = False,
) -> None:
    """Look at rows of the lakes. Nothing can be written.

    With --json: {columns: [{name, type}], rows: [{name: value}]}; decimals and times are text there, so that they stay exact.
    """
    if as_csv and call.flags.json:
        raise UsageError("--csv and --json cannot both be meant")
    opened = call.open()
    with at_hand(call, opened.project), call.limited():
        rows = query(lake_settings(opened.project, state_url(opened.project)), sql, limit + 1)
    if rows.num_rows > limit:
        call.warn(f"there are more rows than the {limit} that are shown: --limit")
        rows = rows.slice(0, limit)
    if as_csv:
        _write_csv(rows)
        return
    names = unique(rows.column_names)
    columns = [{"name": name, "type": str(field.type)} for name, field in zip(names, rows.schema, strict=True)]
    found = [[plain(value) for value in row] for row in _rows(rows)]
    data = {"columns": columns, "rows": [dict(zip(names, row, strict=True)) for row in found]}
    call.answer(data, lambda: table(names, ([cell(value) for value in row] for row in found), right=_numbers(rows, names)))


def unique(names: Sequence[str]) -> Sequence[str]:
    """Column names, each once, as DuckDB calls them below a SELECT: `a`, `a_1`."""
    found: dict[str, None] = {}
    for name in names:
        free = (f"{name}_{n}" for n in count(1))
        found[name if name not in found else next(other for other in free if other not in found)] = None
    return list(found)


def _rows(rows: pa.Table) -> Iterator[Sequence[object]]:
    """Row by row. Python has no times of nanoseconds, so those are text at once."""
    exact = [column.cast(pa.string()) if pa.types.is_timestamp(column.type) and column.type.unit == "ns" else column for column in rows.columns]
    return zip(*(column.to_pylist() for column in exact), strict=True)


def plain(value: object) -> Json:
    """A value as JSON has it, exactly: times in ISO 8601 (with `Z` if they have a zone), decimals as text, bytes as hexadecimal."""
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case dict():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
    return as_json(value)


def cell(value: Json) -> str:
    """A value as people read it: a NULL is empty, nested values are JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _numbers(rows: pa.Table, names: Sequence[str]) -> set[str]:
    def counts(kind: pa.DataType) -> bool:
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))

    return {name for name, field in zip(names, rows.schema, strict=True) if counts(field.type)}


def _write_csv(rows: pa.Table) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows([cell(plain(value)) for value in row] for row in _rows(rows))
