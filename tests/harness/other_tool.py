"""Another tool: plain DuckDB with the DuckLake extension on the same lakes. It knows nothing of Reactor."""

import asyncio
from collections.abc import Sequence
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

    async def execute(self, *statements: str) -> None:
        """Run statements; more than one in one transaction."""
        both = ["BEGIN", *statements, "COMMIT"] if len(statements) > 1 else statements
        async with self._one_at_a_time:
            for statement in both:
                await asyncio.to_thread(self._connection.execute, statement)

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
        """The table anew, with these columns (`name TYPE`) and cells."""
        cells = ", ".join(f"({', '.join('NULL' if c is None else _literal(c) for c in row)})" for row in rows)
        insert = [f"INSERT INTO {table} VALUES {cells}"] if rows else []
        await self.execute(f"CREATE OR REPLACE TABLE {table} ({', '.join(columns)})", *insert)

    def close(self) -> None:
        """Detach and close."""
        self._connection.execute("USE memory; DETACH lake")
        self._connection.close()

    def _texts(self, sql: str) -> list[Cells]:
        self._connection.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})")
        return [list(row) for row in self._connection.fetchall()]


def _literal(cell: str) -> str:
    return "'" + cell.replace("'", "''") + "'"
