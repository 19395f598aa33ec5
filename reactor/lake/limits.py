"""The stages of a run in DuckDB: how long each took, and an end to them when they have taken too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb

from reactor.errors import RunFailed

LEFT_SECONDS_MIN = 1.0
"""A commit that is refused is written again, however long others have kept it waiting."""
INTERRUPT_AGAIN_SECONDS = 0.1
"""An interrupt between two statements is lost, so it is repeated."""


@dataclass(slots=True)
class Stages:
    """Of one run. `limit_seconds`: for all of them together, COMMIT aside; None: no limit. `timings`: stage → seconds."""

    script: str
    limit_seconds: float | None
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """What happens here is this stage, anew if it was there before."""
        began_at = time.perf_counter()
        try:
            yield
        finally:
            self.timings[stage] = round(time.perf_counter() - began_at, 6)

    @contextmanager
    def limited(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """End what the cursor does when the time is over. Raises `RunFailed` then."""
        if self.limit_seconds is None:
            yield
            return
        spent = sum(seconds for stage, seconds in self.timings.items() if stage not in {"write", "commit"})
        done, over = threading.Event(), threading.Event()
        watch = threading.Thread(target=_interrupt, args=(cursor, max(LEFT_SECONDS_MIN, self.limit_seconds - spent), done, over), daemon=True)
        watch.start()
        try:
            yield
        except duckdb.Error as error:
            if over.is_set():
                raise RunFailed(f"{self.script} ran longer than {self.limit_seconds:g} s and was stopped.", hint="[run] timeout_seconds") from error
            raise
        finally:
            done.set()
            watch.join()


def _interrupt(cursor: duckdb.DuckDBPyConnection, seconds: float, done: threading.Event, over: threading.Event) -> None:
    if done.wait(seconds):
        return
    over.set()
    cursor.interrupt()
    while not done.wait(INTERRUPT_AGAIN_SECONDS):
        cursor.interrupt()
