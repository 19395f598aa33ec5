"""The statements that write staged rows into a table, one transaction's worth.

They name no columns but keys and hidden ones, so they are known before the SELECT is evaluated and hold for whatever it gives: by the time
they run, the staged rows have the table's names and types (`checking`), and columns meet by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from reactor.domain.assets import LakeTable
from reactor.lake.statements.quoting import identifier, literal
from reactor.lake.statements.staging import DELETED, SLICE, STAGE, Latest

MADE_HERE = "Made by Reactor"
"""Comment of each table that Reactor made: a table with rows and without it is somebody else's (MT-30)."""

_STAGED = f"temp.{identifier(STAGE)}"


def _columns(*hidden: str) -> str:
    return f"* EXCLUDE ({', '.join(identifier(name) for name in hidden)})" if hidden else "*"


def create(table: LakeTable, *, partitioned: bool, hidden: Sequence[str]) -> list[str]:
    """Make the empty table after the staged rows. `hidden`: their columns that the table does not get."""
    made = [] if table.schema == "main" else [f"CREATE SCHEMA IF NOT EXISTS {identifier(table.catalog)}.{identifier(table.schema)}"]
    made += [f"CREATE TABLE {table.sql} AS SELECT {_columns(*hidden)} FROM {_STAGED} LIMIT 0"]
    made += [f"ALTER TABLE {table.sql} SET PARTITIONED BY ({identifier(SLICE)})"] if partitioned else []
    return [*made, f"COMMENT ON TABLE {table.sql} IS {literal(MADE_HERE)}"]


def drop(table: LakeTable, *, view: bool) -> str:
    """Make room for a table of another shape, or for the first one where a view stands."""
    return f"DROP {'VIEW' if view else 'TABLE'} {table.sql}"


def delete(table: LakeTable, asset_partition: str | None) -> str:
    """All rows, or those of one slice."""
    return f"DELETE FROM {table.sql}" + (f" WHERE {identifier(SLICE)} = {literal(asset_partition)}" if asset_partition is not None else "")


def insert(table: LakeTable, hidden: Sequence[str]) -> str:
    """All staged rows."""
    return f"INSERT INTO {table.sql} BY NAME SELECT {_columns(*hidden)} FROM {_STAGED}"


def insert_some(statement: str, first: str, last: str) -> str:
    """An `insert` of the slices between two, both included, in the order of their bytes."""
    name = identifier(SLICE)
    return f"{statement} WHERE {name} >= {literal(first)} AND {name} <= {literal(last)}"


def merge(table: LakeTable, asset_partition: str | None, key: Sequence[str], latest: Latest | None, *, each_lands: bool, hidden: Sequence[str]) -> list[str]:
    """Delete what has a staged key, insert what is staged. Keys meet column by column, and NULL meets NULL.

    `each_lands`: rows with NULL in their key are events, so they are inserted and meet nobody. With `latest` a stored row that is newer stays,
    and what is staged for its key is left out.
    """
    equals = "=" if each_lands else "IS NOT DISTINCT FROM"
    same_key = " AND ".join(f"s.{identifier(name)} {equals} t.{identifier(name)}" for name in key)
    in_slice = [f"t.{identifier(SLICE)} = {literal(asset_partition)}"] if asset_partition is not None else []
    wanted = [f"s.{identifier(DELETED)} IS NOT TRUE"]
    met = same_key
    if latest:
        column = identifier(latest.column)
        met += f" AND NOT (t.{column} IS NOT NULL AND (s.{column} IS NULL OR t.{column} > s.{column}))"
        wanted.append(f"NOT EXISTS (SELECT 1 FROM {table.sql} AS t WHERE {' AND '.join([*in_slice, same_key])})")
    matched = " AND ".join([*in_slice, f"EXISTS (SELECT 1 FROM {_STAGED} AS s WHERE {met})"])
    return [
        f"DELETE FROM {table.sql} AS t WHERE {matched}",
        f"INSERT INTO {table.sql} BY NAME SELECT {_columns(DELETED, *hidden)} FROM {_STAGED} AS s WHERE {' AND '.join(wanted)}",
    ]
