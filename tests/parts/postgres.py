"""A PostgreSQL for a test session."""

import asyncio
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from reactor.embedded import EmbeddedPostgres
from reactor.embedded.folder import free_port
from tests.parts.docker import container, docker_answers
from tests.parts.waiting import wait_until

IMAGE = "postgres:18"
HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Nothing that a test writes has to survive the machine, or a killed server."""


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The URL of a superuser's database. `folder` keeps the data of an embedded server."""
    if given := os.environ.get("REACTOR_TEST_POSTGRES_URL"):
        yield given
    elif docker_answers():
        port = free_port()
        url = f"postgresql://reactor@127.0.0.1:{port}/reactor"
        environment = {"POSTGRES_USER": "reactor", "POSTGRES_DB": "reactor", "POSTGRES_HOST_AUTH_METHOD": "trust"}
        with container(IMAGE, 5432, port, environment):
            wait_until(lambda: _answers(url), f"{IMAGE} answers", seconds=120.0)
            yield url
    else:
        with EmbeddedPostgres(folder, HASTY) as embedded:
            yield embedded


@contextmanager
def new_database(server_url: str, pattern: str = "template1") -> Iterator[str]:
    """The URL of a copy of a database, by default an empty one, which is dropped afterwards. Not from within an event loop."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    execute(server_url, f"CREATE DATABASE {name} TEMPLATE {pattern}")
    try:
        yield beside(server_url, name)
    finally:
        execute(server_url, f"DROP DATABASE {name} WITH (FORCE)")


def beside(server_url: str, name: str) -> str:
    """The URL of another database of that server."""
    return urlsplit(server_url)._replace(path=f"/{name}").geturl()


def _answers(url: str) -> bool:
    try:
        execute(url)
    except (OSError, asyncpg.PostgresError):
        return False
    return True


def execute(url: str, *statements: str) -> None:
    """Run statements on a connection of their own, each in its own transaction. Not from within an event loop."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())


def value(url: str, query: str) -> object:
    """The first value of the first row of a query, on a connection of its own. Not from within an event loop."""

    async def run() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(run())
