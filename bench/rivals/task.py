"""What a rival is told, and how it answers."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import Self

COMMIT_ROWS = 20_000
"""Rows of one DuckLake commit."""


@dataclass(slots=True)
class Task:
    """`count` events of a topic, from its start into the lake."""

    bootstrap_servers: str
    topic: str
    count: int
    postgres_url: str
    lake_folder: str
    _committed: int = 0
    _began_at: float = 0.0
    _began_cpu: float = 0.0
    _said: bool = field(default=False)

    @classmethod
    def given(cls) -> Self:
        """By the environment variables of `environment`."""
        found = [os.environ[f"RIVAL_{name}"] for name in ("BOOTSTRAP", "TOPIC", "COUNT", "POSTGRES", "LAKE")]
        return cls(found[0], found[1], int(found[2]), found[3], found[4])

    @property
    def environment(self) -> dict[str, str]:
        """For the process that calls `given`."""
        found = {"BOOTSTRAP": self.bootstrap_servers, "TOPIC": self.topic, "COUNT": str(self.count), "POSTGRES": self.postgres_url, "LAKE": self.lake_folder}
        return {f"RIVAL_{name}": text for name, text in found.items()}

    @property
    def group_id(self) -> str:
        """A reader group for which nothing is committed yet."""
        return f"rival-{os.getpid()}-{time.time_ns()}"

    def begin(self) -> None:
        """A record was read: the clock starts with the first."""
        if not self._began_at:
            self._began_at, self._began_cpu = time.perf_counter(), time.process_time()

    def committed(self, rows: int) -> None:
        """So many rows more; when all are, the last word is how long it took."""
        self._committed += rows
        print(json.dumps({"committed": self._committed}), flush=True)
        if self.finished and not self._said:
            self._said = True
            took = {"seconds": time.perf_counter() - self._began_at, "cpu_seconds": time.process_time() - self._began_cpu}
            print(json.dumps({"events": self._committed, **took}), flush=True)

    @property
    def finished(self) -> bool:
        """Whether all is committed."""
        return self._committed >= self.count
