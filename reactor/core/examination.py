"""Whether a stored position fits the log that was found: go on, jump over what was lost, begin anew, or halt until somebody decides."""

from __future__ import annotations

from dataclasses import dataclass

from reactor.domain.spans import Position, PositionClaim, PositionKey


@dataclass(frozen=True, slots=True)
class Fits:
    """Read on."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets `[lo, hi)` went before they were read. `claim` moves the position over them; streams that are further stay where they are."""

    lo: int
    hi: int
    claim: PositionClaim


@dataclass(frozen=True, slots=True)
class Anew:
    """Another log that by its nature begins anew (a broker that keeps nothing): start at `floor`."""

    floor: int


@dataclass(frozen=True, slots=True)
class Halted:
    """Nothing may be read until `positions reset` says what is meant."""

    message: str


Examined = Fits | Lost | Anew | Halted


def examine(key: PositionKey, position: Position, topic_id: str | None, start: int, end: int, *, ephemeral: bool = False) -> Examined:
    """`[start, end)` is what the log holds, `topic_id` which log it is (None: the broker does not tell). `ephemeral`: see `Anew`."""
    where = key.source_partition
    known = topic_id is not None and position.topic_id is not None
    if known and topic_id != position.topic_id:
        if ephemeral:
            return Anew(start)
        return Halted(f"{where} is another topic than the one read until {position.floor}: was it re-created? {_way_out(key)}")
    ahead = max((position.floor, *position.fences.values()))
    if ahead > end and not ephemeral:  # the small broker tells a log end that is too low
        return Halted(f"{where}: position {ahead} is beyond the log end {end}: topic re-created? {_way_out(key)}")
    if position.low >= start:
        return Fits()
    floor = max(position.floor, start)
    after = {d: max(n, start) for d, n in position.fences.items()}
    changed = {d: None if after[d] == floor else after[d] for d, n in position.fences.items() if after[d] != n or after[d] == floor}
    return Lost(position.low, start, PositionClaim(key, position.token, floor, changed))


def _way_out(key: PositionKey) -> str:
    of = f"{key.consumer} --source {key.source_partition.source}"
    return f"Say from where to go on: reactor positions reset {of} --to earliest --reason \"…\" --confirm {key.consumer}"
