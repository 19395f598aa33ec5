"""A real DuckLake on the test's database, as any tool attaches it, and transactions with our mark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import duckdb

LAKE = "lake_main"


def extension(name: str) -> str:
    """DuckDB's own loader finds an extension by its path."""
    folder = files(f"duckdb_extension_{name}").joinpath("extensions", f"v{duckdb.__version__}")
    return str(folder.joinpath(f"{name}.duckdb_extension"))


@contextmanager
def attached(url: str, folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB instance whose database is the lake `main`."""
    where = urlsplit(url)
    connection = duckdb.connect()
    for name in ("postgres_scanner", "ducklake"):
        connection.execute(f"LOAD '{extension(name)}'")
    connection.execute("SET ducklake_retry_wait_ms = 1")
    connection.execute(
        f"ATTACH 'ducklake:postgres:host={where.hostname} port={where.port} user={where.username} dbname={where.path[1:]}' AS {LAKE} "
        f"(DATA_PATH '{folder}/', METADATA_SCHEMA '{LAKE}', DATA_INLINING_ROW_LIMIT 0)")
    connection.execute(f"USE {LAKE}")
    try:
        yield connection
    finally:
        connection.execute("USE memory")
        connection.execute(f"DETACH {LAKE}")
        connection.close()


def ours(lake: duckdb.DuckDBPyConnection, text: str, *statements: str) -> None:
    """A transaction of ours; after a failed one nothing is open."""
    lake.execute("BEGIN")
    try:
        lake.execute(f"CALL {LAKE}.set_commit_message('reactor', '', extra_info => ?)", [text])
        for statement in statements:
            lake.execute(statement)
        lake.execute("COMMIT")
    except duckdb.Error:
        rolled_back(lake)
        raise


def rolled_back(lake: duckdb.DuckDBPyConnection) -> None:
    """After a failed COMMIT there is nothing to roll back, and DuckDB says so by an error."""
    try:
        lake.execute("ROLLBACK")
    except duckdb.TransactionException:
        return
