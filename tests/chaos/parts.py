"""What all rounds stand on."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

from tests.chaos.plan import BROKERS
from tests.integration.own_postgres import OwnPostgres
from tests.parts.kafka import KafkaCluster
from tests.parts.postgres import execute


@dataclass(frozen=True, slots=True)
class Parts:
    """Three brokers, a PostgreSQL, and a folder, which is deleted at the end unless something was found."""

    cluster: KafkaCluster
    postgres: OwnPostgres
    folder: Path

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """The URL of an empty one, dropped afterwards."""
        execute(self.postgres.url, f"CREATE DATABASE {name}")
        yield urlsplit(self.postgres.url)._replace(path=f"/{name}").geturl()
        execute(self.postgres.url, f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def parts() -> Iterator[Parts]:
    """Raises PartMissing, UsageError: this machine cannot have one of them."""
    folder = Path(mkdtemp(prefix="reactor-chaos-"))
    with KafkaCluster(folder / "kafka", brokers=BROKERS) as cluster, OwnPostgres(folder / "postgres") as postgres:
        yield Parts(cluster, postgres, folder)
    for part in ("kafka", "postgres"):
        shutil.rmtree(folder / part)
    with suppress(OSError):  # what a finding is read from is still there
        folder.rmdir()
