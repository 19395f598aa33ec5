"""What a run does between BEGIN and COMMIT: the rows of its table, and of the quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from reactor.domain.assets import LakeTable
from reactor.domain.runs import PartitionCounts, RunId
from reactor.domain.spans import UNROUTED
from reactor.errors import Conflict
from reactor.lake.asking import first_row
from reactor.lake.evaluate import Evaluated
from reactor.lake.fit import Fitted
from reactor.lake.quarantine import Quarantine
from reactor.lake.statements import checking, plan, writing
from reactor.lake.statements.plan import Shape, Target
from reactor.lake.tables import Existing, columns_of, new_folder

OPEN_COLUMNS_MAX = 1000
"""Columns of Parquet files that one statement may have open, one file a slice: each takes some 45 KB of memory, whatever is in it."""


class TableChanged(Conflict):
    """The table has other columns than when the rows were staged: stage them again."""


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Staged rows of the target: how they were evaluated, how they fit the table as it was, and how many each asset partition has."""

    evaluated: Evaluated
    fitted: Fitted
    existing: Existing | None
    counts: Mapping[str, int]

    @property
    def shown(self) -> bool:
        """Whether they are the decoded records, seen through a view."""
        return self.evaluated.shown and not self.fitted.restaged

    @property
    def count(self) -> int:
        """All of them."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Contents:
    """What was staged. `rows` is None if the order has only records without a slice."""

    slices: Sequence[str]
    to: Target
    rows: StagedRows | None
    quarantine: Quarantine
    outcomes: Mapping[str, int]
    warnings: tuple[str, ...]
    skip_unchanged: bool

    @property
    def touched(self) -> StagedRows | None:
        """The rows, if the table is written or compared. What only appends or merges leaves it alone if there is nothing to write."""
        writes_anyway = self.to.materialize.strategy == "replace" or self.to.replace_slice
        return self.rows if self.rows and (self.rows.count or writes_anyway) else None

    @property
    def defines(self) -> bool:
        """Whether the transaction makes or drops a table."""
        another_table = self.touched is not None and self.touched.fitted.shape != "same"
        return another_table or (self.quarantine.rows > 0 and self.quarantine.folder is None)

    @property
    def nothing(self) -> tuple[PartitionCounts, ...]:
        """No row in no slice."""
        return tuple(PartitionCounts(0, 0) for _ in self.slices)


@dataclass(slots=True)
class Write:
    """One transaction that is open on the cursor. `folders`: where it has written files."""

    cursor: duckdb.DuckDBPyConnection
    contents: Contents
    folders: set[str] = field(default_factory=set)

    def quarantine(self, run_id: RunId) -> bool:
        """Insert what is set aside; whether there was any."""
        quarantine = self.contents.quarantine
        if not quarantine.rows:
            return False
        if quarantine.folder is None:
            self.cursor.execute(quarantine.create())
        self.cursor.execute(quarantine.insert(run_id))
        self._note_folder(quarantine.table, quarantine.folder)
        return True

    def table(self) -> tuple[PartitionCounts, ...] | None:
        """Write the rows of the target; None if it has them already. Raises TableChanged, `duckdb.Error`."""
        rows, to = self.contents.touched, self.contents.to
        if rows is None:
            return None
        shape = self._shape_now(rows)
        if shape == "same" and rows.existing and self._unchanged(rows.existing, rows.fitted):
            return None
        deleted = self._count(f"SELECT count(*) FROM {to.table.sql}") if shape == "other" else 0
        inserted = 0
        for statement in plan.write(to, shape, rows.evaluated.selected):
            if statement.startswith("INSERT"):
                inserted += sum(map(self._count, self._in_portions(statement, rows.fitted)))
            elif statement.startswith("DELETE"):
                deleted += self._count(statement)
            else:
                self.cursor.execute(statement)
        if shape == "same" and not inserted and not deleted:
            return None
        self._note_folder(to.table, rows.existing.folder if rows.existing and shape == "same" else None)
        return self._by_slice(rows.counts, inserted, deleted)

    def _shape_now(self, rows: StagedRows) -> Shape:
        """What stands at the target's name by now. Raises TableChanged if the staged rows no longer fit it."""
        now, before = columns_of(self.cursor, self.contents.to.table), rows.existing
        if now == (before and (before.columns, before.sliced)):
            return rows.fitted.shape
        if before is None and now == (rows.fitted.columns, self.contents.to.asset_partition is not None):
            return "same"  # another replica made it
        raise TableChanged(f"{self.contents.to.table.uri} has changed its columns since the rows were staged", hint="they are staged again")

    def _unchanged(self, existing: Existing, fitted: Fitted) -> bool:
        """Whether a replace would put what is there (MT-28)."""
        c = self.contents
        if not c.skip_unchanged or c.to.materialize.strategy != "replace":
            return False
        staged = {name.lower(): name for name, _ in fitted.columns}
        arguments = (c.to.table, c.to.asset_partition, existing.columns, staged)
        if first_row(self.cursor, checking.same_sums(*arguments)) != (True,):
            return False
        return first_row(self.cursor, checking.differing(*arguments)) == (False,)

    def _in_portions(self, insert: str, fitted: Fitted) -> list[str]:
        """An INSERT as several, each of which writes few enough files at once to fit into memory."""
        names = sorted(name for name in self.contents.slices if name != UNROUTED)
        most = max(1, OPEN_COLUMNS_MAX // (len(fitted.columns) + 1))
        if len(names) <= most:
            return [insert]
        return [writing.insert_some(insert, some[0], some[-1]) for some in (names[i : i + most] for i in range(0, len(names), most))]

    def _by_slice(self, staged: Mapping[str, int], inserted: int, deleted: int) -> tuple[PartitionCounts, ...]:
        """Counts in the order of the slices; more than one slice is an append, so the staged rows are the inserted ones."""
        routed = [name for name in self.contents.slices if name != UNROUTED]
        if len(routed) == 1:
            return tuple(PartitionCounts(inserted, deleted) if name != UNROUTED else PartitionCounts(0, 0) for name in self.contents.slices)
        return tuple(PartitionCounts(staged.get(name, 0), 0) for name in self.contents.slices)

    def _note_folder(self, table: LakeTable, known: str | None) -> None:
        """Where the new files of a table lie; of one that is new its files tell."""
        if (folder := known or new_folder(self.cursor, table)) is not None:
            self.folders.add(folder)

    def _count(self, statement: str) -> int:
        row = first_row(self.cursor, statement)
        return int(row[0]) if row else 0
