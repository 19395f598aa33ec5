"""Whether this process lives, has started, and is ready: decided from what was seen, without asking anybody (conventions 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

LOOP_SECONDS_MAX = 30.0
"""A loop that has not turned for so long hangs: the process is to be killed."""

Level = Literal["up", "degraded", "down"]
_WORST: Sequence[Level] = ("up", "degraded", "down")


class Probe(Protocol):
    """What health asks of the state. Everything may raise `Outage`; a catalog that is not there is `StateForbids`."""

    async def watched(self, lake: str) -> bool:
        """Whether the commit trigger of a lake is there and always fires."""
        ...

    async def last_snapshot(self, lake: str) -> int:
        """The newest snapshot id of a lake."""
        ...

    async def gaps(self) -> Sequence[object]:
        """Lost ranges that nobody has acknowledged."""
        ...


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Level
    message: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What was looked at; as a whole it is as bad as the worst."""

    checks: Sequence[Check]

    @property
    def status(self) -> Level:
        """`down`: not to be sent work, or to be killed; `degraded`: it works, and somebody should look."""
        return max((check.status for check in self.checks), key=_WORST.index, default="up")

    @property
    def http_status(self) -> int:
        """200, or 503 if it is down."""
        return 503 if self.status == "down" else 200

    def to_json(self) -> dict[str, object]:
        """The body of the answer."""
        checks = [{"name": check.name, "status": check.status, "message": check.message} for check in self.checks]
        return {"status": self.status, "checks": checks}


@dataclass(frozen=True, slots=True)
class SourceSeen:
    """A source. `trouble`: what keeps it from reading now; `halted`: source partitions that wait for `positions reset`."""

    name: str
    reached: bool
    trouble: str = ""
    halted: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at a moment; texts are empty where nothing is wrong.

    `waiting`: what the start waits for, None once it is over (then the state is migrated). `lakes`: lake → why its catalog cannot be read;
    `unwatched`: lakes whose commit trigger would not fire; `gaps`: lost ranges that nobody has acknowledged.
    """

    waiting: str | None = None
    draining: bool = False
    postgres: str = ""
    lakes: Mapping[str, str] = field(default_factory=dict)
    unwatched: Sequence[str] = ()
    sources: Sequence[SourceSeen] = ()
    gaps: int = 0


def alive(turned_at: float | None, now: float) -> Report:
    """POSIX seconds; None: the loop has not been started, and that this question is answered says enough."""
    silent_seconds = 0.0 if turned_at is None else now - turned_at
    hangs = silent_seconds > LOOP_SECONDS_MAX
    return Report([Check("loop", "down" if hangs else "up", f"it has not turned for {silent_seconds:.0f} s" if hangs else "")])


def started(seen: Seen) -> Report:
    """Whether settings, migrations and scripts are loaded."""
    return Report([_wrong("start", seen.waiting) if seen.waiting is not None else Check("start", "up")])


def ready(seen: Seen) -> Report:
    """Whether it can do its work. Each source must have been reached once; losing it later leaves the others at work."""
    if seen.waiting is not None:
        return started(seen)
    checks = [Check("draining", "down", "it is stopping")] if seen.draining else []
    checks += [_of("postgres", seen.postgres), Check("migrations", "up")]
    if seen.postgres:
        checks += [_wrong(name, "not asked: PostgreSQL does not answer") for name in ("commit_trigger", "lakes")]
    else:
        lost = ", ".join(seen.unwatched)
        checks.append(_of("commit_trigger", lost and f"it is not there or does not fire: {lost}. A restart puts it back"))
        checks.append(_of("lakes", "; ".join(f"{lake}: {problem}" for lake, problem in seen.lakes.items() if problem)))
    checks += [_source(source) for source in seen.sources]
    if seen.gaps:
        checks.append(Check("gaps", "degraded", f"{seen.gaps} lost ranges: look at them by positions list, then positions acknowledge"))
    return Report(checks)


def _source(seen: SourceSeen) -> Check:
    name = f"source {seen.name}"
    if not seen.reached:
        return _wrong(name, seen.trouble or "not reached yet")
    said = "; ".join([*([seen.trouble] if seen.trouble else []), *seen.halted])
    return Check(name, "degraded" if said else "up", said)


def _of(name: str, problem: str) -> Check:
    return _wrong(name, problem) if problem else Check(name, "up")


def _wrong(name: str, message: str) -> Check:
    return Check(name, "down", message)
