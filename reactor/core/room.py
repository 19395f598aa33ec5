"""What all lanes together may hold in memory, and who gives way when it is too much.

Over `open_bytes_max` the slice that waits longest is due at once. Over `HARD_FACTOR` times it, whoever holds at least an average share is
detached: its source is read for it again, later. Paused lanes start nothing that would make room, so all of them together get a share of
their own, and the others keep the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from reactor.core.lanes import Lane, Limits
from reactor.domain.spans import Consumer

HARD_FACTOR = 1.25
PAUSED_SHARE = 4
"""Paused lanes may hold this part of `open_bytes_max`."""


class Room:
    """Sizes of all lanes. `paused`: consumers whose slices gather."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.paused: frozenset[Consumer] = frozenset()
        self._sizes: dict[Consumer, int] = {}
        self._memory_bytes = 0

    def resize(self, consumer: Consumer, memory_bytes: int) -> None:
        """A lane holds so much now."""
        self._memory_bytes += memory_bytes - self._sizes.get(consumer, 0)
        self._sizes[consumer] = memory_bytes

    def grow(self, consumer: Consumer, memory_bytes: int) -> None:
        """A lane holds so much more."""
        self._memory_bytes += memory_bytes
        self._sizes[consumer] = self._sizes.get(consumer, 0) + memory_bytes

    @property
    def is_short(self) -> bool:
        """Whether something should become due only to make room."""
        return self._memory_bytes > self.limits.open_bytes_max

    def is_over(self, lane: Lane) -> bool:
        """Whether a lane takes no more of the shared reader."""
        if len(lane.debouncer) >= self.limits.open_slices_max:
            return True
        if lane.consumer in self.paused:
            return self._paused_bytes > self._paused_bytes_max
        if self._memory_bytes <= self.limits.open_bytes_max * HARD_FACTOR:
            return False
        holders = sum(1 for size in self._sizes.values() if size)
        return lane.memory_bytes * holders >= self._memory_bytes

    def is_there_for(self, lane: Lane) -> bool:
        """Whether a detached lane may be read for."""
        if len(lane.debouncer) > self.limits.open_slices_max // 2:
            return False
        if lane.consumer in self.paused:
            return self._paused_bytes <= self._paused_bytes_max // 2
        return self._memory_bytes <= self.limits.open_bytes_max and lane.memory_bytes <= self.limits.open_bytes_max // 4

    def is_to_shed(self, lane: Lane) -> bool:
        """Whether a paused lane holds what it may not keep: more than the share, and no run will free it."""
        return lane.consumer in self.paused and lane.running is None and lane.memory_bytes > self._paused_bytes_max

    def oldest_open(self, lanes: Iterable[Lane]) -> tuple[Lane, str] | None:
        """The open slice that waits longest, of those that may run."""
        found = [(oldest[1], lane, oldest[0]) for lane in lanes if lane.consumer not in self.paused and (oldest := lane.debouncer.oldest_open())]
        if not found:
            return None
        _, lane, asset_partition = min(found, key=lambda f: f[0])
        return lane, asset_partition

    @property
    def _paused_bytes(self) -> int:
        return sum(self._sizes.get(consumer, 0) for consumer in self.paused)

    @property
    def _paused_bytes_max(self) -> int:
        return self.limits.open_bytes_max // PAUSED_SHARE
