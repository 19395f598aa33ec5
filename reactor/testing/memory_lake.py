"""Lakes in memory: rows are made by a function of the test's, and commit with the state."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from reactor.domain.assets import LakeTable
from reactor.domain.runs import PartitionCounts, RunId
from reactor.domain.scripts import Materialize, Script
from reactor.errors import Conflict, Outage, RunBlocked, RunFailed, UsageError
from reactor.ports import Drift, SchemaVersion, StageOrder, Written
from reactor.testing.memory_database import NOTHING, MemoryDatabase, MemoryTable, Row, RowId

Evaluate = Callable[[StageOrder], Mapping[str, Sequence[Row]]]
"""What the SELECT of a script gives: asset partition (`WHOLE` if the asset has none) → rows, all with the same columns. Of slices that are not in the
order nothing is taken; an order for no slice asks whether it binds. It may raise what `Lake.stage` may."""

TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", bytes: "BLOB"}
"""Of a column's values; any other one is VARCHAR."""
Columns = tuple[tuple[str, str], ...]


class MemoryLake:
    """`ports.Lake` over a `MemoryDatabase`. `troubles`: lakes whose files cannot be reached, each with why; a test says so.

    It differs from DuckLake in what is DuckDB's own: nothing is decoded or quarantined (the evaluation gives rows that fit, and none for
    `UNROUTED`), types are not compared, NULL in a key is a value like any other, `_deleted` is a column like any other, and `latest=` is
    refused. Two commits conflict only over the same rows, where DuckLake may refuse one for writing to the same table; both may only be
    counted on to refuse the second of two that delete the same row.
    """

    def __init__(self, database: MemoryDatabase, evaluate: Evaluate) -> None:
        self._db, self._evaluate = database, evaluate
        self.troubles: dict[str, str] = {}
        self.instance = 1

    def stage(self, order: StageOrder) -> MemoryStaged:
        """See `ports.Lake`. Raises `UsageError` for a lake that the database does not have."""
        managed = managed_of(order.script)
        self.reach(managed)
        if order.replace_slice and order.script.body.reads_batch:
            raise RunBlocked(f"{order.script.path} reads `batch`, so a slice cannot be made again from what one run sees")
        rows = {name: tuple(rows) for name, rows in self._evaluate(order).items()}
        with self._db.transaction() as tables:
            table = tables.content.get(managed.asset)
        _admit(order, managed, table)
        _refuse_keys(managed, rows)
        return MemoryStaged(self._db, self, order, {s.asset_partition: rows.get(s.asset_partition, ()) for s in order.slices}, table)

    def ensure_table(self, script: Script) -> UUID | None:
        """See `ports.Lake`."""
        with self._db.transaction() as tables:
            table = tables.content.get(script.managed.asset) if script.managed else None
        if table is not None or script.managed is None or not script.body.reads_batch:
            return table.uuid if table else None
        try:
            self.stage(StageOrder(script, ()))
        except (RunBlocked, RunFailed):
            return None
        with self._db.transaction() as tables:
            if script.managed.asset not in tables.content:
                tables.content[script.managed.asset] = MemoryTable(uuid4(), script.header.partitioned is not None)
                self._db.publish(LakeTable.parse(script.managed.asset).lake, None)
            return tables.content[script.managed.asset].uuid

    def reach(self, managed: Materialize) -> None:
        """Raises `Outage` for a lake in trouble, `UsageError` for one that the database does not have."""
        lake = LakeTable.parse(managed.asset).lake
        if lake not in self._db.tables.snapshots:
            raise UsageError(f"the MemoryDatabase has no lake {lake}", hint=f'name it: MemoryDatabase(["{lake}"])')
        if said := self.troubles.get(lake):
            raise Outage(said)

    def away(self) -> Mapping[str, str]:
        """See `ports.Lake`."""
        return dict(self.troubles)

    def rebuild(self) -> None:
        """See `ports.Lake`. What was staged before is lost (`stale`)."""
        self.instance += 1

    def close(self) -> None:
        """See `ports.Lake`."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A transaction: the table as it saw it, what it takes out and puts in, and the table that it leaves, but for its rows."""

    run_id: RunId
    seen: MemoryTable | None
    deleted: frozenset[RowId]
    inserted: Sequence[tuple[str, Row]]
    after: MemoryTable
    counts: tuple[PartitionCounts, ...]

    def onto(self, now: MemoryTable | None) -> MemoryTable:
        """The table after the commit, whatever others have committed meanwhile. Raises `Conflict`."""
        if now is not self.seen:
            makes = self.seen is None or self.after.uuid != self.seen.uuid
            if makes or now is None or now.uuid != self.after.uuid or now.columns not in {(), self.after.columns} or not self.deleted <= now.rows.keys():
                raise Conflict("another writer was first")
        kept = {i: row for i, row in now.rows.items() if i not in self.deleted} if now else {}
        return replace(self.after, rows=kept | {(self.run_id, n): row for n, row in enumerate(self.inserted)})


class MemoryStaged:
    """`ports.Staged` of a `MemoryLake`."""

    def __init__(self, database: MemoryDatabase, lake: MemoryLake, order: StageOrder, staged: Mapping[str, Sequence[Row]], table: MemoryTable | None) -> None:
        self._db, self._lake, self._order, self._staged, self._table = database, lake, order, staged, table
        self._managed, self._instance, self._outdated = managed_of(order.script), lake.instance, False
        self._open: _Open | None = None

    @property
    def schema(self) -> SchemaVersion | None:
        """See `ports.Staged`."""
        return schema_version(self._after(self._table).columns) if self._touched else None

    @property
    def drift(self) -> Drift:
        """See `ports.Staged`."""
        staged, stored = ([name for name, _ in columns] for columns in (self._columns, self._after(self._table).columns))
        added, removed = [name for name in staged if name not in stored], [name for name in stored if name not in staged]
        return Drift(tuple(added), tuple(removed)) if staged else Drift()

    @property
    def compiled_sql(self) -> str:
        """See `ports.Staged`."""
        return self._order.script.body.select

    @property
    def timings(self) -> Mapping[str, float]:
        """See `ports.Staged`."""
        return {}

    @property
    def outcomes(self) -> Mapping[str, int]:
        """See `ports.Staged`."""
        return {"committed": self.rows} if self._order.script.body.reads_batch else {}

    @property
    def warnings(self) -> Sequence[str]:
        """See `ports.Staged`."""
        return ()

    @property
    def rows(self) -> int:
        """See `ports.Staged`."""
        return sum(map(len, self._staged.values()))

    @property
    def stale(self) -> bool:
        """See `ports.Staged`."""
        return self._outdated or self._instance != self._lake.instance

    @property
    def _columns(self) -> Columns:
        """Of the staged rows; none without rows."""
        first = next((row for rows in self._staged.values() for row in rows), {})
        return tuple((name, TYPES.get(type(value), "VARCHAR")) for name, value in first.items())

    @property
    def _touched(self) -> bool:
        """Whether the table is written or compared."""
        return bool(self.rows) or self._managed.strategy == "replace" or self._order.replace_slice

    def _after(self, table: MemoryTable | None) -> MemoryTable:
        """The table that the staged rows go to, and its columns; a new one where there is none, or where a whole replace has other columns."""
        whole = self._managed.strategy == "replace" and self._order.script.header.partitioned is None
        if table is None or (whole and self._columns and table.columns != self._columns):
            return MemoryTable(uuid4(), self._order.script.header.partitioned is not None, self._columns)
        return replace(table, columns=table.columns or self._columns)

    def write(self, run_id: RunId) -> Written:
        """See `ports.Staged`."""
        if self._instance != self._lake.instance:
            raise Outage("the lakes were attached anew")
        self._lake.reach(self._managed)
        with self._db.transaction() as tables:
            seen = tables.content.get(self._managed.asset)
        expected = (self._table.columns if self._table else ()) or self._columns
        gone = seen is None and self._table is not None
        if gone or (seen is not None and seen.columns not in {(), expected}):
            self._outdated = True
            raise Conflict(f"{self._managed.asset} has changed its columns since the rows were staged")
        self._open = self._written(run_id, seen) if self._touched else None
        counts = self._open.counts if self._open else tuple(NOTHING for _ in self._staged)
        return Written(self._open is not None, counts)

    def _written(self, run_id: RunId, seen: MemoryTable | None) -> _Open | None:
        """What the transaction does; None: the table has these rows already."""
        after = self._after(seen)
        fitted = {name: [{column: row.get(column) for column, _ in after.columns} for row in rows] for name, rows in self._staged.items()}
        deleted = {name: self._deleted(seen, name, rows) for name, rows in fitted.items()}
        counts = tuple(PartitionCounts(len(rows), len(deleted[name])) for name, rows in fitted.items())
        if seen is not None and seen.uuid == after.uuid and (set(counts) <= {NOTHING} or self._replaces_by_equal(seen, fitted)):
            return None
        inserted = [(name, row) for name, rows in fitted.items() for row in rows]
        return _Open(run_id, seen, frozenset[RowId]().union(*deleted.values()), inserted, after, counts)

    def _replaces_by_equal(self, table: MemoryTable, fitted: Mapping[str, Sequence[Row]]) -> bool:
        stored = [(name, row) for name, row in table.rows.values() if name in fitted]
        return self._managed.strategy == "replace" and _counted(stored) == _counted((name, row) for name, rows in fitted.items() for row in rows)

    def _deleted(self, table: MemoryTable | None, asset_partition: str, rows: Sequence[Row]) -> frozenset[RowId]:
        """Stored rows that make room for those of one slice."""
        inside = {i: row for i, (name, row) in table.rows.items() if name == asset_partition} if table else {}
        if self._managed.strategy == "replace" or self._order.replace_slice:
            return frozenset(inside)
        keys = {_key(self._managed, row) for row in rows} if self._managed.strategy == "merge" else set()
        return frozenset(i for i, row in inside.items() if _key(self._managed, row) in keys)

    def commit(self) -> None:
        """See `ports.Staged`. With `MemoryDatabase.answers_lost` it happens, and `Outage` is raised."""
        if (done := self._open) is None:
            raise RunBlocked("nothing is written that could be committed")
        self._open = None
        with self._db.transaction() as tables:
            tables.content[self._managed.asset] = done.onto(tables.content.get(self._managed.asset))
            self._db.publish(LakeTable.parse(self._managed.asset).lake, done.run_id, done.counts)
        if self._db.answers_lost:
            self._db.answers_lost -= 1
            raise Outage("the connection was cut before COMMIT was answered")

    def rollback(self) -> None:
        """See `ports.Staged`."""
        self._open = None

    def settled(self, *, committed: bool) -> None:
        """See `ports.Staged`. No file could be lost."""

    def close(self) -> None:
        """See `ports.Staged`."""
        self._open = None


def managed_of(script: Script) -> Materialize:
    """What a script materializes. Raises `RunBlocked` for what this lake cannot."""
    managed = script.managed
    if managed is None:
        raise RunBlocked(f"{script.path} materializes no table itself")
    if managed.strategy not in {"replace", "merge", "append"} or managed.latest:
        raise RunBlocked(f"{script.path}: a lake in memory knows replace, append, and merge without latest=")
    return managed


def schema_version(columns: Columns) -> SchemaVersion:
    """A list of columns with its fingerprint."""
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False)
    return SchemaVersion(columns, "sha256:" + hashlib.sha256(text.encode()).hexdigest())


def _admit(order: StageOrder, managed: Materialize, table: MemoryTable | None) -> None:
    if order.table_uuid not in {None, table and table.uuid}:
        gone = "dropped" if table is None else "replaced by another table"
        raise RunBlocked(f"{managed.asset} was {gone} behind Reactor's back", hint=f"reactor positions reset {managed.asset}")
    if table is not None and table.sliced != (order.script.header.partitioned is not None):
        raise RunBlocked(f"{managed.asset} has slices and {order.script.path} has none, or the other way round", hint="rename the asset")


def _refuse_keys(managed: Materialize, staged: Mapping[str, Sequence[Row]]) -> None:
    for rows in staged.values() if managed.strategy == "merge" else ():
        for name in managed.key:
            if rows and name not in rows[0]:
                raise RunBlocked(f"key column {name} is not in the SELECT")
        if len({_key(managed, row) for row in rows}) < len(rows):
            raise RunFailed("keys with more than one row in the SELECT")


def _key(managed: Materialize, row: Row) -> tuple[object, ...]:
    return tuple(row.get(name) for name in managed.key)


def _counted(rows: Iterable[tuple[str, Row]]) -> Counter[str]:
    """Rows as a set with multiplicity, whatever their values are."""
    return Counter(repr((name, sorted(row.items()))) for name, row in rows)
