"""One process of a life: the real engine and the real publishing on top of the store, one effect at a time."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from reactor.core.effects import (
    CommitPosition,
    Committed,
    Deferred,
    Discard,
    Effect,
    Failed,
    Feed,
    Load,
    Outcome,
    Pause,
    RangeRead,
    ReadRange,
    Refused,
    Resume,
    Settle,
    Settled,
    StartRun,
    Switched,
    SwitchRouting,
    WriteAgain,
)
from reactor.core.engine import Engine
from reactor.core.examination import Fits, Halted, Lost, examine
from reactor.core.lanes import Lane, Limits
from reactor.core.ledger import Ledger
from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, SourcePartition, Span, Token
from reactor.errors import Outage
from reactor.runtime.publishing import Publishing
from tests.properties.outside import publishing
from tests.properties.scene import ASSET, script

if TYPE_CHECKING:
    from tests.properties.world import World


@dataclass
class Flight:
    """A run between its effects and its outcome. `diff`: asset partition, rows deleted, rows inserted."""

    effect: StartRun
    claims: tuple[PositionClaim, ...]
    id: UUID
    begun: bool = False
    partitions: dict[str, UUID | None] = field(default_factory=dict)
    diff: list[Any] = field(default_factory=list)


class Replica:
    """An engine, what it was asked for, and the shared readers of the source partitions that it believes its own."""

    def __init__(self, world: World, mine: Iterable[int] | None = None) -> None:
        self.world, self.now = world, 0.0
        self.knows = world.edits
        self.mine = list(range(len(world.topic)) if mine is None else mine)
        self.engine = Engine(world.limits, "prod")
        self.held: set[Feed] = set()
        self.split: dict[int, Span] = {}
        self.paused: set[Feed] = set()
        self.todo: list[Effect] = []
        self.flights: dict[int, Flight] = {}
        self.publishing: Publishing = publishing(world)
        self.told: Position | None = None
        self.telling: Coroutine[Any, Any, None] | None = None
        self.deploy()
        for p in self.mine:
            self.assign(p)

    @property
    def lane(self) -> Lane:
        return self.engine.lanes[Consumer(ASSET)]

    def deploy(self) -> None:
        text = script(self.knows, merge=self.world.merge)
        self.asked(self.engine.set_scripts([text], {}))

    def asked(self, effects: Iterable[Effect]) -> None:
        """Carried out later, in any order."""
        for effect in effects:
            assert not isinstance(effect, CommitPosition) or effect.feed in self.held, "a group offset of what was revoked"
            self.todo.append(effect)

    # -- the source

    def feed(self, p: int) -> Feed:
        return Feed("", self.world.partition(p))

    def key(self, p: int) -> PositionKey:
        return PositionKey(Consumer(ASSET), self.world.partition(p))

    def assign(self, p: int) -> None:
        position = self.examined(p)
        self.paused.discard(self.feed(p))
        if position is None:
            self.engine.unassigned([self.feed(p)])  # halted until it is reset
            self.held.discard(self.feed(p))
        else:
            self.engine.assigned(self.feed(p), {Consumer(ASSET): position}, self.now)
            self.held.add(self.feed(p))

    def revoke(self, p: int) -> None:
        self.engine.park([self.feed(p)])
        self.held.discard(self.feed(p))

    def examined(self, p: int) -> Position | None:
        """What is stored, once it fits the log; None: it is halted."""
        world, key = self.world, self.key(p)
        stored = self.stored(key)
        found = examine(key, stored, str(world.topic[p]), world.start[p], len(world.log[p]))
        match found:
            case Halted():
                return None
            case Lost():
                world.lose(p, found.lo, found.hi)
                world.store.settle((found.claim,), world.new_id())
                return self.stored(key)
            case _:
                assert isinstance(found, Fits)
                return stored

    def stored(self, key: PositionKey) -> Position:
        """Fences in order, so that a life does not hang on how a database lists them."""
        position = self.world.store.rows[key.source_partition].position
        return replace(position, fences=dict(sorted(position.fences.items())))

    def ledger(self, p: int) -> Ledger | None:
        return self.lane.ledgers.get(self.world.partition(p))

    def reads(self, p: int) -> bool:
        """Whether it has the source partition, and the topic is still the one that it was assigned."""
        ledger = self.ledger(p)
        return self.feed(p) in self.held and (ledger is None or ledger.topic_id == str(self.world.topic[p]))

    def read(self, p: int, n: int, again: int = 0) -> None:
        """The next `n` offsets; a broker may send the `again` before them once more. What is split while the position is loaded waits for its turn."""
        head = self.engine.feeds.heads.get(self.feed(p))
        if head is None or self.feed(p) in self.paused or not self.reads(p):
            return
        if head < self.world.start[p]:  # out of range
            self.engine.unassigned([self.feed(p)])
            self.assign(p)
            return
        lo, hi = max(self.world.start[p], head - again), min(head + n, len(self.world.log[p]))
        waiting = self.split.pop(p, None)
        if waiting is not None and waiting.lo == head:
            self.asked(self.engine.offer(self.feed(p), waiting, self.now))
        elif hi > lo and self.ledger(p) is None:
            self.split[p] = replace(self.world.span(p, lo, hi, self.now), pieces={})
        elif hi > lo:
            self.asked(self.engine.offer(self.feed(p), self.world.span(p, lo, hi, self.now), self.now))

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.asked(self.engine.tick(self.now))

    # -- effects

    def step(self) -> None:
        """Carry out one effect, or bring one run a step further; ReadRange and the like may be slow, so the order is free."""
        r = self.world.r
        if self.flights and (not self.todo or r.random() < 0.5):
            self.fly(self.flights[r.choice(sorted(self.flights))])
        elif self.todo:
            self.do(self.todo.pop(r.randrange(len(self.todo))))

    def do(self, effect: Effect) -> None:
        store = self.world.store
        match effect:
            case StartRun():
                assert not self.flights, "two runs in one lane"
                self.flights[effect.ticket] = Flight(effect, effect.claims, self.world.new_id())
            case WriteAgain():
                flight = self.flights[effect.ticket]
                flight.claims, flight.id, flight.begun = effect.claims, self.world.new_id(), False
            case Discard():
                self.flights.pop(effect.ticket, None)
            case Settle():
                run = self.world.new_id()
                self.asked(self.engine.settled(Settled(effect.ticket, Token(run), store.settle(effect.claims, run))))
            case Load():
                found = {key: self.examined(int(key.source_partition.number)) for key in effect.keys}
                self.engine.loaded({key: position for key, position in found.items() if position is not None}, self.now)
            case SwitchRouting():
                done = store.switch(effect.key, self.world.new_id(), effect.believed, effect.routing)
                self.asked(self.engine.switched(Switched(effect.ticket, done)))
            case ReadRange():
                self.read_range(effect)
            case Pause():
                self.paused.add(effect.feed)
            case Resume():
                self.paused.discard(effect.feed)
            case _:
                pass

    def read_range(self, effect: ReadRange) -> None:
        p = int(effect.feed.source_partition.number)
        spans = self.world.spans(effect, self.now)
        if effect.lo < self.world.start[p]:
            self.asked(self.engine.reload_behind(effect.feed, effect.lo))
            spans = []
        self.asked(self.engine.range_read(RangeRead(effect.ticket, spans), self.now))

    # -- runs

    def records(self, effect: StartRun) -> Iterator[tuple[SourcePartition, int, str]]:
        for s in effect.slices:
            for p, _, pieces in s.parts:
                for piece in pieces:
                    yield from ((p, o, s.asset_partition) for o in self.world.offsets(piece) if self.world.key_of(p, o) is not None)

    def fly(self, flight: Flight) -> None:
        if not flight.begun:
            self.begin(flight)
        else:
            self.commit(flight, answer_lost=self.world.r.random() < 0.15, on_its_way=self.world.r.random() < 0.08)

    def begin(self, flight: Flight) -> None:
        """The lake transaction. Merge: tokens of the asset partitions first, then the table as this transaction sees it."""
        store, world = self.world.store, self.world
        flight.begun = True
        flight.partitions, flight.diff = {}, []
        if not world.merge:
            return
        keys: dict[str, set[Any]] = {s.asset_partition: set() for s in flight.effect.slices}
        for p, o, d in self.records(flight.effect):
            keys[d].add(world.key_of(p, o))
        flight.partitions = {d: store.partition_token.get(d) for d in keys}
        for d, ks in keys.items():
            deleted = {i for i, k in store.table.get(d, {}).items() if k in ks}
            flight.diff.append((d, deleted, {(flight.id, k): k for k in ks}))

    def commit(self, flight: Flight, *, answer_lost: bool = False, on_its_way: bool = False) -> None:
        store, world = self.world.store, self.world
        late = store.broken == "partition_token_late"
        partitions = {d: store.partition_token.get(d) for d in flight.partitions} if late else flight.partitions
        args = flight.id, flight.claims, partitions, flight.diff, list(self.records(flight.effect))
        outcome = None
        if on_its_way:
            world.on_its_way.append((store, args))
        else:
            outcome = store.commit(*args)
        if answer_lost or on_its_way:  # the run row decides, not the answer
            outcome = "committed" if flight.id in store.completed else "aborted"
            if outcome == "aborted":
                store.aborted.add(flight.id)
        world.outcomes[str(outcome)] = world.outcomes.get(str(outcome), 0) + 1
        flight.begun = False
        if outcome == "committed":
            self.ended(flight, Committed(flight.effect.ticket, Token(flight.id)))
        else:
            self.refused(flight, {c.key: self.stored(c.key) for c in flight.claims})

    def refused(self, flight: Flight, stored: Mapping[PositionKey, Position]) -> None:
        answers = self.engine.outcome(Refused(flight.effect.ticket, stored), self.now)
        for effect in answers:  # what the same run waits for cannot overtake it
            if isinstance(effect, WriteAgain | Discard):
                self.do(effect)
        self.asked(e for e in answers if not isinstance(e, WriteAgain | Discard))

    def fail(self, flight: Flight, *, blocking: bool, deferred: bool = False) -> None:
        ticket = flight.effect.ticket
        self.ended(flight, Deferred(ticket) if deferred else Failed(ticket, "it broke", blocking))

    def ended(self, flight: Flight, outcome: Outcome) -> None:
        del self.flights[flight.effect.ticket]
        self.asked(self.engine.outcome(outcome, self.now))

    def block_and_retry(self) -> None:
        """Its runs fail for good; later their streams are read again, while the shared reader is further."""
        self.begin_all()
        for flight in list(self.flights.values()):
            self.fail(flight, blocking=True)
        self.begin_all()
        self.commit_all()
        self.tick(25.0)

    # -- all at once

    def begin_all(self) -> None:
        """Whatever it may start stands between the begin of the lake transaction and its COMMIT."""
        for p in self.mine:
            self.read(p, 3)
        self.tick(6.0)
        for effect in [e for e in self.todo if isinstance(e, StartRun)]:
            self.todo.remove(effect)
            self.do(effect)
        for flight in self.flights.values():
            if not flight.begun:
                self.begin(flight)

    def commit_all(self) -> None:
        for flight in list(self.flights.values()):
            if flight.begun:
                self.commit(flight)

    def work_off(self, rounds: int) -> None:
        """Everything that it can do, in order, with nobody in its way."""
        for _ in range(rounds):
            for p in self.mine:
                self.read(p, 7)
            self.tick(2.0)
            while self.todo:
                self.do(self.todo.pop(0))
            for flight in list(self.flights.values()):
                self.begin(flight)
                self.commit(flight)

    # -- publishing

    def tell(self) -> None:
        """A step of its publisher: it may stand between what was sent and the move of its position for as long as the life wants."""
        if self.telling is None:
            self.telling = self._tell()
        try:
            self.telling.send(None)
        except StopIteration:
            self.telling = None

    async def _tell(self) -> None:
        try:
            self.told = await (self.publishing.subscribe() if self.told is None else self.publishing._batch(self.told))
        except Outage:
            self.told = None


def small_limits(open_bytes_max: int, run_bytes_max: int) -> Limits:
    return Limits(
        quiet_seconds=1, wait_max_seconds=5, settle_seconds=3, retry_blocked_seconds=20, open_bytes_max=open_bytes_max, run_bytes_max=run_bytes_max)
