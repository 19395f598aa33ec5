"""What measurements stand on: a PostgreSQL, a real Apache Kafka, and a folder that is gone afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.integration.own_postgres import OwnPostgres
from tests.parts.kafka import kafka
from tests.parts.postgres import execute

SETTINGS = {"track_commit_timestamp": "on"}
"""PostgreSQL as `make run` has it, durable; and it remembers when a transaction was committed, for the latency of a hop."""


@dataclass(slots=True)
class Ground:
    """`server` may be killed and started again; `folder` is on the disk that the project is on."""

    server: OwnPostgres
    bootstrap_servers: str
    folder: Path

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """The URL of an empty database, dropped afterwards."""
        name = f"{name}_{uuid.uuid4().hex[:8]}"
        execute(self.server.url, f"CREATE DATABASE {name}")
        try:
            yield urlsplit(self.server.url)._replace(path=f"/{name}").geturl()
        finally:
            execute(self.server.url, f"DROP DATABASE {name} WITH (FORCE)")

    def new_folder(self, name: str) -> Path:
        """Empty, of this name and more."""
        made = self.folder / f"{name}-{uuid.uuid4().hex[:8]}"
        made.mkdir()
        return made


@contextmanager
def ground(under: Path) -> Iterator[Ground]:
    """Started here, stopped whatever happens."""
    under.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ground-", dir=under) as made:
        folder = Path(made).absolute()
        with OwnPostgres(folder / "postgres", SETTINGS) as server, kafka(folder / "kafka") as bootstrap_servers:
            yield Ground(server, bootstrap_servers, folder)
