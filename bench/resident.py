"""The resident memory of a process, looked at while something lasts."""

from __future__ import annotations

import threading
import time
from typing import Self

import psutil

LOOK_SECONDS = 0.1
MEGABYTE = 1_000_000


class Resident:
    """`with Resident(pid) as resident`: `looks` are (seconds since the start, MB)."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._began_at = time.monotonic()
        self.looks: list[tuple[float, float]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def cpu_seconds(self) -> float:
        """Of the process, until now."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            try:
                self.looks.append((time.monotonic() - self._began_at, self._process.memory_info().rss / MEGABYTE))
            except psutil.NoSuchProcess:
                return

    @property
    def most_mb(self) -> float:
        """The most that was seen."""
        return max((mb for _, mb in self.looks), default=0.0)

    def median_mb(self, begin: float, end: float) -> float:
        """Of a part of the time, `begin` and `end` from 0 to 1."""
        last = self.looks[-1][0] if self.looks else 0.0
        some = sorted(mb for at, mb in self.looks if begin * last <= at <= end * last)
        return some[len(some) // 2] if some else 0.0
