"""A PostgreSQL that a test may kill: the embedded one, started again on its data and its port."""

import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from reactor.embedded import EmbeddedPostgres

SETTINGS = {"fsync": "off", "full_page_writes": "off"}
"""What it has answered has left its memory: with `synchronous_commit = off` a killed server forgets its last commits."""


class OwnPostgres:
    """`with OwnPostgres(folder) as server`: it answers at `server.url` while it lives."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self._folder, self._settings = folder, settings
        self._life = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._life.close()

    def start(self) -> None:
        """Again, at the same address."""
        url = self._life.enter_context(EmbeddedPostgres(self._folder, self._settings))
        assert self.url in {"", url}
        self.url = url

    def kill(self) -> None:
        """kill -9 of the postmaster; its sessions end by themselves."""
        lock_file = self._folder / "data" / "postmaster.pid"
        os.kill(int(lock_file.read_text().split()[0]), signal.SIGKILL)
        self._life.close()
