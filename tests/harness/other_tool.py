"""Another tool: plain DuckDB with the DuckLake extension on the same lakes. It knows nothing of Reactor."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import duckdb

from reactor.lake.extensions import extension_path
from reactor.lake.session import connection_text

Cells = list[str | None]


class OtherTool:
    """A connection of its own, in UTC, whose database is the lake `main`."""

    def __init__(self, postgres_url: str, data_path: Path) -> None:
        text, _ = connection_text(postgres_url)
        # without the check of signatures, which takes half a second; the product makes it
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "allow_unsigned_extensions": "true", "threads": 1})
        for name in ("ducklake", "postgres_scanner"):
            self._connection.execute(f"LOAD '{extension_path(name)}'")
        quoted = text.replace("'", "''")
        self._connection.execute(f"ATTACH 'ducklake:postgres:{quoted}' AS lake (METADATA_SCHEMA 'lake_main', DATA_PATH '{data_path}/')")
        self._connection.execute("USE lake; SET TimeZone = 'UTC'")
        self._one_at_a_time = asyncio.Lock()
        self._views: set[str] = set()

    async def execute(self, *statements: str) -> None:
        """Run statements; more than one in one transaction. What fails leaves nothing behind."""
        both = ["BEGIN", *statements, "COMMIT"] if len(statements) > 1 else statements
        async with self._one_at_a_time:
            await asyncio.to_thread(self._execute, both)

    async def rows(self, sql: str) -> list[Cells]:
        """Rows in the order of the query, cells as `CAST(cell AS VARCHAR)`."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._texts, sql)

    async def columns(self, table: str) -> dict[str, str]:
        """Name and type of each column."""
        return {str(row[0]): str(row[1]) for row in await self.rows(f"SELECT column_name, column_type FROM (DESCRIBE {table})")}

    async def has(self, table: str) -> bool:
        """Whether there is such a table or view, `[schema.]table`."""
        schema, _, name = table.rpartition(".")
        where = f"table_catalog = 'lake' AND table_schema = '{schema or 'main'}' AND lower(table_name) = lower('{name}')"
        return bool(await self.rows(f"SELECT 1 FROM information_schema.tables WHERE {where}"))

    async def snapshot(self) -> int:
        """The newest snapshot id."""
        return int(str((await self.rows("SELECT max(snapshot_id) FROM lake.snapshots()"))[0][0]))

    async def replace(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        """The table anew, with these columns (`name TYPE`) and cells; a view, where the lake has no such type."""
        if table in self._views:
            await self.execute(f"DROP VIEW {table}")
            self._views.remove(table)
        cells = ", ".join(f"({', '.join('NULL' if c is None else _literal(c) for c in row)})" for row in rows)
        insert = [f"INSERT INTO {table} VALUES {cells}"] if rows else []
        try:
            await self.execute(f"CREATE OR REPLACE TABLE {table} ({', '.join(columns)})", *insert)
        except duckdb.InvalidInputException as error:
            if "unsupported type" not in str(error):
                raise
            await self._replace_by_view(table, columns, cells)

    async def _replace_by_view(self, table: str, columns: Sequence[str], cells: str) -> None:
        names = [column.split()[0] for column in columns]
        cast = ", ".join(f"CAST({name} AS {column.split(None, 1)[1]}) AS {name}" for name, column in zip(names, columns, strict=True))
        given = f"(VALUES {cells})" if cells else f"(SELECT {', '.join(['NULL'] * len(names))} WHERE false)"
        await self.execute(f"DROP TABLE IF EXISTS {table}", f"CREATE VIEW {table} AS SELECT {cast} FROM {given} AS given({', '.join(names)})")
        self._views.add(table)

    def close(self) -> None:
        """Detach and close."""
        self._connection.execute("USE memory; DETACH lake")
        self._connection.close()

    def _execute(self, statements: Sequence[str]) -> None:
        try:
            for statement in statements:
                self._connection.execute(statement)
        except duckdb.Error:
            with suppress(duckdb.Error):  # a transaction that nobody ends fails whoever comes next, and the process when it ends
                self._connection.execute("ROLLBACK")
            raise

    def _texts(self, sql: str) -> list[Cells]:
        self._connection.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})")
        return [list(row) for row in self._connection.fetchall()]


def _literal(cell: str) -> str:
    return "'" + cell.replace("'", "''") + "'"
