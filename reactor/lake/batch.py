"""The records of a run: from the pieces that the core carried to the table `_wm_batch` that the script reads.

The records as they came stay Arrow: their numbers, bytes and origin; only what is set aside is ever copied from there. `_wm_batch` shows the
decoded columns, those of the metadata that the script can see (`named_columns`), and hidden ones. Records are numbered by slice, and within a
slice in the order of their offsets, so a slice is a range of numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa

from reactor.domain.partitions import MICROSECONDS
from reactor.domain.scripts import Partitioning, Script
from reactor.domain.spans import UNROUTED, SourcePartition
from reactor.lake.asking import first_row, shown
from reactor.lake.decoding import payload
from reactor.lake.decoding.columns import read_exactly
from reactor.lake.decoding.event_time import read_event_times
from reactor.lake.decoding.kept import without_rare
from reactor.lake.decoding.scanner import Mask
from reactor.lake.evaluate import Records
from reactor.lake.quarantine import set_aside
from reactor.lake.rows import Rows
from reactor.lake.statements.carry import BATCH, carrying
from reactor.lake.statements.quoting import identifier, literal
from reactor.lake.statements.reading import named_columns
from reactor.lake.statements.staging import ROW, SLICE
from reactor.ports import SliceInput

METADATA: Mapping[str, str] = {
    "_topic": "VARCHAR", "_source_partition": "INTEGER", "_offset": "BIGINT", "_timestamp": "TIMESTAMP WITH TIME ZONE", "_key": "BLOB",
    "_headers": 'STRUCT("name" VARCHAR, "value" BLOB)[]', "value": "JSON",
}  # fmt: skip
"""Columns of `batch` beside the declared ones, with their types. Without declared ones `value` is the payload (`format=raw`: a BLOB)."""

AHEAD_SECONDS_MAX = 300
"""An event time further ahead of now is that of a clock that is wrong: the row is kept, and counted."""

TOMBSTONE = "tombstone"
_DECODABLE, _DECODED, _UNDECODED, _KEPT = "_wm_decodable", "_wm_decoded", "_wm_undecoded", "_wm_kept"

_NO_RECORDS = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("key", pa.binary()), ("value", pa.binary()),
    ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batch:
    """The decoded records of an order. `raw`: as they came, with their numbers, `source` and `source_partition`.

    `total`: all of them, tombstones and unrouted ones too; `tombstones`: those that are no rows; `rejected`: those that are set aside.

    `among`: of how many offsets the slice that spans most of them is a part. `skewed`: those whose event time lies more than
    `AHEAD_SECONDS_MAX` ahead of now; `duplicates`: those that were settled before, and left out.
    """

    records: Records
    raw: pa.Table
    total: int
    among: int
    tombstones: int
    rejected: int
    skewed: int
    duplicates: int


@dataclass(slots=True)
class _Gathered:
    """The records of all pieces, one behind the other, and where each came from. `latest_micros`: an event time beyond it is skewed."""

    partitioning: Partitioning | None
    latest_micros: int
    skewed: int = 0
    duplicates: int = 0
    tables: list[pa.Table] = field(default_factory=list)
    origins: list[SourcePartition] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    reasons: list[pa.Array] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(self.lengths)

    def add(self, part: tuple[SourcePartition, int, int, object]) -> None:
        """Raises TypeError for a payload that is not ours."""
        origin, lo, _, payload = part
        if not isinstance(payload, Rows):
            raise TypeError(f"a piece of {origin} holds {type(payload).__name__}, no rows")
        records, settled = payload.records, 0
        if records.num_rows and records["offset"][0].as_py() < lo:
            settled = int(np.searchsorted(records["offset"].to_numpy(), lo))
            records = records.slice(settled)
            self.duplicates += settled
        if self.partitioning is not None and payload.newest_micros is not None and payload.newest_micros > self.latest_micros:
            times = read_event_times(records, self.partitioning.event_time)
            ahead = times.micros > self.latest_micros
            self.skewed += int(np.count_nonzero(ahead & times.reasons.is_null().to_numpy(zero_copy_only=False)))
        self.tables.append(records)
        self.origins.append(origin)
        self.lengths.append(records.num_rows)
        if payload.reasons is not None:  # only where they have no slice
            self.reasons.append(payload.reasons.slice(settled))

    def constant(self, values: Sequence[object], kind: pa.DataType) -> pa.DictionaryArray:
        """One value for each piece, as that of all its records."""
        pieces = np.repeat(np.arange(len(values), dtype=np.int32), self.lengths)
        return pa.DictionaryArray.from_arrays(pieces, pa.array(values, kind))

    def raw(self) -> pa.Table:
        """See `Batch.raw`."""
        tables = self.tables or [_NO_RECORDS.empty_table()]
        alike = all(table.schema == tables[0].schema for table in tables)
        records = pa.concat_tables(tables) if alike else pa.concat_tables(without_rare(tables), promote_options="permissive")
        numbers = pa.array(np.arange(self.rows))
        sources = self.constant([origin.source for origin in self.origins], pa.string())
        partitions = self.constant([origin.number for origin in self.origins], pa.string())
        return records.append_column("_row", numbers).append_column(ROW, numbers).append_column("source", sources).append_column(
            "source_partition", partitions
        )


def gather(cursor: duckdb.DuckDBPyConnection, script: Script, slices: Sequence[SliceInput]) -> Batch:
    """Decode the records of an order. Raises `duckdb.Error`."""
    gathered, bounds = _Gathered(script.header.partitioned, int((time.time() + AHEAD_SECONDS_MAX) * MICROSECONDS)), [0]
    routed = [s for s in slices if s.asset_partition != UNROUTED]
    for one in (*routed, *(s for s in slices if s.asset_partition == UNROUTED)):
        for part in one.parts:
            gathered.add(part)
        bounds.append(gathered.rows)
    raw, decodable = gathered.raw(), bounds[len(routed)]
    unplaced, tombstones = _set_unrouted_aside(cursor, gathered, decodable)
    ranges = tuple(pairwise(bounds[: len(routed) + 1]))
    batch = _Decoding(cursor, script, gathered, [s.asset_partition for s in routed], bounds)
    decoded = batch.decode(raw.slice(0, decodable))
    accepted_rows = None if decoded.accepted is None else [int(np.count_nonzero(decoded.accepted[lo:hi])) for lo, hi in ranges]
    records = Records(ranges, batch.hidden, batch.exact, accepted_rows)
    among = max((sum(hi - lo for _, lo, hi, _ in s.parts) for s in slices), default=0)
    return Batch(
        records, raw, gathered.rows, among, tombstones + decoded.tombstones, unplaced + decoded.rejected, gathered.skewed, gathered.duplicates
    )


def forget(cursor: duckdb.DuckDBPyConnection) -> None:
    """Give the memory of the records back, unless the stage is a view of them: what is staged and what is set aside have their own."""
    for view in ("batch", BATCH):
        cursor.execute(f"DROP VIEW IF EXISTS temp.{identifier(view)}")
    cursor.execute(f"DROP TABLE IF EXISTS temp.{identifier(_KEPT)}")
    payload.forget(cursor, _DECODED)


def _set_unrouted_aside(cursor: duckdb.DuckDBPyConnection, gathered: _Gathered, first: int) -> tuple[int, int]:
    """All records without a slice, with their reasons: how many, and how many tombstones, which have nothing to set aside."""
    if not gathered.reasons:
        return 0, 0
    reasons = pa.chunked_array(gathered.reasons, pa.string())
    numbers = pa.array(np.arange(first, first + len(reasons)))
    with shown(cursor, _UNDECODED, pa.table({"number": numbers, "reason": reasons})):
        rejected = set_aside(cursor, f"SELECT number, reason, NULL, NULL FROM {_UNDECODED} WHERE reason <> {literal(TOMBSTONE)}")
    return rejected, len(reasons) - rejected


@dataclass(frozen=True, slots=True)
class _Decoded:
    """What came of the records of all slices. `accepted`: which are rows; None where that is not known here."""

    rejected: int
    tombstones: int
    accepted: Mask | None


@dataclass(slots=True)
class _Decoding:
    """One decoding: of which records, into which columns."""

    cursor: duckdb.DuckDBPyConnection
    script: Script
    gathered: _Gathered
    slices: Sequence[str]
    bounds: Sequence[int]

    @property
    def hidden(self) -> tuple[str, ...]:
        """The hidden columns of `_wm_batch`; of one slice alone nobody asks which it is."""
        return (ROW, SLICE) if len(self.slices) > 1 else (ROW,)

    @property
    def exact(self) -> frozenset[str]:
        """See `Records`. The payload itself is checked with every cast."""
        declared = {column.name.lower(): read_exactly(column.type) for column in self.script.header.batch or ()}
        return frozenset(name for name in (METADATA.keys() - {"value"}) | declared.keys() if declared.get(name, True))

    @property
    def metadata(self) -> tuple[str, ...]:
        """The metadata that the script may see and does not declare."""
        declared = {column.name.lower() for column in self.script.header.batch or ()}
        free = [name for name in METADATA if name not in declared and (name != "value" or self.script.header.batch is not None)]
        seen = named_columns((*self.script.body.setup, self.script.body.select), free)
        return tuple(name for name in free if name in seen)

    def decode(self, raw: pa.Table) -> _Decoded:
        """Make `_wm_batch`, and set aside what cannot be decoded.

        A plain SELECT reads each record once, and reads it where it was decoded; for any other the records are copied into a table.
        """
        records = self._with_metadata(raw)
        if self.script.reads_bytes:  # a payload is what it is, and an absent one too
            columns = ", ".join(identifier(name) for name in (*self.metadata, *self.hidden, "value"))
            with shown(self.cursor, _DECODABLE, records):
                self.cursor.execute(f"CREATE TEMP TABLE {identifier(_KEPT)} AS SELECT {columns} FROM {_DECODABLE}")
            self._show(_KEPT)
            return _Decoded(0, 0, None)
        return self._decode(records)

    def _decode(self, records: pa.Table) -> _Decoded:
        keep, nulls = [*self.metadata, *self.hidden], records["value"].null_count
        copied = nulls or carrying(self.script.body.select, self.hidden) is None
        into = _DECODED if copied or "value" in self.metadata else BATCH
        decoded = payload.decode(self.cursor, records, self.script.header.batch, keep, into, _UNDECODED)
        if copied:
            self.cursor.execute(f"CREATE TEMP TABLE {identifier(_KEPT)} AS SELECT * FROM temp.{identifier(_DECODED)}")
        if into != BATCH:
            self._show(_KEPT if copied else _DECODED)
        tombstones, rejected = self._tombstones(records, keep) if nulls else 0, 0
        if decoded.rejected:
            undecoded = f"temp.{identifier(_UNDECODED)}"
            rejected = set_aside(self.cursor, f'SELECT _row, reason, "column", NULL FROM {undecoded} WHERE reason <> {literal(TOMBSTONE)}')
            self.cursor.execute(f"DROP TABLE {undecoded}")
        return _Decoded(rejected, tombstones, None if nulls else decoded.accepted)

    def _show(self, relation: str) -> None:
        """Make `_wm_batch` of a relation with all its columns."""
        self.cursor.execute(f"CREATE TEMP VIEW {identifier(BATCH)} AS SELECT {', '.join(self._columns())} FROM temp.{identifier(relation)}")

    def _columns(self) -> list[str]:
        """The declared ones, then the metadata, then the hidden ones."""
        declared = [column.name for column in self.script.header.batch] if self.script.header.batch is not None else ["value"]
        columns = [identifier(name) for name in (*declared, *self.metadata, *self.hidden)]
        if "value" in self.metadata:  # bytes so far; a byte order mark is no JSON
            columns[columns.index('"value"')] = 'CAST(ltrim(decode("value"), chr(65279)) AS JSON) AS "value"'
        return columns

    def _with_metadata(self, raw: pa.Table) -> pa.Table:
        """The raw records with the metadata and hidden columns under the names that the script knows."""
        origins = self.gathered.origins
        made = {
            "_topic": lambda: self._constant([origin.source.rpartition("/")[2] for origin in origins], pa.string(), raw),
            "_source_partition": lambda: self._constant([_number(origin) for origin in origins], pa.int32(), raw),
            "_offset": lambda: raw["offset"], "_timestamp": lambda: raw["timestamp"], "_key": lambda: raw["key"], "_headers": lambda: raw["headers"],
        }  # fmt: skip
        for name in self.metadata:
            if name in made:
                raw = raw.append_column(name, made[name]())
        if SLICE in self.hidden:
            lengths = np.diff(self.bounds[: len(self.slices) + 1])
            places = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
            raw = raw.append_column(SLICE, pa.DictionaryArray.from_arrays(places, pa.array(self.slices, pa.string())))
        return raw

    def _constant(self, values: Sequence[object], kind: pa.DataType, raw: pa.Table) -> pa.Array:
        return self.gathered.constant(values, kind).slice(0, raw.num_rows).dictionary_decode()

    def _tombstones(self, records: pa.Table, keep: Sequence[str]) -> int:
        """Rows of NULL for those that the script wants, behind the others; how many it does not want."""
        columns = ", ".join(identifier(name) for name in keep)
        sources = self._wanted_tombstones()
        wanted = "true" if sources is None else f"source IN ({', '.join(map(literal, sources))})" if sources else "false"
        with shown(self.cursor, _DECODABLE, records):
            self.cursor.execute(f"INSERT INTO temp.{identifier(_KEPT)} BY NAME SELECT {columns} FROM {_DECODABLE} WHERE value IS NULL AND {wanted}")
            row = first_row(self.cursor, f"SELECT count(*) FROM {_DECODABLE} WHERE value IS NULL AND NOT ({wanted})")
        return int(row[0]) if row else 0

    def _wanted_tombstones(self) -> list[str] | None:
        """The sources whose tombstones become rows; None: all of them, because nothing is declared that they lack."""
        if self.script.header.batch is None:
            return None
        return [edge.uri for edge in self.script.edges if ("tombstones", "row") in edge.options]


def _number(origin: SourcePartition) -> int | None:
    return int(origin.number) if origin.number.isdigit() else None
