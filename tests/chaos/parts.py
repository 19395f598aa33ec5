"""What all rounds stand on."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

from tests.chaos.plan import BROKERS
from tests.integration.own_postgres import OwnPostgres
from tests.parts import PartMissing
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


class ReadOnly:
    """A folder that refuses writes: for root, whom no permission binds, mounted upon itself; for others by its permissions."""

    def __init__(self, folder: Path) -> None:
        """It begins. Raises `PartMissing`: we are root and may not mount."""
        self._folder, self._mounted = folder, os.geteuid() == 0
        if self._mounted:
            _mount("mount", "--bind", str(folder), str(folder))
            _mount("mount", "-o", "remount,bind,ro", str(folder))
        else:
            self._permit(0o555)

    def end(self) -> None:
        """It can be written again."""
        if self._mounted:
            _mount("umount", "--lazy", str(self._folder))
        else:
            self._permit(0o755)

    def _permit(self, mode: int) -> None:
        for path in (self._folder, *self._folder.rglob("*")):
            with suppress(FileNotFoundError):
                if path.is_dir():
                    path.chmod(mode)


def _mount(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise PartMissing(f"a folder that root cannot write needs the right to mount: {done.stderr.strip()}")
