"""Databases that begin with what most tests need: the state's schema, and the lakes `main` and `sales`, empty.

To make a lake takes a quarter of a second, to copy a database a tenth of that. So one is made for each server, and copied. That an empty
database is furnished by Reactor itself is what the tests of `session`, `migrations` and `serve` are for.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import duckdb

from reactor.lake import session
from reactor.lake.ducklake import DuckLake
from reactor.lake.session import LakeSettings
from reactor.state.migrations import migrate, shipped
from tests.parts.postgres import beside, execute, new_database, value

LAKES = ("main", "sales")


@contextmanager
def furnished(server: str, lakes: Mapping[str, Path]) -> Iterator[str]:
    """The URL of a database whose lakes keep their files in these folders. Not from within an event loop. `server`: of a superuser."""
    with new_database(server, _pattern(server)) as url:
        execute(url, *(f"UPDATE lake_{lake}.ducklake_metadata SET value = '{folder}/' WHERE key = 'data_path'" for lake, folder in lakes.items()))
        yield url


@cache
def _pattern(server: str) -> str:
    """The name of the database that is copied; whoever needs it first makes it."""
    facts = [duckdb.__version__, version("duckdb-extension-ducklake"), Path(session.__file__).read_text(), *(migration.sql for migration in shipped())]
    name = f"furnished_{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"
    if not value(server, f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
        making = f"{name}_{uuid.uuid4().hex[:8]}"
        execute(server, f"CREATE DATABASE {making}")
        try:
            _furnish(beside(server, making))
            execute(server, f"ALTER DATABASE {making} RENAME TO {name}")
        except asyncpg.DuplicateDatabaseError:  # another one was first
            pass
        finally:
            execute(server, f"DROP DATABASE IF EXISTS {making}")
    return name


def _furnish(url: str) -> None:
    with TemporaryDirectory() as folder:
        DuckLake(postgres_url=url, lakes={lake: LakeSettings(f"{folder}/{lake}") for lake in LAKES}).close()

    async def migrated() -> None:
        connection = await asyncpg.connect(url)
        try:
            await migrate(connection)
        finally:
            await connection.close()

    asyncio.run(migrated())
