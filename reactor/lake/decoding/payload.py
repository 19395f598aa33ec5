"""Payloads into typed columns: the accepted records in a view of Arrow, the others, if there are any, with their reasons in a temp table."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import pairwise

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reactor.domain.scripts import BatchColumn
from reactor.lake.asking import first_row, shown
from reactor.lake.decoding import grammar
from reactor.lake.decoding import reasons as why
from reactor.lake.decoding.columns import Column, bounded, cast, read
from reactor.lake.decoding.kept import kept
from reactor.lake.decoding.reasons import Reasons
from reactor.lake.decoding.scanner import Mask
from reactor.lake.decoding.tokens import Tokens, members, one_array, payloads
from reactor.lake.decoding.types import Declared, declared
from reactor.lake.statements.quoting import identifier, literal

PIECE_BYTES = 2 * 1024 * 1024
"""Payloads that one thread reads at once; its own memory is some four times as much."""
ROW_BYTES = 64
"""What a record weighs in a piece beyond its payload."""

_READ, _BAD = "_wm_read", "_wm_bad"
_ALL_OF_IT = "TABLESAMPLE SYSTEM (100 PERCENT)"
"""Each row, and no filter goes beyond it: DuckDB 1.5 hands what it can to Arrow, by values that it makes Python objects, so `IN` a list of TIMESTAMP_NS
finds nothing, and one of TIMESTAMPTZ wants a package that is not there."""
_BOM = b"\xef\xbb\xbf"
_WHOLE = BatchColumn("value", "JSON")


@dataclass(frozen=True, slots=True)
class Decoded:
    """How many records are rejected, and which are not, in their order; None where only a cast knows."""

    rejected: int
    accepted: Mask | None


def decode(
    cursor: duckdb.DuckDBPyConnection, raw: pa.Table, columns: Sequence[BatchColumn] | None, keep: Sequence[str], into: str, rejects: str,
) -> Decoded:
    """Decode records into a new TEMP view and, if some are rejected, a new TEMP table; each is in exactly one of them.

    `raw` has `_row` BIGINT (unique), `value` BLOB and the columns to `keep`.
    `into`, a view of memory that is held until `forget`: the declared ones with their types, then those; with `columns` None the payload itself,
    `value` JSON: any JSON text, as it came (without a BOM). `rejects`: `_row` BIGINT, `reason` VARCHAR (conventions 11), `column` VARCHAR
    (the declared column at fault, or NULL); a NULL `value` is rejected as `tombstone`. A cursor has one such view at a time. Raises ValueError
    for a type that `decodable` refuses, and `duckdb.Error`.
    """
    plan = _Plan.of(columns, keep)
    found = _in_threads(cursor, raw, plan)
    reasons = found["reason"].to_numpy()
    fine = reasons == why.FINE
    rejected, beyond = len(fine) - int(np.count_nonzero(fine)), False
    cursor.register(_READ, found)
    try:
        cursor.execute(f"CREATE TEMP VIEW {identifier(into)} AS {plan.rows(all_fine=not rejected)}")
        if plan.bounded:
            (accepted,) = first_row(cursor, f"SELECT count(*) FROM temp.{identifier(into)}") or (0,)
            rejected = raw.num_rows - accepted
            beyond = rejected > int(np.count_nonzero(~np.isin(reasons, (why.FINE, why.OUT_OF_RANGE))))
        if rejected:
            with nullcontext() if beyond else shown(cursor, _BAD, _taken(found, ~fine)):  # DuckDB would read all of them to find a few
                cursor.execute(f"CREATE TEMP TABLE {identifier(rejects)} AS {plan.rejected(beyond=beyond)}")
    except duckdb.Error:
        cursor.unregister(_READ)
        raise
    return Decoded(rejected, None if plan.bounded else fine)


def forget(cursor: duckdb.DuckDBPyConnection, into: str) -> None:
    """Drop the view that `decode` has made, if it has, and let go of what it shows."""
    cursor.execute(f"DROP VIEW IF EXISTS temp.{identifier(into)}")
    cursor.unregister(_READ)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is read from each record. Columns of the read table: `row`, `k0…` (kept), `c0…` (to be cast), `reason`, `fault`."""

    columns: Sequence[BatchColumn]
    types: Sequence[Declared]
    keep: Sequence[str]
    whole: bool

    @classmethod
    def of(cls, columns: Sequence[BatchColumn] | None, keep: Sequence[str]) -> _Plan:
        wanted = [_WHOLE] if columns is None else columns
        return cls(wanted, [declared(column.type) for column in wanted], list(keep), columns is None)

    @property
    def names(self) -> Sequence[str]:
        return [column.name for column in self.columns]

    @property
    def bounded(self) -> bool:
        """Whether the view leaves out records that reading has accepted."""
        return any(map(bounded, self.types))

    def kept(self, records: pa.Table) -> pa.Table | None:
        """The records as they were read when they got their slice by their payloads, which therefore can be read; None: not all were."""
        values = None if self.whole else kept(records, self.columns)
        return None if values is None else self._table(records, np.zeros(records.num_rows, np.uint8), values)

    def read(self, cursor: duckdb.DuckDBPyConnection, records: pa.Table) -> pa.Table:
        """The records read as far as their texts tell."""
        if (before := self.kept(records)) is not None:
            return before
        texts, present = payloads(one_array(records["value"]))
        reasons, found = members(texts, present, [] if self.whole else self.names)
        reasons[~present] = why.TOMBSTONE
        if self.whole:
            reasons[reasons == why.NOT_OBJECT] = why.FINE
            found = [_without_bom(texts).having(reasons == why.FINE)]
        return self._table(records, reasons, [read(tokens, type_, cursor) for tokens, type_ in zip(found, self.types, strict=True)])

    def _table(self, records: pa.Table, reasons: Reasons, values: Sequence[Column]) -> pa.Table:
        reasons, fault = _worst(reasons, values)
        carried = {f"k{i}": one_array(records[name]) for i, name in enumerate(self.keep)}
        cells = {f"c{i}": column.array for i, column in enumerate(values)}
        return pa.table({"row": records["_row"], **carried, **cells, "reason": pa.array(reasons), "fault": pa.array(fault)})

    def rows(self, *, all_fine: bool) -> str:
        """SQL: the rows of `into`. `all_fine`: reading has accepted all; to leave out none of them would copy each."""
        left_out = [*([] if all_fine else [f"reason <> {why.FINE}"]), *self._beyond().values()]
        where = f" WHERE NOT ({' OR '.join(left_out)})" if left_out else ""
        kept = [f"k{i} AS {identifier(name)}" for i, name in enumerate(self.keep)]
        values = [f"v{i} AS {identifier(name)}" for i, name in enumerate(self.names)]
        return f"SELECT {', '.join(values + kept)} FROM ({self._cast()}){where}"

    def rejected(self, *, beyond: bool) -> str:
        """SQL: the rows of `rejects`. `beyond`: a record is out of range, and its first such column is to be found."""
        said = f'({_list(why.WORDS)})[reason + 1] AS reason, ({_list(self.names)})[fault + 1] AS "column"'
        if not beyond:
            return f"SELECT row AS _row, {said} FROM {_BAD}"
        tests = self._beyond()
        first = f"CASE {' '.join(f'WHEN {test} THEN {i}' for i, test in tests.items())} ELSE NULL END" if tests else "NULL"
        known = f"if(reason = {why.FINE}, NULL, fault)"
        fault = f"if(reason IN ({why.FINE}, {why.OUT_OF_RANGE}), least({known}, {first}), fault) AS fault"
        bad = " OR ".join([f"reason <> {why.FINE}", *tests.values()])
        return f"SELECT _row, {said} FROM (SELECT row AS _row, if(reason = {why.FINE}, {why.OUT_OF_RANGE}, reason) AS reason, {fault} FROM ({self._cast()}) WHERE {bad})"

    def _cast(self) -> str:
        values = [f"{cast(f'c{i}', type_)} AS v{i}" for i, type_ in enumerate(self.types)]
        return f"SELECT {', '.join(['*', *values])} FROM {_READ} {_ALL_OF_IT}"

    def _beyond(self) -> dict[int, str]:
        """SQL: whether its type cannot hold the value of a column, by the column's index."""
        return {i: f"(c{i} IS NOT NULL AND v{i} IS NULL)" for i, type_ in enumerate(self.types) if bounded(type_)}


def _in_threads(cursor: duckdb.DuckDBPyConnection, records: pa.Table, plan: _Plan) -> pa.Table:
    """Read pieces of the records side by side, as many as DuckDB has threads; each asks DuckDB with a cursor of its own."""
    if (before := plan.kept(records)) is not None:
        return before
    pieces = _pieces(records)
    if len(pieces) == 1:
        return plan.read(cursor, records)
    (threads,) = first_row(cursor, "SELECT current_setting('threads')") or (1,)
    cursors = [cursor.cursor() for _ in pieces]

    def one(work: tuple[duckdb.DuckDBPyConnection, pa.Table]) -> pa.Table:
        with closing(work[0]):
            return plan.read(*work)

    with ThreadPoolExecutor(threads, "decoding") as pool:
        return pa.concat_tables(pool.map(one, zip(cursors, pieces, strict=True)))


def _pieces(records: pa.Table) -> list[pa.Table]:
    """Cut where the payloads so far fill one more piece."""
    weights = pc.binary_length(records["value"]).fill_null(0).to_numpy().astype(np.int64) + ROW_BYTES
    filled = np.cumsum(weights) // PIECE_BYTES
    bounds = [0, *(np.flatnonzero(np.diff(filled)) + 1), records.num_rows]
    return [records.slice(lo, hi - lo) for lo, hi in pairwise(bounds)]


def _taken(found: pa.Table, bad: Mask) -> pa.Table:
    """Which records are rejected, and why."""
    return pa.table({name: found[name].to_numpy()[bad] for name in ("row", "reason", "fault")})


def _list(texts: Sequence[str | None]) -> str:
    return f"[{', '.join('NULL' if text is None else literal(text) for text in texts)}]::VARCHAR[]"


def _without_bom(texts: Tokens) -> Tokens:
    """The payloads themselves as JSON tokens."""
    starts = texts.starts.copy()
    long = np.flatnonzero(texts.stops - starts >= len(_BOM))
    marked = np.logical_and.reduce([texts.data[starts[long] + i] == b for i, b in enumerate(_BOM)])
    starts[long[marked]] += len(_BOM)
    return Tokens(texts.data, np.full(len(starts), grammar.OBJECT, np.uint8), starts, texts.stops)


def _worst(reasons: Reasons, columns: Sequence[Column]) -> tuple[Reasons, npt.NDArray[np.int16]]:
    """The reason of each record that counts, and the first column that has it (-1: none)."""
    for column in columns:
        reasons = why.graver(reasons, column.reasons)
    fault, bad = np.full(len(reasons), -1, np.int16), np.flatnonzero(reasons)
    for i in reversed(range(len(columns))):
        fault[bad[columns[i].reasons[bad] == reasons[bad]]] = i
    return reasons, fault
