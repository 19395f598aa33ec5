"""What products stand on."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import asyncpg

from tests.parts.postgres import postgres


@dataclass(frozen=True, slots=True)
class Ground:
    """A PostgreSQL (the URL of a superuser) and a folder for lakes and projects."""

    postgres_url: str
    folder: Path

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """The URL of an empty database, dropped afterwards."""
        name = f"product_{uuid.uuid4().hex[:12]}"
        await self._execute(f"CREATE DATABASE {name}")
        try:
            url = urlsplit(self.postgres_url)
            # asyncpg forgets about a session that is given up while it asks for TLS, and the event loop complains of it
            yield url._replace(path=f"/{name}", query=url.query or "sslmode=disable").geturl()
        finally:
            await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.postgres_url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def ground() -> Iterator[Ground]:
    """One of our own, for programs; tests take the fixture, which shares the session's server."""
    with TemporaryDirectory(prefix="reactor-ground-") as folder, postgres(Path(folder) / "postgres") as url:
        yield Ground(url, Path(folder))
