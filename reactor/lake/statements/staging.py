"""The statements that make the staged rows: hidden columns, `latest=`, and the repairs that make them fit the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reactor.lake.statements.carry import BATCH, carrying
from reactor.lake.statements.quoting import identifier, literal

STAGE = "_wm_stage"
ROW = "_wm_row"
"""Hidden: number of the record that a row was made from, in the order of the batch."""
SLICE = "_wm_partition"
"""Hidden: the asset partition of a row; the one hidden column that the table has too."""
DELETED = "_wm_deleted"
"""Hidden: what the script's `_deleted` said; a true one only deletes."""
DELETED_OUTPUT = "_deleted"


@dataclass(frozen=True, slots=True)
class Latest:
    """`key= latest=`: of the rows of one key the newest stays."""

    key: tuple[str, ...]
    column: str


@dataclass(frozen=True, slots=True)
class Selected:
    """A SELECT that is about to be staged. `carried`: its rows know their records; `sliced`: they know their asset partitions too."""

    sql: str
    carried: bool = False
    sliced: bool = False

    @property
    def hidden(self) -> tuple[str, ...]:
        """The staged columns that no table gets."""
        return (ROW,) if self.carried else ()


def selections(select: str, *, reads_batch: bool, sliced: bool = False) -> list[Selected]:
    """The ways to evaluate a SELECT, the better one first. One that looks plain and is not does not bind; then the next one serves.

    `sliced`: the records are of more than one slice.
    """
    carried = carrying(select, (ROW, SLICE) if sliced else (ROW,)) if reads_batch else None
    as_written = Selected(select)
    return [Selected(carried, carried=True, sliced=sliced), as_written] if carried else [as_written]


def stage(selected: Selected, asset_partition: str | None, latest: Latest | None, *, first: bool = True, shown: bool = False) -> str:
    """Evaluate it into the stage. `asset_partition`: of all its rows, where they do not know it themselves; None for an unpartitioned table.

    `shown`: the stage is a view instead, which shows the records where they were decoded.
    """
    columns = "*"
    if asset_partition is not None and not selected.sliced:
        columns += f", {literal(asset_partition)} AS {identifier(SLICE)}"
    into = f"CREATE OR REPLACE TEMP {'VIEW' if shown else 'TABLE'} {identifier(STAGE)} AS" if first else f"INSERT INTO temp.{identifier(STAGE)} BY NAME"
    body = f"SELECT {columns} FROM (\n{selected.sql}\n)"
    return f"{into}\n{body}" + (f"\n{newest(latest, selected)}" if latest else "")


def newest(latest: Latest, selected: Selected) -> str:
    """Ties stay in, unless the rows know their records: then the later one wins."""
    keys = [identifier(name) for name in latest.key]
    order = f"{identifier(latest.column)} DESC NULLS LAST" + (f", {identifier(ROW)} DESC" if selected.carried else "")
    exempt = " OR ".join(f"{key} IS NULL" for key in keys)
    return f"QUALIFY {exempt} OR rank() OVER (PARTITION BY {', '.join(keys)} ORDER BY {order}) = 1"


def batch_view(rows: tuple[int, int] | None, hidden: Sequence[str]) -> str:
    """`batch` as the script knows it, whole or the records `[lo, hi)` of one slice."""
    within = f" WHERE {identifier(ROW)} >= {rows[0]} AND {identifier(ROW)} < {rows[1]}" if rows else ""
    without = ", ".join(identifier(name) for name in hidden)
    return f"CREATE OR REPLACE TEMP VIEW batch AS SELECT * EXCLUDE ({without}) FROM temp.{identifier(BATCH)}{within}"


def mark_deletes(*, given: bool) -> str:
    """Give the staged rows of a merge their hidden delete mark, from the script's `_deleted` if it has one."""
    if given:
        return f"ALTER TABLE temp.{identifier(STAGE)} RENAME COLUMN {identifier(DELETED_OUTPUT)} TO {identifier(DELETED)}"
    return f"ALTER TABLE temp.{identifier(STAGE)} ADD COLUMN {identifier(DELETED)} BOOLEAN DEFAULT false"
