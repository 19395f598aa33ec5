"""When an open slice becomes due: due = min(last + quiet, first + max), trailing edge with a ceiling, or at once when rows or bytes are reached.

One slice per asset partition over all edges of a consumer; each window keeps its own first and last arrival, and the earliest due wins.
What is due waits in order of its due time until the lane takes it, and whatever comes meanwhile joins it. The debouncer knows times and
sizes, never records: those lie in the ledgers. `now` and arrivals are POSIX seconds; an arrival may lie before `now` (a record that was
already in the log when its source partition was assigned).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

WAIT_MAX_FACTOR = 10
"""Without `max=` a slice waits at most this many quiet times, or `wait_max_seconds` if that is more."""


class Window(NamedTuple):
    """Resolved settings of one edge. `rows_max`, `bytes_max` None: without limit."""

    quiet_seconds: float
    wait_max_seconds: float
    rows_max: int | None = None
    bytes_max: int | None = None


AT_ONCE = Window(0.0, 0.0)


@dataclass(slots=True)
class OpenSlice:
    """`arrivals`: window → first and last arrival."""

    arrivals: dict[Window, tuple[float, float]] = field(default_factory=dict)
    first_at: float = 0.0
    rows: int = 0
    size_bytes: int = 0

    @property
    def due_at(self) -> float:
        """POSIX seconds."""
        due = float("inf")
        for window, (first, last) in self.arrivals.items():
            due = min(due, last + window.quiet_seconds, first + window.wait_max_seconds)
        return due


class Debouncer:
    """Open and due slices of one consumer, by asset partition.

    `_agenda` is a heap of (deadline, asset partition), looked at lazily: an arrival only moves a deadline later, so an entry that comes up
    too early is put in again; of an asset partition that is gone it is dropped. 10,000 open slices cost an arrival nothing.
    """

    def __init__(self) -> None:
        self._open: dict[str, OpenSlice] = {}
        self._due: dict[str, float] = {}
        self._agenda: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._open) + len(self._due)

    def add(self, asset_partition: str, window: Window, arrived_at: float, rows: int, size_bytes: int) -> bool:
        """Something arrived. What is due already stays due. True: a slice is due now, or may be earlier than was known."""
        if asset_partition in self._due:
            return False
        s = self._open.get(asset_partition)
        if s is None:
            s = self._open[asset_partition] = OpenSlice(first_at=arrived_at)
        arrivals = s.arrivals.get(window)
        earlier = arrivals is None or arrived_at < arrivals[0]
        first, last = arrivals or (arrived_at, arrived_at)
        s.arrivals[window] = (arrived_at if earlier else first, max(last, arrived_at))
        if earlier:
            s.first_at = min(s.first_at, arrived_at)
            heapq.heappush(self._agenda, (s.due_at, asset_partition))
        s.rows += rows
        s.size_bytes += size_bytes
        if (window.rows_max is not None and s.rows >= window.rows_max) or (window.bytes_max is not None and s.size_bytes >= window.bytes_max):
            self.make_due(asset_partition, arrived_at)
            return True
        return earlier

    def make_due(self, asset_partition: str, at: float) -> None:
        """It is due now, whatever its window says; a slice that is not open becomes due (put back after a run)."""
        self._open.pop(asset_partition, None)
        self._due.setdefault(asset_partition, at)

    def take_due(self, now: float) -> Mapping[str, float]:
        """All that is due at `now`, with the time since when, oldest first. It stays due until `remove`."""
        while self._agenda and self._agenda[0][0] <= now:
            _, asset_partition = heapq.heappop(self._agenda)
            s = self._open.get(asset_partition)
            if s is None:
                continue
            if s.due_at <= now:
                self.make_due(asset_partition, s.due_at)
            else:
                heapq.heappush(self._agenda, (s.due_at, asset_partition))
        return dict(sorted(self._due.items(), key=lambda item: item[1]))

    def remove(self, asset_partition: str) -> None:
        """It went into a run, or nothing of it is left."""
        self._open.pop(asset_partition, None)
        self._due.pop(asset_partition, None)

    def next_deadline(self) -> float | None:
        """When to look again: after `take_due(now)` always later than `now`, never later than the next slice is due."""
        while self._agenda and self._agenda[0][1] not in self._open:
            heapq.heappop(self._agenda)
        return self._agenda[0][0] if self._agenda else None

    def due_at(self, asset_partition: str) -> float | None:
        """When a slice is due, or since when; None: nothing waits."""
        if asset_partition in self._due:
            return self._due[asset_partition]
        s = self._open.get(asset_partition)
        return s.due_at if s else None

    def oldest_open(self) -> tuple[str, float] | None:
        """The open slice that waits longest, and since when."""
        return min(((d, s.first_at) for d, s in self._open.items()), key=lambda item: item[1], default=None)

    def asset_partitions(self) -> set[str]:
        """Open and due."""
        return {*self._open, *self._due}

    @property
    def counts(self) -> tuple[int, int]:
        """Slices that are open, and that are due."""
        return len(self._open), len(self._due)
