"""What the tests of the room share: a decoded batch as Python values, and columns as a script writes them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa

from reactor.domain.scripts import BatchColumn
from reactor.lake.decoding.payload import decode

Cells = Mapping[str, str | None]
HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class Decoded:
    """By record number: the cells of the accepted ones as text, (reason, column) of the others."""

    rows: Mapping[int, Cells]
    rejects: Mapping[int, tuple[str, str | None]]


@contextmanager
def cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor of the session's engine; its temp tables go with it."""
    with closing(_engine().cursor()) as own:
        own.execute("SET TimeZone = 'UTC'")
        yield own


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 2})


def columns_of(text: str) -> list[BatchColumn]:
    """`a BIGINT, "b c" DECIMAL(12,2)[]` as the header's reader would give it."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t ({text})")
        return [BatchColumn(name, kind) for name, kind, *_ in connection.execute("DESCRIBE t").fetchall()]


def records(values: Sequence[bytes | None]) -> pa.Table:
    return pa.table({"_row": pa.array(range(len(values)), pa.int64()), "value": pa.array(values, pa.binary())})


def decoded(values: Sequence[bytes | str | None], columns: Sequence[BatchColumn] | str | None) -> Decoded:
    """Decode values into columns (text: as a script declares them; None: the payload itself)."""
    declared = columns_of(columns) if isinstance(columns, str) else columns
    names = ["value"] if declared is None else [column.name for column in declared]
    with cursor() as own:
        found = decode(own, records([v.encode() if isinstance(v, str) else v for v in values]), declared, ["_row"], "good", "bad")
        cells = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in names)
        rows = {n: dict(zip(names, values, strict=True)) for n, *values in own.execute(f"SELECT _row, {cells} FROM good").fetchall()}
        rejects = {n: (reason, column) for n, reason, column in (own.execute("SELECT * FROM bad").fetchall() if found.rejected else ())}
    assert len(rejects) == found.rejected
    assert found.accepted is None or list(np.flatnonzero(found.accepted)) == sorted(rows)
    assert sorted([*rows, *rejects]) == list(range(len(values)))
    return Decoded(rows, rejects)


def one(value: bytes | str, type_: str) -> str | tuple[str] | None:
    """The cell of `{"a": <value>}` in a column `a` of a type, or (reason,)."""
    text = value.encode() if isinstance(value, str) else value
    found = decoded([b'{"a":7}', b'{"a":' + text + b"}", b'{"a":7}'], [BatchColumn("a", type_)])
    return found.rows[1]["a"] if 1 in found.rows else (found.rejects[1][0],)


def span_records(
    values: Sequence[str | bytes | None], *, headers: Sequence[Sequence[tuple[str, str | bytes | None]]] | None = None, timestamps: Sequence[int | None] | None = None,
) -> pa.Table:
    """Records as a span holds them."""
    count = len(values)
    lists = [[{"name": name, "value": text.encode() if isinstance(text, str) else text} for name, text in own] for own in headers or [[]] * count]
    return pa.table({
        "offset": pa.array(range(count), pa.int64()), "timestamp": pa.array(timestamps or [0] * count, pa.timestamp("ms", "UTC")),
        "key": pa.nulls(count, pa.binary()), "value": pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary()),
        "headers": pa.array(lists, HEADERS),
    })  # fmt: skip
