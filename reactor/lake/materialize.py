"""One staged run: from rows that nobody sees to rows that a COMMIT publishes.

`write` opens the transaction and does everything but COMMIT, so that what fails, fails before. `commit` says nothing about the outcome; the
run row does, and then `settled` is called. Whatever raises in a transaction is followed by ROLLBACK: a COMMIT after an error could publish
rows without their mark.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import duckdb

from reactor.domain.assets import LakeTable
from reactor.domain.runs import PartitionCounts, RunId
from reactor.domain.spans import UNROUTED
from reactor.errors import Conflict, Outage, ReactorError, RunBlocked
from reactor.lake.evaluate import Evaluated
from reactor.lake.fit import Fitted
from reactor.lake.keep import Keep, Kept, Named
from reactor.lake.quarantine import Quarantine
from reactor.lake.session import Instance, leave
from reactor.lake.statements import checking, plan, writing
from reactor.lake.statements.plan import Shape, Target
from reactor.lake.statements.quoting import identifier
from reactor.lake.tables import Existing, columns_of, new_folder
from reactor.ports import Drift, SchemaVersion, Written

AUTHOR = "reactor"

OPEN_COLUMNS_MAX = 1000
"""Columns of Parquet files that one statement may have open, one file a slice: each takes some 45 KB of memory, whatever is in it."""

SETUP_MARK = '{"reactor":1,"setup":true}'
"""On a commit that only makes an empty table: no run, no event."""


def mark(run_id: RunId, counts: Sequence[PartitionCounts]) -> str:
    """The text that the trigger reads: which run this is, and the rows of each of its slices. Nothing of a user's may stand in it."""
    return json.dumps({"reactor": 1, "run": str(run_id), "rows": [[c.inserted, c.deleted] for c in counts]}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Contents:
    """What was staged. `fitted` and `evaluated` are None if the order has only records without a slice."""

    slices: Sequence[str]
    to: Target
    evaluated: Evaluated | None
    fitted: Fitted | None
    existing: Existing | None
    rows: int
    quarantine: Quarantine
    outcomes: Mapping[str, int]
    warnings: tuple[str, ...]
    skip_unchanged: bool


class StagedRun:
    """`reactor.ports.Staged` on DuckLake."""

    def __init__(self, instance: Instance, cursor: duckdb.DuckDBPyConnection, contents: Contents, keep: Keep | None, named: Named) -> None:
        self._instance, self._cursor, self._contents, self._keep, self._named = instance, cursor, contents, keep, named
        self._open = self._outdated = False
        self._began_at = 0.0
        self._folders: set[str] = set()
        self._counts: tuple[PartitionCounts, ...] = ()
        self._run_id: RunId | None = None
        self._verdicts = threading.Lock()
        self._kept: Kept | None = None
        self._committing = False
        self._committed: bool | None = None

    @property
    def schema(self) -> SchemaVersion | None:
        """The columns of the table after the commit; None if the run leaves the table alone."""
        fitted = self._contents.fitted
        return fitted.schema if fitted and self._touches else None

    @property
    def drift(self) -> Drift:
        """How the SELECT differs from the table."""
        return self._contents.fitted.drift if self._contents.fitted else Drift()

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Records by what became of them."""
        return self._contents.outcomes

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the run's result and the log say."""
        return self._contents.warnings

    @property
    def rows(self) -> int:
        """Staged rows."""
        return self._contents.rows

    @property
    def compiled_sql(self) -> str:
        """What the run executes of the script."""
        c = self._contents
        if c.evaluated is None or c.fitted is None:
            return ""
        text = plan.as_text(plan.compiled(c.to, c.fitted.shape, c.evaluated.selected, c.evaluated.setup))
        more = sum(name != UNROUTED for name in c.slices) - 1
        return f"{text}\n-- and the same for {more} more asset partitions" if more > 0 else text

    @property
    def stale(self) -> bool:
        """Whether the staged rows are of no more use: their instance is gone, or the table has other columns now. Stage again."""
        return self._instance.broken or self._instance.retired or self._outdated

    @property
    def _touches(self) -> bool:
        """Whether the table is written, or compared. What only appends or merges leaves it alone if there is nothing to write."""
        c = self._contents
        return c.fitted is not None and (c.rows > 0 or c.to.materialize.strategy == "replace" or c.to.replace_slice)

    def write(self, run_id: RunId) -> Written:
        """See `reactor.ports.Staged`."""
        self._run_id = run_id
        if not self._touches and not self._contents.quarantine.rows:
            return Written(changed=False, counts=self._nothing)
        try:
            self._begin(run_id)
            written = self._write(run_id)
        except duckdb.Error as error:
            self.rollback()
            raise self._instance.seen(error, "writing") from error
        except ReactorError:
            self.rollback()
            raise
        if not written.changed:
            self.rollback()
        self._counts = written.counts
        return written

    def _begin(self, run_id: RunId) -> None:
        if self._instance.retired:
            raise Outage("the lakes were attached anew", hint="the rows are staged again")
        leave(self._cursor)
        self._began_at, self._folders = time.time(), set()
        self._cursor.execute("BEGIN")
        self._open = True
        self._mark(run_id, ())

    def _mark(self, run_id: RunId, counts: Sequence[PartitionCounts]) -> None:
        self._say(mark(run_id, counts))

    def _say(self, text: str) -> None:
        call = f"CALL {identifier(self._contents.to.table.catalog)}.set_commit_message(?, '', extra_info => ?)"
        self._cursor.execute(call, [AUTHOR, text])

    def make_table(self) -> None:
        """Make the target, empty, in a transaction of its own that belongs to no run. Another one may have made it meanwhile: `Conflict`."""
        c = self._contents
        if c.evaluated is None:
            return
        try:
            leave(self._cursor)
            self._cursor.execute("BEGIN")
            self._open = True
            self._say(SETUP_MARK)
            for statement in plan.make_table(c.to, c.evaluated.selected.hidden):
                self._cursor.execute(statement)
            self._open = False
            self._cursor.execute("COMMIT")
        except duckdb.Error as error:
            self._discard()
            raise self._instance.seen(error, "making the table") from error

    def _write(self, run_id: RunId) -> Written:
        counts = self._write_table() if self._touches else None
        quarantine = self._contents.quarantine
        if quarantine.rows:
            self._write_quarantine(quarantine, run_id)
        return Written(changed=counts is not None or quarantine.rows > 0, counts=counts or self._nothing)

    @property
    def _nothing(self) -> tuple[PartitionCounts, ...]:
        return tuple(PartitionCounts(0, 0) for _ in self._contents.slices)

    def _write_quarantine(self, quarantine: Quarantine, run_id: RunId) -> None:
        if quarantine.folder is None:
            self._cursor.execute(quarantine.create())
        self._cursor.execute(quarantine.insert(run_id))
        self._note_folder(quarantine.table, quarantine.folder)

    def _note_folder(self, table: LakeTable, known: str | None) -> None:
        """Where the new files of a table lie; of one that is new its files tell."""
        if (folder := known or new_folder(self._cursor, table)) is not None:
            self._folders.add(folder)

    def _write_table(self) -> tuple[PartitionCounts, ...] | None:
        """The rows of the target; None if it holds them already."""
        c = self._contents
        evaluated, fitted = c.evaluated, c.fitted
        if evaluated is None or fitted is None:
            return None
        shape = self._shape_now(fitted)
        if shape == "same" and c.existing and self._unchanged(c.existing, fitted):
            return None
        deleted = self._count(f"SELECT count(*) FROM {c.to.table.sql}") if shape == "other" else 0
        inserted = 0
        for statement in plan.write(c.to, shape, evaluated.selected):
            if statement.startswith("INSERT"):
                inserted += sum(map(self._count, self._in_portions(statement, fitted)))
            else:
                deleted += self._count(statement) if statement.startswith("DELETE") else self._run(statement)
        if shape == "same" and not inserted and not deleted:
            return None
        self._note_folder(c.to.table, c.existing.folder if c.existing and shape == "same" else None)
        return self._by_slice(inserted, deleted)

    def _shape_now(self, fitted: Fitted) -> Shape:
        """What stands at the target's name by now. Raises Conflict if the staged rows no longer fit it."""
        now, before = columns_of(self._cursor, self._contents.to.table), self._contents.existing
        if now == (before and (before.columns, before.sliced)):
            return fitted.shape
        if before is None and now == (fitted.columns, self._contents.to.asset_partition is not None):
            return "same"  # another replica made it
        self._outdated = True
        raise Conflict(f"{self._contents.to.table.uri} has changed its columns since the rows were staged", hint="they are staged again")

    def _unchanged(self, existing: Existing, fitted: Fitted) -> bool:
        """Whether a replace would put what is there (MT-28)."""
        c = self._contents
        if not c.skip_unchanged or c.to.materialize.strategy != "replace":
            return False
        staged = {name.lower(): name for name, _ in fitted.columns}
        arguments = (c.to.table, c.to.asset_partition, existing.columns, staged)
        if self._cursor.execute(checking.same_sums(*arguments)).fetchone() != (True,):
            return False
        return self._cursor.execute(checking.differing(*arguments)).fetchone() == (False,)

    def _by_slice(self, inserted: int, deleted: int) -> tuple[PartitionCounts, ...]:
        """Counts in the order of the slices; more than one slice is an append, so the staged rows are the inserted ones."""
        routed = [name for name in self._contents.slices if name != UNROUTED]
        if len(routed) == 1:
            return tuple(PartitionCounts(inserted, deleted) if name != UNROUTED else PartitionCounts(0, 0) for name in self._contents.slices)
        counted = dict(self._cursor.execute(checking.counts_by_slice()).fetchall())
        return tuple(PartitionCounts(counted.get(name, 0), 0) for name in self._contents.slices)

    def _in_portions(self, insert: str, fitted: Fitted) -> list[str]:
        """An INSERT as several, each of which writes few enough files at once to fit into memory."""
        names = sorted(name for name in self._contents.slices if name != UNROUTED)
        most = max(1, OPEN_COLUMNS_MAX // (len(fitted.columns) + 1))
        if len(names) <= most:
            return [insert]
        return [writing.insert_some(insert, some[0], some[-1]) for some in (names[i : i + most] for i in range(0, len(names), most))]

    def _run(self, statement: str) -> int:
        self._cursor.execute(statement)
        return 0

    def _count(self, statement: str) -> int:
        row = self._cursor.execute(statement).fetchone()
        return int(row[0]) if row else 0

    def commit(self) -> None:
        """See `reactor.ports.Staged`. Raises what COMMIT raised; the outcome is another question."""
        if self._run_id is None or not self._open:
            raise RunBlocked("nothing is written that could be committed")
        try:
            self._mark(self._run_id, self._counts)
            self._kept = self._keep.hold(self._run_id, self._folders, self._began_at) if self._keep else None
        except (duckdb.Error, OSError) as error:
            self.rollback()
            raise (self._instance.seen(error, "keeping files") if isinstance(error, duckdb.Error) else Outage(f"keeping files: {error}")) from error
        with self._verdicts:
            self._committing, self._open, self._committed = True, False, None
        try:
            self._cursor.execute("COMMIT")
        except duckdb.Error as error:
            self._discard()
            raise self._instance.seen(error, "committing") from error
        finally:
            self._returned()

    def _discard(self) -> None:
        """After a failed COMMIT the transaction is gone, and ROLLBACK itself raises; after some others it is not."""
        with suppress(duckdb.Error):
            self._cursor.execute("ROLLBACK")

    def _returned(self) -> None:
        """COMMIT is back, and DuckLake has deleted what it deletes. If nobody waits for it any more, the files are looked after here."""
        with self._verdicts:
            self._committing = False
            left_alone = self._committed is not None or self._instance.retired
        if left_alone:
            with suppress(Outage):  # then the next sweep does it
                self._release_files()

    def rollback(self) -> None:
        """See `reactor.ports.Staged`."""
        if self._open:
            self._open = False
            self._discard()

    def settled(self, *, committed: bool) -> None:
        """See `reactor.ports.Staged`. Raises `Outage` while the catalog cannot be asked: then call it again."""
        with self._verdicts:
            self._committed = committed
            waiting = self._committing
        if not waiting:
            self._release_files()

    def _release_files(self) -> None:
        kept, keep = self._kept, self._keep
        if kept is None or keep is None:
            return
        if self._committed is not False:
            keep.restore(kept, self._named)
        if self._committed is not None:
            keep.drop(kept)
            self._kept = None

    def close(self) -> None:
        """See `reactor.ports.Staged`."""
        self.rollback()
        self._instance.release(self._cursor)
