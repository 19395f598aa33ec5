"""What is asked of staged rows before they are written, and the repair that gives them the table's names and types.

A repair or a check reads nothing but staged rows (the comparison of a replace: the slice it would replace), so none of them belongs to the
compiled SQL of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reactor.domain.assets import LakeTable
from reactor.lake.statements.casting import INTEGERS, Conversion, conversion
from reactor.lake.statements.quoting import identifier, literal
from reactor.lake.statements.staging import ROW, SLICE, STAGE

_STAGED = f"temp.{identifier(STAGE)}"


@dataclass(frozen=True, slots=True)
class Cast:
    """A column that the table has with another type."""

    column: str
    source: str
    target: str

    @property
    def _conversion(self) -> Conversion:
        return conversion(self.source, self.target)

    @property
    def may_fail(self) -> bool:
        """Whether there are values that do not fit."""
        return self._conversion.failing is not None

    @property
    def failing(self) -> str:
        """True for a row whose value does not fit."""
        failing = self._conversion.failing
        return failing(identifier(self.column)) if failing else "false"

    @property
    def value(self) -> str:
        """The value of a row whose value does."""
        return self._conversion.value(identifier(self.column))

    def reason(self) -> str:
        """The quarantine's word for such a value."""
        return literal("out_of_range" if self.target in INTEGERS and self.source in INTEGERS else "wrong_type")

    def message(self) -> str:
        """What it says of one row: `qty: 3000000000 does not fit INTEGER`."""
        name = identifier(self.column)
        return f"{literal(self.column + ': ')} || left(CAST({name} AS VARCHAR), 200) || {literal(f' does not fit {self.target}')}"


def unfit(casts: Sequence[Cast]) -> str:
    """Count the rows in which a value does not fit, and give the message of one of them."""
    return f"SELECT count(*), any_value({_first(casts, Cast.message)}) FROM {_STAGED} WHERE {_any(casts)}"


def unfit_records(casts: Sequence[Cast]) -> str:
    """The same rows as (record number, reason, column, message), one for each record."""
    said = (("reason", Cast.reason), ("column", lambda cast: literal(cast.column)), ("message", Cast.message))
    columns = ", ".join(f"{_first(casts, what)} AS {identifier(name)}" for name, what in said)
    return f"SELECT DISTINCT ON ({identifier(ROW)}) {identifier(ROW)}, {columns} FROM {_STAGED} WHERE {_any(casts)}"


def _any(casts: Sequence[Cast]) -> str:
    return " OR ".join(cast.failing for cast in casts)


def _first(casts: Sequence[Cast], said: Callable[[Cast], str]) -> str:
    return "CASE " + " ".join(f"WHEN {cast.failing} THEN {said(cast)}" for cast in casts) + " END"


def fitted(hidden: Sequence[str], shared: Sequence[str], casts: Sequence[Cast], latest: str = "", *, shown: bool) -> list[str]:
    """Restage with the table's columns and types only; rows of which a value does not fit are left out. `shown`: the stage is a view so far.

    `latest`: what picks the newest rows, where that has waited for the types.
    """
    to = {cast.column: cast.value for cast in casts}
    columns = [identifier(name) for name in hidden]
    columns += [f"{to[name]} AS {identifier(name)}" if name in to else identifier(name) for name in shared]
    doubtful = [cast for cast in casts if cast.may_fail]
    where = f" WHERE NOT ({_any(doubtful)})" if doubtful else ""
    rows = f"SELECT {', '.join(columns)} FROM {_STAGED}{where}"
    if latest:
        rows = f"SELECT * FROM ({rows}) {latest}"
    if not shown:
        return [f"CREATE OR REPLACE TEMP TABLE {identifier(STAGE)} AS {rows}"]
    copy = identifier("_wm_fitted")
    return [f"CREATE TEMP TABLE {copy} AS {rows}", f"DROP VIEW {_STAGED}", f"ALTER TABLE temp.{copy} RENAME TO {identifier(STAGE)}"]


def duplicates(key: Sequence[str]) -> str:
    """Count the keys that more than one staged row has, and show five of them as text. A key that holds a NULL is exempt (MT-5)."""
    names = [identifier(name) for name in key]
    whole = " AND ".join(f"{name} IS NOT NULL" for name in names)
    shown = " || ', ' || ".join(f"CAST({name} AS VARCHAR)" for name in names)
    groups = f"SELECT {', '.join(names)} FROM {_STAGED} WHERE {whole} GROUP BY ALL HAVING count(*) > 1"
    return f"SELECT count(*), list('(' || {shown} || ')')[:5] FROM ({groups})"


def null_keys(key: Sequence[str]) -> str:
    """Count the staged rows with a NULL in their key."""
    return f"SELECT count(*) FROM {_STAGED} WHERE {' OR '.join(f'{identifier(name)} IS NULL' for name in key)}"


def counts(*, sliced: bool) -> str:
    """(asset partition, staged rows); of a table without slices one row with an empty one."""
    return f"SELECT {identifier(SLICE) if sliced else literal('')}, count(*) FROM {_STAGED} GROUP BY ALL"


def rows_without_slice(table: LakeTable) -> str:
    """Count the rows of a partitioned table that belong to no slice."""
    return f"SELECT count(*) FROM {table.sql} WHERE {identifier(SLICE)} IS NULL"


def _alike(table: LakeTable, asset_partition: str | None, columns: Sequence[tuple[str, str]], staged: Mapping[str, str]) -> tuple[str, str]:
    """The staged rows and the stored ones with the same columns in the same order."""
    ours = ", ".join(identifier(staged[name.lower()]) if name.lower() in staged else f"CAST(NULL AS {kind})" for name, kind in columns)
    theirs = ", ".join(identifier(name) for name, _ in columns)
    where = f" WHERE {identifier(SLICE)} = {literal(asset_partition)}" if asset_partition is not None else ""
    return f"SELECT {ours} FROM {_STAGED}", f"SELECT {theirs} FROM {table.sql}{where}"


def same_sums(table: LakeTable, asset_partition: str | None, columns: Sequence[tuple[str, str]], staged: Mapping[str, str]) -> str:
    """Whether count and sum of row hashes are equal: cheap, and nearly always the answer."""
    ours, theirs = (f"(SELECT (count(*), sum(hash(r))) FROM ({side}) AS r)" for side in _alike(table, asset_partition, columns, staged))
    return f"SELECT {ours} = {theirs}"


def differing(table: LakeTable, asset_partition: str | None, columns: Sequence[tuple[str, str]], staged: Mapping[str, str]) -> str:
    """Whether there is a staged row that is not stored as often: exact, asked only where the sums are equal."""
    ours, theirs = _alike(table, asset_partition, columns, staged)
    return f"SELECT EXISTS (({ours}) EXCEPT ALL ({theirs}))"
