"""An engine on virtual time: offers at given seconds, runs that take given seconds, and what was started when."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from reactor.core.effects import Committed, Effect, Failed, Feed, Outcome, Settle, Settled, StartRun
from reactor.core.engine import Engine
from reactor.core.lanes import Limits
from reactor.domain.events import AssetUpdated
from reactor.domain.scripts import Partitioning, Script
from reactor.domain.spans import Consumer, Position, SourcePartition, Span, Token, outbox_of

OUTBOX = Feed("", outbox_of("prod"))


@dataclass(frozen=True, slots=True)
class Started:
    """A run: when, and with which events of which asset partitions."""

    at: float
    run: StartRun

    @property
    def events(self) -> dict[str, list[str]]:
        """Event ids by asset partition."""
        return {s.asset_partition: [e.event_id for _, _, pieces in s.parts for p in pieces for e in as_events(p.payload)] for s in self.run.slices}


def as_events(payload: object) -> tuple[AssetUpdated, ...]:
    assert isinstance(payload, tuple)
    return payload


def end_well(started: Started) -> Outcome:
    return Committed(started.run.ticket, Token(UUID(int=started.run.ticket)))


def end_badly(started: Started) -> Outcome:
    return Failed(started.run.ticket, "it broke")


def in_turn(*ends: Callable[[Started], Outcome]) -> Callable[[Started], Outcome]:
    """The first run ends by the first of these, and so on."""
    left = iter(ends)

    def end(started: Started) -> Outcome:
        return next(left)(started)

    return end


@dataclass
class Driver:
    """Feeds one engine. `ends`: how the n-th run ends; `run_seconds`: how long it takes."""

    scripts: list[Script]
    producers: Mapping[str, Partitioning | None] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    run_seconds: float = 0.0
    ends: Callable[[Started], Outcome] = end_well
    now: float = 0.0
    started: list[Started] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine(self.limits, "prod")
        self.engine.set_scripts(self.scripts, self.producers)
        self._agenda: list[tuple[float, int, Callable[[], list[Effect]]]] = []
        self._order = itertools.count()
        self._offset = 0
        self.assign(OUTBOX)

    def assign(self, feed: Feed) -> None:
        token = Token(UUID(int=10**9))
        lanes = self.engine.feeds.listeners(feed)
        self.engine.assigned(feed, {lane.consumer: Position(0, token, lane.routing) for lane in lanes}, self.now)

    def at(self, seconds: float, act: Callable[[], list[Effect]]) -> None:
        heapq.heappush(self._agenda, (seconds, next(self._order), act))

    def update_at(self, seconds: float, *events: AssetUpdated) -> None:
        """One span of the outbox; offsets are given here."""

        def offer() -> list[Effect]:
            lo = self._offset
            numbered = tuple(numbered_as(e, lo + i) for i, e in enumerate(events))
            self._offset += len(events)
            return self.engine.offer(OUTBOX, Span(OUTBOX.source_partition, lo, self._offset, self.now, events=numbered), self.now)

        self.at(seconds, offer)

    def run_until(self, seconds: float) -> None:
        """All that happens up to then."""
        self._do(self.engine.tick(self.now))
        while True:
            deadline = self.engine.next_deadline()
            upcoming = self._agenda[0][0] if self._agenda else float("inf")
            at = min(deadline, upcoming)
            if at > seconds:
                break
            self.now = max(self.now, at)
            while self._agenda and self._agenda[0][0] <= self.now:
                self._do(heapq.heappop(self._agenda)[2]())
            self._do(self.engine.tick(self.now))
        self.now = seconds

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, StartRun):
                started = Started(self.now, effect)
                self.started.append(started)
                self.at(self.now + self.run_seconds, lambda s=started: self.engine.outcome(self.ends(s), self.now))  # type: ignore[misc]
            elif isinstance(effect, Settle):
                self._do(self.engine.settled(Settled(effect.ticket, Token(UUID(int=effect.ticket)), {})))

    def position(self, consumer: str, partition: SourcePartition = OUTBOX.source_partition) -> int:
        return self.engine.lanes[Consumer(consumer)].ledgers[partition].floor


def numbered_as(event: AssetUpdated, offset: int) -> AssetUpdated:
    return replace(event, offset=offset)


def update(event_id: str, asset: str = "ducklake://main/src", partition: str = "", **rest: object) -> AssetUpdated:
    return AssetUpdated(0, event_id, asset, partition, 1, "main", 0.0, **rest)  # type: ignore[arg-type]
