"""From an order to a staged run: decode, evaluate, fit, check; nothing is written and no lock is held."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import duckdb

from reactor.domain.assets import LakeTable
from reactor.domain.spans import UNROUTED
from reactor.errors import RunBlocked, RunFailed
from reactor.lake.asking import first_row
from reactor.lake.batch import Batch, forget, gather
from reactor.lake.evaluate import Evaluated, Work, evaluate
from reactor.lake.fit import Fitted, fit
from reactor.lake.keep import Custody
from reactor.lake.limits import Stages
from reactor.lake.materialize import StagedRun
from reactor.lake.quarantine import Quarantine, keep_bytes, must_be_few, quarantine_table
from reactor.lake.session import Instance
from reactor.lake.statements import checking, plan
from reactor.lake.statements.plan import Target
from reactor.lake.statements.script_text import ScriptText
from reactor.lake.tables import Existing, columns_of, look
from reactor.lake.write import Contents, StagedRows
from reactor.ports import StageOrder


def stage(
    instance: Instance, order: StageOrder, custody: Custody, *, alone: bool, skip_unchanged: bool, limit_seconds: float | None = None,
) -> StagedRun | None:
    """See `reactor.ports.Lake`. `limit_seconds`: after which the run is stopped. `alone`: the instance is for this run, and is given up with it.

    None: the run will make or drop a table, so it has to be alone. DuckLake keeps the schemas of an instance, and another session that reads
    the lake at the same moment replaces what it keeps; a table that is made points into what was replaced until its COMMIT, which then reads
    freed memory (duckdb/ducklake#1248).
    """
    stages = Stages(order.script.path, limit_seconds)
    cursor = instance.cursor()
    try:
        with stages.limited(cursor):
            contents = _staged(instance, cursor, order, stages, skip_unchanged=skip_unchanged) if alone or not _is_first(cursor, order) else None
    except duckdb.Error as error:
        instance.release(cursor)
        raise instance.seen(error, f"evaluating {order.script.path}") from error
    except BaseException:
        instance.release(cursor)
        raise
    if contents is None or (contents.defines and not alone):
        instance.release(cursor)
        return None
    return StagedRun(instance, cursor, contents, custody, stages, alone=alone)


def _is_first(cursor: duckdb.DuckDBPyConnection, order: StageOrder) -> bool:
    """Whether there is no table yet, as far as that is known before anything is evaluated."""
    managed = order.script.managed
    return order.table_uuid is None and managed is not None and columns_of(cursor, LakeTable.parse(managed.asset)) is None


def _staged(instance: Instance, cursor: duckdb.DuckDBPyConnection, order: StageOrder, stages: Stages, *, skip_unchanged: bool) -> Contents:
    script = order.script
    slices = tuple(s.asset_partition for s in order.slices)
    routed = tuple(name for name in slices if name != UNROUTED)
    to = plan.target(script, routed[0] if routed else "", replace_slice=order.replace_slice)
    if order.replace_slice and script.body.reads_batch:
        raise RunBlocked(f"{script.path} reads `batch`, so a slice cannot be made again from what one run sees", hint="positions reset")
    with stages.timed("decode"):
        batch = gather(cursor, script, order.slices) if script.body.reads_batch else None
    work = Work(ScriptText(script), routed, batch.records if batch else None)
    with stages.timed("evaluate"):
        rows = _rows(instance, cursor, work, to, order.table_uuid) if routed else None
    with stages.timed("check"):
        rejected = batch.rejected + (rows.fitted.rejected if rows else 0) if batch else 0
        if batch:
            must_be_few(cursor, rejected, batch.total, batch.among, sliced=bool(routed))
        warnings = _checked_keys(cursor, to) if rows else ()
        quarantine = _quarantine(cursor, to, rejected, batch)
        if batch and not (rows and rows.shown):
            forget(cursor)
    return Contents(slices, to, rows, quarantine, _outcomes(batch, rejected, rows) if batch else {}, warnings, skip_unchanged)


def _rows(instance: Instance, cursor: duckdb.DuckDBPyConnection, work: Work, to: Target, table_uuid: UUID | None) -> StagedRows:
    evaluated = evaluate(cursor, work, to.table, instance.enter, instance.attaching)
    existing = evaluated.existing
    if existing is None or existing.view:  # as it was when the evaluation began: somebody may have made a table since, or dropped it
        existing = look(cursor, to.table)
    if table_uuid is not None and (existing is None or existing.uuid != table_uuid):
        raise RunBlocked(
            f"{to.table.uri} was {'dropped' if existing is None else 'replaced by another table'} behind Reactor's back: going on would leave out"
            " what was already read",
            hint=f"put the table back, or read again from the start: reactor positions reset {to.table.uri} --to earliest --reason \"…\"",
        )
    _admit(cursor, to, existing)
    fitted = fit(cursor, to, existing, evaluated)
    return StagedRows(evaluated, fitted, existing, _counts(cursor, work, to, evaluated, fitted))


def _counts(cursor: duckdb.DuckDBPyConnection, work: Work, to: Target, evaluated: Evaluated, fitted: Fitted) -> Mapping[str, int]:
    """Staged rows by asset partition. Of records that are only shown it was seen when they were decoded."""
    if evaluated.shown and not fitted.restaged and work.records and work.records.accepted_rows is not None:
        return dict(zip(work.slices, work.records.accepted_rows, strict=True))
    return dict(cursor.execute(checking.counts(sliced=to.asset_partition is not None)).fetchall())


def _quarantine(cursor: duckdb.DuckDBPyConnection, to: Target, rejected: int, batch: Batch | None) -> Quarantine:
    table = quarantine_table(to.table)
    if not rejected or batch is None:
        return Quarantine(table, to.materialize.asset, 0)
    keep_bytes(cursor, batch.raw)
    existing = look(cursor, table)
    return Quarantine(table, to.materialize.asset, rejected, existing.folder if existing else None)


def _outcomes(batch: Batch, rejected: int, rows: StagedRows | None) -> dict[str, int]:
    """Records by what became of them. How many a SELECT left out is known only where each row is made from one record.

    Each record that was not settled before is one of committed, filtered, quarantined, tombstone; some are skewed as well.
    """
    accepted = batch.total - batch.tombstones - rejected
    filtered = max(0, accepted - rows.count) if rows and rows.evaluated.selected.carried else 0
    return {
        "committed": accepted - filtered, "filtered": filtered, "quarantined": rejected, "tombstone": batch.tombstones, "skewed": batch.skewed,
        "duplicate": batch.duplicates,
    }


def _admit(cursor: duckdb.DuckDBPyConnection, to: Target, existing: Existing | None) -> None:
    """Refuse a table whose rows are not ours to change (MT-30), or belong to no slice (PT-6)."""
    if existing is None or existing.view:
        return
    if not existing.made_here and first_row(cursor, f"SELECT 1 FROM {to.table.sql} LIMIT 1"):
        raise RunBlocked(f"{to.table.uri} holds rows that were not made here", hint=f"reactor maintain --adopt {to.table.uri}, or give the asset another name")
    if existing.sliced and not existing.never_unsliced and to.asset_partition is not None and (rows := _count(cursor, checking.rows_without_slice(to.table))):
        raise RunBlocked(f"{to.table.uri} holds {rows} rows that belong to no asset partition", hint="delete them, or give them one in `_wm_partition`")


def _checked_keys(cursor: duckdb.DuckDBPyConnection, to: Target) -> tuple[str, ...]:
    """Raises RunFailed for keys that more than one staged row has; warns of rows that have none."""
    m = to.materialize
    if m.strategy != "merge":
        return ()
    count, shown = first_row(cursor, checking.duplicates(m.key)) or (0, [])
    if count:
        keys = "1 key" if count == 1 else f"{count} keys"
        tie = f" and the same {m.latest}" if m.latest else ""
        instead = "" if m.latest else "latest=<column> keeps the newest row of each key, "
        raise RunFailed(f"{keys} with more than one row in the SELECT{tie}",
                        hint=f"{', '.join(shown)}; {instead}QUALIFY picks one in the SELECT, append keeps all")
    nulls = _count(cursor, checking.null_keys(m.key))
    if not nulls:
        return ()
    tests = ", ".join(f"data_test not_null {name}" for name in m.key)
    return (f"{nulls} rows have a NULL in their key ({', '.join(m.key)}); to refuse them: {tests}",)


def _count(cursor: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = first_row(cursor, sql)
    return int(row[0]) if row else 0
