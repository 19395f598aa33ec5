"""The script's own SQL: its setup and its SELECT, evaluated once for each slice into the stage, a table or a view of the records (`Work.shown`).

Everything happens in one transaction of its own, so that setup and SELECT see one state of the lakes. It commits before anything is
written: the staged rows outlive every refused commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace

import duckdb

from reactor.domain.assets import LakeTable
from reactor.errors import RunBlocked
from reactor.lake.session import leave
from reactor.lake.statements.carry import only_names
from reactor.lake.statements.quoting import identifier
from reactor.lake.statements.script_text import ScriptText, attaches
from reactor.lake.statements.staging import DELETED_OUTPUT, STAGE, Latest, Selected, batch_view, mark_deletes, selections, stage
from reactor.lake.tables import Columns, Existing, columns_of, look

RESERVED_PREFIX = "_wm_"
Enter = Callable[[duckdb.DuckDBPyConnection], None]

UNFIT = {
    "hugeint": "DECIMAL(38,0)", "uhugeint": "DECIMAL(38,0)", "bignum": "VARCHAR", "time with time zone": "TIME", "time_ns": "TIME",
    "enum": "VARCHAR", "union": "STRUCT", "bit": "VARCHAR", "array": "a list type",
}  # fmt: skip
"""Types that a lake cannot keep, or keeps as something else without a word, and what to cast them to."""

_TEMPORARY = """
SELECT 'TABLE', table_name FROM duckdb_tables() WHERE temporary AND NOT starts_with(table_name, '_wm_')
UNION ALL SELECT 'VIEW', view_name FROM duckdb_views() WHERE temporary AND NOT internal AND view_name <> 'batch' AND NOT starts_with(view_name, '_wm_')
UNION ALL SELECT DISTINCT CASE function_type WHEN 'macro' THEN 'MACRO' ELSE 'MACRO TABLE' END, function_name FROM duckdb_functions()
           WHERE database_name = 'temp' AND NOT internal AND function_type IN ('macro', 'table_macro')
"""


@dataclass(frozen=True, slots=True)
class Records:
    """Where the records of each slice lie in the table `_wm_batch`: half-open ranges of `_wm_row`, in the order of the slices.

    `exact`: the columns, in lower case, that hold what was read as it is, so that showing them again costs next to nothing and cannot fail.
    `accepted_rows`: how many records of each slice are there; None where nobody has counted.
    """

    ranges: Sequence[tuple[int, int]]
    hidden: tuple[str, ...]
    exact: frozenset[str] = frozenset()
    accepted_rows: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A script and the slices to evaluate it for. `records` where it reads `batch`."""

    text: ScriptText
    slices: Sequence[str]
    records: Records | None = None

    @property
    def partitioned(self) -> bool:
        """Whether its table has slices."""
        return self.text.script.header.partitioned is not None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of a merge's key."""
        m = self.text.script.managed
        return m.key if m and m.strategy == "merge" else ()

    @property
    def shown(self) -> bool:
        """Whether the stage can be a view of the records: an append that only names columns. They are few, and copying them takes a fifth of a run."""
        managed = self.text.script.managed
        if self.records is None or managed is None or managed.strategy != "append":
            return False
        return only_names(self.text.select(self.slices[0]), self.records.exact)

    @property
    def latest(self) -> Latest | None:
        """`key= latest=`, where it counts."""
        m = self.text.script.managed
        return Latest(m.key, m.latest) if m and m.strategy == "merge" and m.latest else None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What came of it: the stage has the `columns`, and the hidden ones that `selected` says.

    `selected` and `setup` are those of the first slice. `shown`: the stage is a view of the records, which have to stay as long as it is that.
    `existing`: what stood at the target's name, its columns as the evaluation began and the rest as it ended. `waiting`: `latest=` of which the
    newest rows are not picked yet, because the table has other types, and another order.
    """

    selected: Selected
    columns: Columns
    setup: tuple[str, ...]
    shown: bool
    existing: Existing | None
    waiting: Latest | None = None


def evaluate(
    cursor: duckdb.DuckDBPyConnection, work: Work, table: LakeTable, enter: Enter, attaching: AbstractContextManager[object],
) -> Evaluated:
    """Stage the rows of the slices for a table. Raises `RunBlocked` (its columns cannot be kept), `duckdb.Error`.

    `enter` makes the script's lake the cursor's database, which it is not any more afterwards. `attaching`: held while a script has databases
    of its own, because their names are everybody's.
    """
    with _attached(cursor, work, attaching):
        return _evaluate(cursor, work, table, enter)


def bind(cursor: duckdb.DuckDBPyConnection, work: Work, attaching: AbstractContextManager[object]) -> None:
    """What `evaluate` would say of the SELECT before its first row: the setup is executed, the SELECT is not, and nothing stays."""
    with _attached(cursor, work, attaching):
        cursor.execute("BEGIN")
        try:
            if work.records is not None:
                cursor.execute(batch_view(None, work.records.hidden))
            for text in (work.text.macro, *work.text.setup(work.slices[0])):
                if text is not None:
                    cursor.execute(text)
            select = Selected(work.text.select(work.slices[0]))
            columns = _checked(cursor, work, select)
            _refuse_unfit(cursor, columns, f"({select.sql})")
        finally:
            cursor.execute("ROLLBACK")


@contextmanager
def _attached(cursor: duckdb.DuckDBPyConnection, work: Work, attaching: AbstractContextManager[object]) -> Iterator[None]:
    """While a script works that may attach databases of its own; they are detached after it."""
    if not work.text.attaches:
        yield
        return
    with attaching:
        before = _databases(cursor)
        try:
            yield
        finally:
            leave(cursor)
            for name in _databases(cursor) - before:
                cursor.execute(f"DETACH {identifier(name)}")


def _databases(cursor: duckdb.DuckDBPyConnection) -> set[str]:
    return {str(row[0]) for row in cursor.execute("SELECT database_name FROM duckdb_databases()").fetchall()}


def _evaluate(cursor: duckdb.DuckDBPyConnection, work: Work, table: LakeTable, enter: Enter) -> Evaluated:
    select = work.text.select(work.slices[0])
    *better, as_written = selections(select, reads_batch=work.records is not None, sliced=len(work.slices) > 1)
    for selected in better:
        try:
            return _in_transaction(cursor, work, selected, table, enter)
        except duckdb.BinderException:  # it only looked plain; if the SELECT itself is wrong, the next way says so
            continue
    return _in_transaction(cursor, work, as_written, table, enter)


def _in_transaction(cursor: duckdb.DuckDBPyConnection, work: Work, selected: Selected, table: LakeTable, enter: Enter) -> Evaluated:
    cursor.execute("BEGIN")
    try:
        enter(cursor)  # to come and go asks the catalog as well, and so does a look: within the transaction that has it open
        evaluated = _staged(cursor, work, selected, table)
        leave(cursor)
        evaluated = replace(evaluated, existing=look(cursor, table))
        cursor.execute("COMMIT")
    except BaseException:
        with suppress(duckdb.Error):
            cursor.execute("ROLLBACK")
        raise
    return evaluated


def _staged(cursor: duckdb.DuckDBPyConnection, work: Work, selected: Selected, table: LakeTable) -> Evaluated:
    at_once = len(work.slices) == 1 or (selected.sliced and work.text.same_for(work.slices))
    if not at_once:
        selected = Selected(work.text.select(work.slices[0]))
    columns: Columns = ()
    latest = work.latest
    shown = at_once and selected.carried and work.shown
    for number, asset_partition in enumerate(work.slices[:1] if at_once else work.slices):
        if number:
            _forget_setup(cursor)
        if work.records is not None:
            cursor.execute(batch_view(None if at_once else work.records.ranges[number], work.records.hidden))
        if work.text.macro is not None:
            cursor.execute(work.text.macro)
        for text in work.text.setup(asset_partition):
            if not number or not attaches(text):
                cursor.execute(text)
        one = Selected(work.text.select(asset_partition)) if number else selected
        if not number:
            columns = _checked(cursor, work, one)
            latest = None if latest and _waits(cursor, latest, columns, table) else latest
        cursor.execute(stage(one, asset_partition if work.partitioned else None, latest, first=not number, shown=shown))
    _refuse_unfit(cursor, columns, f"temp.{identifier(STAGE)}")
    _mark_deletes(cursor, work, columns)
    return Evaluated(selected, columns, work.text.setup(work.slices[0]), shown, existing=None, waiting=None if latest else work.latest)


def _waits(cursor: duckdb.DuckDBPyConnection, latest: Latest, columns: Columns, table: LakeTable) -> bool:
    """Whether the table has other types for what tells its rows apart, so that other rows are of one key or the newest: '9' is no less than '11' there."""
    stored, _ = columns_of(cursor, table) or ((), False)
    types, deciding = {name.lower(): kind for name, kind in stored}, {name.lower() for name in (*latest.key, latest.column)}
    return any(types.get(name.lower(), kind) != kind for name, kind in columns if name.lower() in deciding)


def _forget_setup(cursor: duckdb.DuckDBPyConnection) -> None:
    """Drop what the setup of the slice before has made, so that it can be made again."""
    for kind, name in cursor.execute(_TEMPORARY).fetchall():
        cursor.execute(f"DROP {kind} temp.{identifier(name)}")


def _checked(cursor: duckdb.DuckDBPyConnection, work: Work, selected: Selected) -> Columns:
    """The columns of the SELECT without the hidden ones. Raises RunBlocked for names that no table can have."""
    described = cursor.execute(f"DESCRIBE {selected.sql}").fetchall()
    hidden = set(work.records.hidden) if selected.carried and work.records else set()
    names = Counter(str(row[0]).lower() for row in described)
    columns = tuple((str(row[0]), str(row[1])) for row in described if row[0] not in hidden or names[row[0]] > 1)
    for name, _ in columns:
        if name.lower().startswith(RESERVED_PREFIX):
            raise RunBlocked(f"the column {name} is reserved", hint="rename it in the SELECT")
        if names[name.lower()] > 1:
            raise RunBlocked(f"the SELECT has more than one column {name}", hint="rename all but one of them")
    for role, wanted in (("key column", work.key), ("latest= column", (work.latest.column,) if work.latest else ())):
        for name in wanted:
            if name.lower() not in names:
                raise RunBlocked(f"{role} {name} is not in the SELECT", hint=f"it has {', '.join(name for name, _ in columns)}")
    return columns


def _refuse_unfit(cursor: duckdb.DuckDBPyConnection, columns: Columns, relation: str) -> None:
    described = cursor.execute(f"SELECT * FROM {relation} LIMIT 0").description or []
    declared = dict(columns)
    for name, kind, *_ in described:
        if (instead := _unfit(kind)) is not None:
            raise RunBlocked(f"the column {name} is {declared.get(name, kind)}, which a lake cannot keep", hint=f"cast it, for example to {instead}")


def _unfit(kind: duckdb.sqltypes.DuckDBPyType) -> str | None:
    """What to cast a type to that a lake cannot keep, itself or within; None if it can."""
    if kind.id in UNFIT:
        return UNFIT[kind.id]
    if kind.id not in {"struct", "list", "map"}:
        return None
    types = (child for _, child in kind.children if isinstance(child, duckdb.sqltypes.DuckDBPyType))
    return next((found for child in types if (found := _unfit(child)) is not None), None)


def _mark_deletes(cursor: duckdb.DuckDBPyConnection, work: Work, columns: Columns) -> None:
    """Give the rows of a merge their hidden mark."""
    given = next((kind for name, kind in columns if name.lower() == DELETED_OUTPUT), None)
    if given is not None and given != "BOOLEAN":
        raise RunBlocked(f"the column {DELETED_OUTPUT} is {given}; it says by true which rows are gone", hint="cast it to BOOLEAN, or rename it")
    if work.key:
        cursor.execute(mark_deletes(given=given is not None))
    elif given is not None:
        raise RunBlocked(f"the SELECT has {DELETED_OUTPUT}, but without key= nothing can be deleted", hint="add key=, or rename the column")
