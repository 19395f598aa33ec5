"""The shortest ways to run managed scripts in a lake and to look at what became of it."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from reactor.domain.partitions import window
from reactor.domain.runs import PartitionCounts, RunId, Strategy, new_run_id
from reactor.domain.scripts import BatchColumn, Body, Edge, Header, Materialize, Partitioning, Routing, Script, ScriptPath
from reactor.domain.spans import SourcePartition
from reactor.lake.ducklake import DuckLake
from reactor.lake.materialize import StagedRun
from reactor.lake.split import ArrowSplitter
from reactor.ports import Drift, RawSpan, SliceInput, StageOrder

DAILY = Partitioning("daily")
DYNAMIC = Partitioning("dynamic", key=("k",))


def a_run() -> RunId:
    return new_run_id(time.time(), os.urandom(10))


def managed(
    select: str, strategy: Strategy = "replace", *, key: Sequence[str] = (), latest: str | None = None, partitioned: Partitioning | None = None,
    setup: Sequence[str] = (), batch: Sequence[tuple[str, str]] | None = None, reads_batch: bool = False, asset: str = "ducklake://main/t",
    aliases: Sequence[tuple[str, str]] = (), tombstones: bool = False, reads: Sequence[str] = (),
) -> Script:  # fmt: skip
    """A managed script as the parser would give it."""
    columns = None if batch is None else tuple(BatchColumn(name, kind) for name, kind in batch)
    header = Header(partitioned=partitioned, materialize=Materialize(asset, strategy, tuple(key), latest), batch=columns)
    body = Body(tuple(setup), select, tuple(reads), reads_batch or batch is not None, aliases=tuple(aliases))
    edges = (Edge("kafka", TOPIC.source, options=(("tombstones", "row"),) if tombstones else ()),) if body.reads_batch else ()
    return Script(ScriptPath("t.sql"), "sql", select, header, body, edges)


@dataclass(frozen=True)
class Ran:
    """What a run said of itself."""

    changed: bool
    counts: tuple[PartitionCounts, ...]
    drift: Drift
    outcomes: Mapping[str, int]
    warnings: Sequence[str]
    compiled_sql: str


def slice_input(script: Script, partition: str, parts: Sequence[Any] = ()) -> SliceInput:
    start, end = window(script.header.partitioned, partition)
    return SliceInput(partition, start, end, parts)


@dataclass(frozen=True)
class Bench:
    """A lake with a hand on it."""

    lake: DuckLake
    url: str

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.lake._sound().lent("looking") as cursor:
            return cursor.execute(sql).fetchall()

    def texts(self, sql: str) -> list[list[str | None]]:
        """Rows as a set with multiplicity, cells as text."""
        with self.lake._sound().lent("looking") as cursor:
            found = cursor.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})").fetchall()
        return sorted(([*row] for row in found), key=lambda row: [(cell is not None, cell) for cell in row])

    def snapshot(self) -> int:
        return int(self.rows("SELECT max(snapshot_id) FROM __ducklake_metadata_lake_main.lake_main.ducklake_snapshot")[0][0])

    def stage(self, script: Script, *partitions: str, replace_slice: bool = False) -> StagedRun:
        return self.lake.stage(StageOrder(script, [slice_input(script, p) for p in partitions or ("",)], replace_slice))

    def finish(self, staged: StagedRun) -> Ran:
        try:
            written = staged.write(a_run())
            if written.changed:
                staged.commit()
                staged.settled(committed=True)
            return Ran(written.changed, written.counts, staged.drift, staged.outcomes, staged.warnings, staged.compiled_sql)
        finally:
            staged.close()

    def run(self, script: Script, *partitions: str, replace_slice: bool = False) -> Ran:
        return self.finish(self.stage(script, *partitions, replace_slice=replace_slice))


TOPIC = SourcePartition("kafka://main/in", "0")


@dataclass(frozen=True)
class Record:
    """One Kafka record; `value` None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = 1_772_000_000_000


def raw_span(records: Sequence[Record | bytes | None], lo: int = 0, source_partition: SourcePartition = TOPIC) -> RawSpan:
    """Consecutive records from offset `lo` on."""
    given = [record if isinstance(record, Record) else Record(record) for record in records]
    header = pa.struct([("name", pa.string()), ("value", pa.binary())])
    table = pa.table({
        "offset": pa.array(range(lo, lo + len(given)), pa.int64()),
        "timestamp": pa.array([r.timestamp_ms for r in given], pa.timestamp("ms", "UTC")),
        "key": pa.array([r.key for r in given], pa.binary()),
        "value": pa.array([r.value for r in given], pa.binary()),
        "headers": pa.array([[{"name": n, "value": v} for n, v in r.headers] for r in given], pa.list_(header)),
    })  # fmt: skip
    return RawSpan(source_partition, lo, lo + len(given), table, 0)


def orders(script: Script, *spans: RawSpan, splitter: ArrowSplitter | None = None) -> list[StageOrder]:
    """What the core would order: all slices of an append at once, else one after the other."""
    splitter = splitter or ArrowSplitter()
    routing = Routing(script.header.partitioned)
    parts: dict[str, list[Any]] = {}
    for raw in spans:
        for name, piece in splitter.split(raw, [routing], 0.0).pieces[routing.fingerprint].items():
            parts.setdefault(name, []).append((raw.source_partition, piece.lo, piece.hi, piece.payload))
    inputs = [slice_input(script, name, found) for name, found in parts.items()]
    if script.managed and script.managed.strategy == "append":
        return [StageOrder(script, inputs)] if inputs else []
    return [StageOrder(script, [one]) for one in inputs]


def feed(bench: Bench, script: Script, *spans: RawSpan) -> list[Ran]:
    """Run a script for everything in the spans."""
    return [bench.finish(bench.lake.stage(order)) for order in orders(script, *spans)]
