"""How staged rows meet the table: by name, cast to its types (MT-13, `warn`), and what stands in the way.

`fit` runs once, when rows are staged. A table that has changed its columns since then makes the staged rows *stale*: they are staged again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from reactor.errors import RunBlocked, RunFailed
from reactor.lake.asking import first_row
from reactor.lake.evaluate import Evaluated
from reactor.lake.quarantine import set_aside
from reactor.lake.statements import checking
from reactor.lake.statements.checking import Cast
from reactor.lake.statements.plan import Shape, Target
from reactor.lake.statements.staging import DELETED, DELETED_OUTPUT, SLICE, newest
from reactor.lake.tables import Columns, Existing
from reactor.ports import Drift, SchemaVersion


@dataclass(frozen=True, slots=True)
class Fitted:
    """Staged rows that have the table's names and types. `columns`: those they share, or all if the table is made after them.

    `restaged`: they had others before, so the stage is a table in any case. `rejected`: records whose rows do not fit, and are set aside.
    """

    shape: Shape
    columns: Columns
    schema: SchemaVersion
    drift: Drift
    restaged: bool = False
    rejected: int = 0


def schema_version(columns: Columns) -> SchemaVersion:
    """A list of columns with its fingerprint."""
    text = json.dumps([list(column) for column in columns], separators=(",", ":"), ensure_ascii=False)
    return SchemaVersion(columns, "sha256:" + hashlib.sha256(text.encode()).hexdigest())


def shape_of(to: Target, existing: Existing | None, staged: Columns) -> Shape:
    """What stands at the target's name. Raises RunBlocked for what cannot be written or replaced."""
    if existing is None:
        return "missing"
    whole = to.materialize.strategy == "replace" and to.asset_partition is None
    if existing.view and whole:
        return "view"
    if existing.view:
        raise RunBlocked(f"{to.table.uri} is a view", hint="drop it, or give the asset another name")
    if existing.sliced != (to.asset_partition is not None):
        has, wants = ("has", "is not `partitioned`") if existing.sliced else ("has not", "is `partitioned`")
        raise RunBlocked(f"{to.table.uri} {has} the column {SLICE}, and the script {wants}", hint="rename the asset, or drop the table and `positions reset`")
    return "same" if not whole or existing.columns == staged else "other"


def fit(cursor: duckdb.DuckDBPyConnection, to: Target, existing: Existing | None, evaluated: Evaluated) -> Fitted:
    """Give the staged rows the table's shape.

    What does not fit is set aside, if it can be told by its record; else RunFailed. Raises RunBlocked, `duckdb.Error`.
    """
    merge = to.materialize.strategy == "merge"
    staged = tuple(column for column in evaluated.columns if not merge or column[0].lower() != DELETED_OUTPUT)
    shape = shape_of(to, existing, staged)
    selected, waiting = evaluated.selected, evaluated.waiting
    if existing is None or shape != "same":
        return Fitted(shape, staged, schema_version(staged), Drift())
    drift, casts, shared = _compare(staged, existing.columns)
    _refuse_lost(to, shared)
    rejected = 0
    if restaged := bool(drift.added or casts or waiting):
        hidden = [*selected.hidden, *([SLICE] if existing.sliced else []), *([DELETED] if merge else [])]
        if doubtful := [cast for cast in casts if cast.may_fail]:
            rejected = _set_aside(cursor, doubtful, carried=selected.carried)
        latest = newest(waiting, selected) if waiting else ""
        for statement in checking.fitted(hidden, [name for name, _ in shared], casts, latest, shown=evaluated.shown):
            cursor.execute(statement)
    return Fitted(shape, shared, schema_version(existing.columns), drift, restaged=restaged, rejected=rejected)


def _compare(staged: Columns, stored: Columns) -> tuple[Drift, list[Cast], Columns]:
    types = {name.lower(): kind for name, kind in stored}
    names = {name.lower() for name, _ in staged}
    shared = tuple((name, types[name.lower()]) for name, _ in staged if name.lower() in types)
    casts = [Cast(name, kind, types[name.lower()]) for name, kind in staged if types.get(name.lower(), kind) != kind]
    added = tuple(name for name, _ in staged if name.lower() not in types)
    removed = tuple(name for name, _ in stored if name.lower() not in names)
    return Drift(added, removed, tuple(cast.column for cast in casts)), casts, shared


def _refuse_lost(to: Target, shared: Columns) -> None:
    names = {name.lower() for name, _ in shared}
    m = to.materialize
    needed: Sequence[str] = (*m.key, *([m.latest] if m.latest else [])) if m.strategy == "merge" else ()
    for name in needed:
        if name.lower() not in names:
            raise RunBlocked(f"the table has no column {name}, by which its rows are told apart", hint="add the column to the table, or rebuild it")


def _set_aside(cursor: duckdb.DuckDBPyConnection, casts: Sequence[Cast], *, carried: bool) -> int:
    count, example = first_row(cursor, checking.unfit(casts)) or (0, None)
    if not count:
        return 0
    if not carried:
        columns = ", ".join(f"{cast.column} {cast.target}" for cast in casts)
        raise RunFailed(f"{count} rows hold a value that does not fit the table ({columns})", hint=str(example))
    return set_aside(cursor, checking.unfit_records(casts))
