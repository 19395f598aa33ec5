"""What products stand on."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.parts.furnished import furnished
from tests.parts.postgres import postgres


@dataclass(frozen=True, slots=True)
class Ground:
    """A PostgreSQL (the URL of a superuser) and a folder for lakes and projects."""

    postgres_url: str
    folder: Path

    @contextmanager
    def project(self) -> Iterator[tuple[Path, str]]:
        """A new folder, and the URL of a furnished database whose lake `main` is `lake/main` there; it is dropped afterwards."""
        folder = self.folder / f"product_{uuid.uuid4().hex[:12]}"
        folder.mkdir()
        with furnished(self.postgres_url, {"main": folder / "lake" / "main"}) as database:
            url = urlsplit(database)
            # asyncpg forgets about a session that is given up while it asks for TLS, and the event loop complains of it
            yield folder, url._replace(query=url.query or "sslmode=disable").geturl()


@contextmanager
def ground() -> Iterator[Ground]:
    """One of our own, for programs; tests take the fixture, which shares the session's server."""
    with TemporaryDirectory(prefix="reactor-ground-") as folder, postgres(Path(folder) / "postgres") as url:
        yield Ground(url, Path(folder))
