"""One staged run: from rows that nobody sees to rows that a COMMIT publishes.

`write` opens the transaction and does everything but COMMIT, so that what fails, fails before. `commit` says nothing about the outcome; the
run row does, and then `settled` is called. Whatever raises in a transaction is followed by ROLLBACK: a COMMIT after an error could publish
rows without their mark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import duckdb

from reactor.domain.runs import PartitionCounts, RunId
from reactor.domain.spans import UNROUTED
from reactor.errors import Outage, ReactorError, RunBlocked
from reactor.lake.keep import Custody
from reactor.lake.limits import Stages
from reactor.lake.session import Instance
from reactor.lake.statements import plan
from reactor.lake.statements.quoting import identifier
from reactor.lake.write import Contents, TableChanged, Write
from reactor.ports import Drift, SchemaVersion, Written

AUTHOR = "reactor"

SETUP_MARK = '{"reactor":1,"setup":true}'
"""On a commit that only makes an empty table: no run, no event."""


def mark(run_id: RunId, counts: Sequence[PartitionCounts]) -> str:
    """The text that the trigger reads: which run this is, and the rows of each of its slices. Nothing of a user's may stand in it."""
    return json.dumps({"reactor": 1, "run": str(run_id), "rows": [[c.inserted, c.deleted] for c in counts]}, separators=(",", ":"))


class StagedRun:
    """`reactor.ports.Staged` on DuckLake. `alone`: the instance has no other run, and goes with this one."""

    def __init__(
        self, instance: Instance, cursor: duckdb.DuckDBPyConnection, contents: Contents, custody: Custody, stages: Stages, *, alone: bool,
    ) -> None:  # fmt: skip
        self._instance, self._cursor, self._contents, self._custody, self._stages, self._alone = instance, cursor, contents, custody, stages, alone
        self._open = self._outdated = False
        self._began_at = 0.0
        self._run_id: RunId | None = None
        self._folders: set[str] = set()
        self._counts: tuple[PartitionCounts, ...] = ()

    @property
    def schema(self) -> SchemaVersion | None:
        """The columns of the table after the commit; None if the run leaves the table alone."""
        touched = self._contents.touched
        return touched.fitted.schema if touched else None

    @property
    def drift(self) -> Drift:
        """How the SELECT differs from the table."""
        return self._contents.rows.fitted.drift if self._contents.rows else Drift()

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
        return self._contents.rows.count if self._contents.rows else 0

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by stage, as far as it has come: decode, evaluate, check, write, commit."""
        return self._stages.timings

    @property
    def compiled_sql(self) -> str:
        """What the run executes of the script."""
        rows = self._contents.rows
        if rows is None:
            return ""
        text = plan.as_text(plan.compiled(self._contents.to, rows.fitted.shape, rows.evaluated.selected, rows.evaluated.setup))
        more = sum(name != UNROUTED for name in self._contents.slices) - 1
        return f"{text}\n-- and the same for {more} more asset partitions" if more > 0 else text

    @property
    def stale(self) -> bool:
        """Whether the staged rows are of no more use: their instance is gone, or the table has other columns now. Stage again."""
        return self._instance.broken or self._instance.retired or self._outdated

    def write(self, run_id: RunId) -> Written:
        """See `reactor.ports.Staged`."""
        if self._contents.touched is None and not self._contents.quarantine.rows:
            return Written(changed=False, counts=self._contents.nothing)
        try:
            with self._stages.limited(self._cursor), self._stages.timed("write"):
                self._begin(mark(run_id, ()))
                write = Write(self._cursor, self._contents)
                counts = write.table()
                changed = write.quarantine(run_id) or counts is not None
        except duckdb.Error as error:
            self.rollback()
            raise self._instance.seen(error, "writing") from error
        except ReactorError as error:
            self.rollback()
            self._outdated |= isinstance(error, TableChanged)
            raise
        if not changed:
            self.rollback()
        written = Written(changed, counts or self._contents.nothing)
        self._run_id, self._folders, self._counts = run_id, write.folders, written.counts
        return written

    def make_table(self) -> None:
        """Make the target, empty, in a transaction of its own that belongs to no run. Raises `Conflict`, `RunBlocked`: another one made it."""
        if self._contents.rows is None:
            return
        try:
            self._begin(SETUP_MARK)
            for statement in plan.make_table(self._contents.to, self._contents.rows.evaluated.selected.hidden):
                self._cursor.execute(statement)
            self._cursor.execute("COMMIT")
            self._open = False
        except duckdb.Error as error:
            self.rollback()
            raise self._instance.seen(error, "making the table") from error

    def _begin(self, text: str) -> None:
        """Open the transaction; the mark is its first statement."""
        if self._instance.retired:
            raise Outage("the lakes were attached anew", hint="the rows are staged again")
        self._instance.reach(self._contents.to.table.catalog)
        self._began_at = time.time()
        self._cursor.execute("BEGIN")
        self._open = True
        self._say(text)

    def _say(self, text: str) -> None:
        call = f"CALL {identifier(self._contents.to.table.catalog)}.set_commit_message(?, '', extra_info => ?)"
        self._cursor.execute(call, [AUTHOR, text])

    def commit(self) -> None:
        """See `reactor.ports.Staged`. Raises what COMMIT raised; the outcome is another question."""
        if self._run_id is None or not self._open:
            raise RunBlocked("nothing is written that could be committed")
        try:
            self._say(mark(self._run_id, self._counts))
            self._custody.hold(self._run_id, self._folders, self._began_at)
        except duckdb.Error as error:
            self.rollback()
            raise self._instance.seen(error, "marking the commit") from error
        except OSError as error:
            self.rollback()
            raise Outage(f"keeping the files: {error}") from error
        except Outage:
            self.rollback()
            raise
        try:
            self._open = False
            with self._stages.timed("commit"):
                self._cursor.execute("COMMIT")
        except duckdb.Error as error:
            self._discard()
            raise self._instance.seen(error, "committing") from error
        finally:
            self._custody.returned(given_up=self._instance.retired)

    def rollback(self) -> None:
        """See `reactor.ports.Staged`."""
        if self._open:
            self._open = False
            self._discard()

    def _discard(self) -> None:
        """After a failed COMMIT the transaction is gone, and ROLLBACK itself raises; after some others it is not."""
        with suppress(duckdb.Error):
            self._cursor.execute("ROLLBACK")

    def settled(self, *, committed: bool) -> None:
        """See `reactor.ports.Staged`. Raises `Outage` while the catalog cannot be asked: then call it again."""
        self._custody.settled(committed=committed)

    def close(self) -> None:
        """See `reactor.ports.Staged`."""
        self.rollback()
        self._instance.release(self._cursor)
        if self._alone:
            self._instance.retire()
