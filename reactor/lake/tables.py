"""What stands at a table's name in a lake: its columns as the transaction sees them, the rest as it is now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

import duckdb

from reactor.domain.assets import LakeTable
from reactor.lake.asking import first_row
from reactor.lake.statements.quoting import literal
from reactor.lake.statements.staging import SLICE
from reactor.lake.statements.writing import MADE_HERE

Columns = tuple[tuple[str, str], ...]
"""(name, DuckDB type) in order."""

MARK_START = '{"reactor":1,'
"""How the text begins that Reactor's commits leave in the lake."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A table or a view. `columns` without the hidden one. `folder`: below the lake's data path; None for a view.

    `never_unsliced`: DuckLake's statistics say that no row was ever without a slice; false where they do not know.
    """

    columns: Columns
    sliced: bool
    uuid: UUID | None
    folder: str | None
    made_here: bool
    never_unsliced: bool = False

    @property
    def view(self) -> bool:
        """Whether it is a view."""
        return self.uuid is None


_FACTS = """
SELECT t.table_uuid::text AS table_uuid, s.path_is_relative AND t.path_is_relative AS inside, s.path || t.path AS folder,
       EXISTS (SELECT FROM {meta}.ducklake_tag g WHERE g.object_id = t.table_id AND g.end_snapshot IS NULL AND g.key = 'comment' AND g.value = {made_here})
       OR EXISTS (SELECT FROM {meta}.ducklake_snapshot_changes c WHERE c.snapshot_id = t.begin_snapshot AND starts_with(c.commit_extra_info, {mark}))
         AS made_here,
       EXISTS (SELECT FROM {meta}.ducklake_column c JOIN {meta}.ducklake_table_column_stats n USING (table_id, column_id)
                WHERE c.table_id = t.table_id AND c.end_snapshot IS NULL AND lower(c.column_name) = {slice} AND NOT n.contains_null) AS never_unsliced
  FROM {meta}.ducklake_table t JOIN {meta}.ducklake_schema s USING (schema_id)
 WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL AND lower(t.table_name) = {table} AND lower(s.schema_name) = {schema}
"""


def metadata_query(catalog: str, sql: str) -> str:
    """A query of PostgreSQL, over a lake's own connection. `sql` may not hold NUL."""
    return f"SELECT * FROM postgres_query({literal(f'__ducklake_metadata_{catalog}')}, {literal(sql)})"


def metadata_schema(catalog: str) -> str:
    """The PostgreSQL schema of a lake's catalog, quoted: it has the name of the attached database."""
    return '"' + catalog.replace('"', '""') + '"'


def columns_of(cursor: duckdb.DuckDBPyConnection, table: LakeTable) -> tuple[Columns, bool] | None:
    """Its columns without the hidden one, and whether it has that; None if there is no such table. Raises `duckdb.Error`."""
    try:
        described = cursor.execute(f"DESCRIBE {table.sql}").fetchall()
    except duckdb.CatalogException:
        return None
    columns = tuple((str(row[0]), str(row[1])) for row in described)
    visible = tuple(column for column in columns if column[0].lower() != SLICE)
    return visible, len(visible) < len(columns)


def look(cursor: duckdb.DuckDBPyConnection, table: LakeTable) -> Existing | None:
    """The table or view of that name; None if there is none. Raises `duckdb.Error`.

    Not within a transaction that writes: it asks over a connection of its own, which then would have to commit as well.
    """
    described = columns_of(cursor, table)
    if described is None:
        return None
    facts = _FACTS.format(
        meta=metadata_schema(table.catalog), made_here=literal(MADE_HERE), mark=literal(MARK_START), slice=literal(SLICE),
        table=literal(table.table), schema=literal(table.schema),
    )  # fmt: skip
    found = first_row(cursor, metadata_query(table.catalog, facts))
    if found is None:
        return Existing(*described, uuid=None, folder=None, made_here=False)
    uuid, inside, folder, made_here, never_unsliced = found
    return Existing(*described, UUID(uuid), folder if inside else None, bool(made_here), bool(never_unsliced))


def new_folder(cursor: duckdb.DuckDBPyConnection, table: LakeTable) -> str | None:
    """The folder of a table that is as new as the open transaction; None while it has no file."""
    row = first_row(cursor, f"SELECT filename FROM {table.sql} LIMIT 1")
    return str(row[0]).rpartition("/")[0] if row else None


def option(catalog: str, name: str) -> str:
    """Query: what a whole lake has set an option to, if it has."""
    return metadata_query(catalog, f"SELECT value FROM {metadata_schema(catalog)}.ducklake_metadata WHERE key = {literal(name)} AND scope IS NULL")


def any_file(catalog: str) -> str:
    """Query: a row if a lake has a data file in any snapshot."""
    return metadata_query(catalog, f"SELECT 1 FROM {metadata_schema(catalog)}.ducklake_data_file LIMIT 1")


def file_names(catalog: str, names: Collection[str]) -> str:
    """Query: those of the names that a data or delete file has in any snapshot of a lake."""
    listed = ", ".join(literal(name) for name in sorted(names))
    files = " UNION ALL ".join(f"SELECT path FROM {metadata_schema(catalog)}.ducklake_{kind}_file" for kind in ("data", "delete"))
    ends = "regexp_replace(path, '^.*/', '')"
    return metadata_query(catalog, f"SELECT DISTINCT {ends} AS name FROM ({files}) AS files WHERE {ends} IN ({listed})")
