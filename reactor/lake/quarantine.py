"""Records that cannot become rows: set aside with their bytes, in the commit of the others (KF-11).

`_wm_rejects` gathers them while a run is staged, if there are any: record number, reason word, column, message. Once all are known, `_wm_quarantined` keeps
them with their bytes, and `write` inserts them into the lake's `_reactor_quarantine`, one table for all its assets.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reactor.domain.assets import LakeTable
from reactor.domain.runs import RunId
from reactor.errors import RunFailed
from reactor.lake.asking import first_row, shown
from reactor.lake.statements.quoting import identifier, literal
from reactor.lake.statements.staging import ROW

_REJECTS = 'temp."_wm_rejects"'
_RAW = "_wm_raw"
_QUARANTINED = 'temp."_wm_quarantined"'

REJECTED_ROWS_MAX = 1000
REJECTED_OF_MANY_MAX = 0.02
"""Where `REJECTED_ROWS_MAX` would be less: of what was read, however much of it one run happens to have. A backlog with one bad record in a
hundred is no worse than the same records one after the other."""
REJECTED_FRACTION_MAX = 0.10
FRACTION_FROM_ROWS = 100
"""Below so many records a fraction says nothing."""

NOT_COUNTED = "before_start"
"""The reason that no limit counts: old records of a topic are nobody's mistake."""

TABLE = "_reactor_quarantine"

_OF_RECORDS = ["source", "source_partition", "offset", "timestamp", "key", "headers", "value"]
"""Columns of the quarantine that are those of the raw records."""

_COLUMNS = """id UUID, asset VARCHAR, run_id UUID, reason VARCHAR, "column" VARCHAR, message VARCHAR, source VARCHAR, source_partition VARCHAR,
  "offset" BIGINT, object VARCHAR, "timestamp" TIMESTAMPTZ, "key" BLOB, headers STRUCT("name" VARCHAR, "value" BLOB)[], "value" BLOB,
  quarantined_at TIMESTAMPTZ"""


def quarantine_table(table: LakeTable) -> LakeTable:
    """The quarantine of the lake that a table is in."""
    return LakeTable(table.lake, "main", TABLE)


def set_aside(cursor: duckdb.DuckDBPyConnection, select: str) -> int:
    """Gather the (record number, reason, column, message) of a query; how many they are."""
    cursor.execute(f'CREATE TEMP TABLE IF NOT EXISTS "_wm_rejects" ({identifier(ROW)} BIGINT, reason VARCHAR, "column" VARCHAR, message VARCHAR)')
    (count,) = first_row(cursor, f"INSERT INTO {_REJECTS} {select}") or (0,)
    return int(count)


def must_be_few(cursor: duckdb.DuckDBPyConnection, rejected: int, records: int, among: int, *, sliced: bool) -> None:
    """Raises RunFailed if the records that are set aside are too many to be accidents.

    `among`: of how many that were read the records are what belongs to this run. `sliced`: some of them have a slice; those that have none come without
    their neighbours, so their part is that of what was read.
    """
    if not rejected:
        return
    (counted,) = first_row(cursor, f"SELECT count(*) FROM {_REJECTS} WHERE reason <> ?", [NOT_COUNTED]) or (0,)
    of = records if sliced else max(records, among)
    too_many = counted > max(REJECTED_ROWS_MAX, REJECTED_OF_MANY_MAX * max(records, among))
    if too_many or (of >= FRACTION_FROM_ROWS and counted > REJECTED_FRACTION_MAX * of):
        reasons = cursor.execute(f"SELECT reason, count(*) FROM {_REJECTS} GROUP BY ALL ORDER BY 2 DESC, 1").fetchall()
        said = ", ".join(f"{n} {reason}" for reason, n in reasons)
        raise RunFailed(f"{counted} of {records} records cannot become rows ({said}): that is no accident",
                        hint="mend the producer or the script; `runs retry --quarantine --reason …` sets them aside all the same")


def keep_bytes(cursor: duckdb.DuckDBPyConnection, raw: pa.Table) -> None:
    """Keep the bytes of what is set aside; then the raw records are not needed any more.

    `raw`: their number, the columns of a span, `source` and `source_partition`.
    """
    rejects = cursor.execute(f'SELECT {identifier(ROW)}, reason, "column", message FROM {_REJECTS} ORDER BY {identifier(ROW)}').to_arrow_table()
    records = _taken(raw.select(_OF_RECORDS), rejects[ROW].to_numpy())  # DuckDB would read all of them to find a few
    for name in ("reason", "column", "message"):
        records = records.append_column(name, rejects[name])
    with shown(cursor, _RAW, records):
        cursor.execute(f'CREATE OR REPLACE TEMP TABLE "_wm_quarantined" AS FROM {identifier(_RAW)}')


def _taken(raw: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """These rows, which are in order. Piece by piece: of a table in pieces Arrow copies all into one before it takes any."""
    found, at = [], 0
    for piece in raw.to_batches():
        lo, hi = np.searchsorted(rows, [at, at + piece.num_rows])
        if lo < hi:
            found.append(piece.take(pa.array(rows[lo:hi] - at)))
        at += piece.num_rows
    return pa.Table.from_batches(found, raw.schema)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What a run sets aside: `rows` records of one asset. `folder`: of the table, where it was there already."""

    table: LakeTable
    asset: str
    rows: int
    folder: str | None = None

    def create(self) -> str:
        """Make the table, if it is the lake's first."""
        return f"CREATE TABLE IF NOT EXISTS {self.table.sql} ({_COLUMNS})"

    def insert(self, run_id: RunId) -> str:
        """The records of a run."""
        return (
            f"INSERT INTO {self.table.sql} BY NAME SELECT uuidv7() AS id, {literal(self.asset)} AS asset, {literal(str(run_id))}::UUID AS run_id,"
            f" now() AS quarantined_at, q.* FROM {_QUARANTINED} AS q"
        )
