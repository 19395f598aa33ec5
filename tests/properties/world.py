"""Lives of replicas on one database, driven at random: what PostgreSQL holds is `Store`, what a replica believes is the real `Engine`.

The rules are those of the commit protocol: a commit names the token it believes, or nothing is written. Everything may go wrong: crashes,
frozen replicas that wake, rebalances in mid-run, lost answers, commits still on their way, blocked slices that are retried or given up,
readers of their own, `positions reset`, re-created topics, restored databases, scripts edited in a rolling deploy. Whatever happens, once
all is sane again one fresh replica must drain everything, and then every record is in the table, whole, once, by one routing.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from reactor.core.effects import (
    Committed,
    Deferred,
    Discard,
    Effect,
    Failed,
    Feed,
    Load,
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
from reactor.core.lanes import Limits
from reactor.domain.scripts import BatchColumn, Body, Edge, Header, Materialize, Partitioning, Routing, Script, ScriptPath
from reactor.domain.spans import Consumer, Piece, Position, PositionClaim, PositionKey, SourcePartition, Span, Token

TOPIC = "kafka://main/orders"
ASSET = "ducklake://main/orders"
SLICES = 4


def script(edit: int, *, merge: bool) -> Script:
    """Text number `edit`: each has a routing of its own."""
    edge = Edge("kafka", TOPIC)
    header = Header(
        pipeline=True, edges=(edge,), batch=(BatchColumn("id", "BIGINT"),),
        partitioned=Partitioning("dynamic", key=(f"k{edit}",)),
        materialize=Materialize(ASSET, "merge" if merge else "append", key=("id",) if merge else ()),
    )
    return Script(ScriptPath("orders.sql"), "sql", f"-- {edit}", header, Body(select="SELECT * FROM batch", reads_batch=True), (edge,))


def fingerprint(edit: int) -> str:
    return Routing(Partitioning("dynamic", key=(f"k{edit}",))).fingerprint


def edit_of(routing: str) -> int:
    key = Routing.parse(routing).partitioning
    assert key is not None
    assert key.key is not None
    return int(key.key[0][1:])


@dataclass
class Stored:
    """One position row, and for the checks which life of it this is: (reset by, started at)."""

    position: Position
    life: tuple[UUID, int]


class Store:
    """What one database holds; its rows are the lake's. `commit` is the trigger: all or nothing."""

    def __init__(self, world: World, sources: int) -> None:
        self.rows: dict[SourcePartition, Stored] = {}
        self.mutant = world.mutant
        for p in range(sources):
            token = world.new_id()
            self.rows[world.partition(p)] = Stored(Position(0, Token(token), fingerprint(0), "0"), (token, 0))
        self.partition_token: dict[str, UUID] = {}
        self.table: dict[str, dict[tuple[UUID, Any], Any]] = {}
        self.delivered: list[tuple[SourcePartition, tuple[UUID, int], int, str]] = []
        self.completed: set[UUID] = set()
        self.aborted: set[UUID] = set()

    def commit(self, run: UUID, claims: tuple[PositionClaim, ...], partitions: dict[str, UUID | None], diff: list[Any], rows: list[Any]) -> str:
        if run in self.completed or run in self.aborted:
            return "RF002"
        for i, claim in enumerate(sorted(claims, key=lambda c: c.key)):
            unchecked = self.mutant == "no_token" or (i and self.mutant == "one_position_checked")
            if self.rows[claim.key.source_partition].position.token != claim.believed and not unchecked:
                return "RF001"
        if any(self.partition_token.get(d) != t for d, t in partitions.items()) and self.mutant != "no_partition_token":
            return "RF001 partition"
        if any(not deleted <= self.table.get(d, {}).keys() for d, deleted, _ in diff):
            return "conflict"
        for claim in claims:
            self.move(claim, run)
        for d, deleted, inserted in diff:
            self.table[d] = {r: k for r, k in self.table.get(d, {}).items() if r not in deleted} | inserted
        for d in partitions:
            self.partition_token[d] = run
        self.delivered += [(p, self.rows[p].life, o, d) for p, o, d in rows]
        self.completed.add(run)
        return "committed"

    def move(self, claim: PositionClaim, run: UUID) -> None:
        q = self.rows[claim.key.source_partition]
        fences = {d: n for d, n in {**q.position.fences, **claim.rows}.items() if n is not None}
        q.position = Position(claim.floor, Token(run), q.position.routing, q.position.topic_id, fences=fences)

    def settle(self, claims: tuple[PositionClaim, ...], run: UUID) -> dict[PositionKey, Position | None]:
        refused: dict[PositionKey, Position | None] = {}
        for claim in claims:
            q = self.rows[claim.key.source_partition]
            if q.position.token == claim.believed:
                self.move(claim, run)
            else:
                refused[claim.key] = q.position
        return refused

    def reset(self, p: SourcePartition, run: UUID, floor: int, topic: str) -> None:
        """A new token, no fences."""
        q = self.rows[p]
        token = q.position.token if self.mutant == "reset_keeps_token" else Token(run)
        fences = q.position.fences if self.mutant == "reset_keeps_fences" else {}
        self.rows[p] = Stored(Position(floor, token, q.position.routing, topic, fences=fences), (run, floor))

    def switch(self, key: PositionKey, run: UUID, believed: UUID, routing: str) -> bool:
        q = self.rows[key.source_partition]
        if q.position.token != believed or (q.position.fences and self.mutant != "switch_any_time"):
            return False
        q.position = Position(q.position.floor, Token(run), routing, q.position.topic_id, fences=q.position.fences)
        return True


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
    """One process: an engine, what it was asked for, and the shared readers of the source partitions it believes its own."""

    def __init__(self, world: World, mine: list[int] | None = None) -> None:
        self.world, self.now = world, 0.0
        self.knows = world.edits
        self.mine = list(range(len(world.topic))) if mine is None else mine
        self.engine = Engine(Limits(quiet_seconds=1, wait_max_seconds=5, settle_seconds=3, retry_blocked_seconds=20), "prod")
        self.paused: set[Feed] = set()
        self.todo: list[Effect] = []
        self.flights: dict[int, Flight] = {}
        self.deploy()
        for p in self.mine:
            self.assign(p)

    def deploy(self) -> None:
        text = script(self.knows, merge=self.world.merge)
        self.todo += self.engine.set_scripts([text], {})

    def feed(self, p: int) -> Feed:
        return Feed("", self.world.partition(p))

    def assign(self, p: int) -> None:
        stored = self.world.store.rows[self.world.partition(p)].position
        if stored.topic_id != str(self.world.topic[p]):
            self.engine.unassigned([self.feed(p)])  # halted until it is reset
            return
        self.paused.discard(self.feed(p))
        self.engine.assigned(self.feed(p), {Consumer(ASSET): stored}, self.now)

    def usable(self, p: int) -> bool:
        """Whether the topic is still the one that this replica was assigned."""
        ledger = self.ledger(p)
        return ledger is not None and ledger.topic_id == str(self.world.topic[p])

    def ledger(self, p: int) -> Any:
        lane = self.engine.lanes.get(Consumer(ASSET))
        return lane.ledgers.get(self.world.partition(p)) if lane else None

    def read(self, p: int, n: int) -> None:
        head = self.engine.feeds.heads.get(self.feed(p))
        if head is None or self.feed(p) in self.paused or not self.usable(p):
            return
        hi = min(head + n, len(self.world.log[p]))
        if hi > head:
            self.todo += self.engine.offer(self.feed(p), self.world.span(p, head, hi, self.now), self.now)

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.todo += self.engine.tick(self.now)

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
                self.flights[effect.ticket] = Flight(effect, effect.claims, self.world.new_id())
            case WriteAgain():
                flight = self.flights[effect.ticket]
                flight.claims, flight.id, flight.begun = effect.claims, self.world.new_id(), False
            case Discard():
                self.flights.pop(effect.ticket, None)
            case Settle():
                run = self.world.new_id()
                self.todo += self.engine.settled(Settled(effect.ticket, Token(run), store.settle(effect.claims, run)))
            case Load():
                found = {k: store.rows[k.source_partition].position for k in effect.keys}
                topic = {self.world.partition(p): str(t) for p, t in enumerate(self.world.topic)}
                self.engine.loaded({k: q for k, q in found.items() if q.topic_id == topic[k.source_partition]}, self.now)
            case SwitchRouting():
                done = store.switch(effect.key, self.world.new_id(), effect.believed, effect.routing)
                self.todo += self.engine.switched(Switched(effect.ticket, done))
            case ReadRange():
                self.todo += self.engine.range_read(RangeRead(effect.ticket, self.world.spans(effect, self.now)), self.now)
            case Pause():
                self.paused.add(effect.feed)
            case Resume():
                self.paused.discard(effect.feed)
            case _:
                pass

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
            self.commit(flight, self.world.r.random() < 0.15, self.world.r.random() < 0.08)

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

    def commit(self, flight: Flight, answer_lost: bool, on_its_way: bool) -> None:
        store, world = self.world.store, self.world
        partitions = {d: store.partition_token.get(d) for d in flight.partitions} if world.mutant == "partition_token_late" else flight.partitions
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
        ticket = flight.effect.ticket
        flight.begun = False
        if outcome == "committed":
            del self.flights[ticket]
            self.todo += self.engine.outcome(Committed(ticket, Token(flight.id)), self.now)
        else:
            stored = {c.key: store.rows[c.key.source_partition].position for c in flight.claims}
            answers = self.engine.outcome(Refused(ticket, stored), self.now)
            for effect in answers:  # what the same run waits for cannot overtake it
                if isinstance(effect, WriteAgain | Discard):
                    self.do(effect)
            self.todo += [e for e in answers if not isinstance(e, WriteAgain | Discard)]

    def fail(self, flight: Flight, *, blocking: bool, deferred: bool = False) -> None:
        del self.flights[flight.effect.ticket]
        outcome = Deferred(flight.effect.ticket) if deferred else Failed(flight.effect.ticket, "it broke", blocking)
        self.todo += self.engine.outcome(outcome, self.now)


class World:
    """The logs, the database and the replicas of one life."""

    def __init__(self, seed: int, mutant: str | None = None) -> None:
        r = self.r = random.Random(seed)
        self.mutant = mutant
        self.merge, self.ids, self.edits = r.random() < 0.4, 0, 0
        self.topic = [0] * r.choice((1, 2, 3))
        self.log = [self.new_log() for _ in self.topic]
        self.outcomes: dict[str, int] = {}
        self.store = Store(self, len(self.topic))
        self.backups: list[Store] = []
        self.on_its_way: list[tuple[Store, Any]] = []
        self.replicas = [Replica(self)]

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    def partition(self, p: int) -> SourcePartition:
        return SourcePartition(TOPIC, str(p))

    def new_log(self) -> list[int | None]:
        """None: a hole (compaction, a marker, an aborted record)."""
        return [None if self.r.random() < 0.2 else self.r.randrange(8) for _ in range(self.r.choice((6, 12, 25)))]

    def route(self, value: int | None, edit: int) -> tuple[str, ...]:
        """A record may go to two slices (an event of a coarser asset does)."""
        if value is None:
            return ()
        d = (value // 2 + edit) % SLICES if edit % 2 == 0 else (value + edit) % SLICES
        return (str(d), str((d + 1) % SLICES)) if value == 7 else (str(d),)

    def key_of(self, p: SourcePartition, offset: int) -> Any:
        """The SELECT leaves 3 out: a run of those only completes unchanged."""
        log = self.log[int(p.number)]
        value = log[offset] if offset < len(log) else 0
        return None if value == 3 else (value, offset // 4)

    def offsets(self, piece: Piece) -> list[int]:
        assert isinstance(piece.payload, tuple)
        return [o for o in piece.payload if o >= piece.lo]

    def span(self, p: int, lo: int, hi: int, now: float) -> Span:
        pieces: dict[str, dict[str, Piece]] = {}
        for edit in range(self.edits + 1):
            found: dict[str, list[int]] = {}
            for o in range(lo, hi):
                for d in self.route(self.log[p][o], edit):
                    found.setdefault(d, []).append(o)
            pieces[fingerprint(edit)] = {d: Piece(os[0], os[-1] + 1, len(os), 10 * len(os), tuple(os)) for d, os in found.items()}
        return Span(self.partition(p), lo, hi, now, 10 * (hi - lo), pieces)

    def spans(self, effect: ReadRange, now: float) -> list[Span]:
        """What a reader of one's own brings: at most to `hi`, in pieces; nothing while the topic is another one."""
        p = int(effect.feed.source_partition.number)
        lo, hi = effect.lo, min(effect.hi, len(self.log[p]))
        spans: list[Span] = []
        for _ in range(self.r.randrange(1, 4)):
            if lo < hi:
                to = min(hi, lo + self.r.randrange(1, 7))
                spans.append(self.span(p, lo, to, now))
                lo = to
        return spans

    def some(self) -> list[int]:
        return self.r.sample(range(len(self.topic)), self.r.randrange(1, len(self.topic) + 1))

    # -- what happens

    def step(self) -> None:
        act = self.r.choices(*ACTS)[0]
        getattr(self, act)(self.r.choice(self.replicas), self.r.randrange(len(self.topic)))

    def read(self, x: Replica, p: int) -> None:
        x.read(p, self.r.randrange(1, 9))

    def work(self, x: Replica, _p: int) -> None:
        x.tick(self.r.choice((0.0, 0.3, 1.5, 4.0)))
        x.step()

    def race(self, _x: Replica, _p: int) -> None:
        """All of them between the begin of the lake transaction and its COMMIT."""
        for y in self.replicas:
            for p in y.mine:
                y.read(p, 3)
            y.tick(6.0)
            for effect in [e for e in y.todo if isinstance(e, StartRun)]:
                y.todo.remove(effect)
                y.do(effect)
            for flight in y.flights.values():
                if not flight.begun:
                    y.begin(flight)
        for y in self.r.sample(self.replicas, len(self.replicas)):
            for flight in list(y.flights.values()):
                if flight.begun:
                    y.commit(flight, answer_lost=False, on_its_way=False)

    def fail(self, x: Replica, _p: int) -> None:
        if x.flights:
            flight = x.flights[self.r.choice(sorted(x.flights))]
            x.fail(flight, blocking=self.r.random() < 0.7, deferred=self.r.random() < 0.3)

    def late(self, x: Replica, _p: int) -> None:
        """The time of blocked streams comes."""
        x.tick(25.0)

    def reload(self, x: Replica, p: int) -> None:
        """Revoked and assigned again: a run may be in flight."""
        if p in x.mine:
            x.engine.park([x.feed(p)])
            if self.r.random() < 0.5:
                x.engine.unassigned([x.feed(p)])
            x.assign(p)

    def restored(self, x: Replica, _p: int) -> None:
        x.todo += x.engine.forget_all()

    def pause(self, x: Replica, _p: int) -> None:
        """Somebody pauses the asset, or resumes it; replicas hear of it at different times."""
        paused = any(lane.paused for lane in x.engine.lanes.values())
        x.todo += x.engine.pause([] if paused else list(x.engine.lanes))

    def crash(self, x: Replica, _p: int) -> None:
        self.replicas[self.replicas.index(x)] = Replica(self, self.some())

    def join(self, _x: Replica, _p: int) -> None:
        """The other one is frozen, or honestly believes the partition its own."""
        if len(self.replicas) < 3:
            self.replicas.append(Replica(self, self.some()))

    def leave(self, x: Replica, _p: int) -> None:
        if len(self.replicas) > 1:
            self.replicas.remove(x)

    def arrive(self, _x: Replica, _p: int) -> None:
        if self.on_its_way:
            where, args = self.on_its_way.pop(self.r.randrange(len(self.on_its_way)))
            if where is self.store:
                where.commit(*args)

    def backup(self, _x: Replica, _p: int) -> None:
        self.backups.append(copy.deepcopy(self.store))

    def restore(self, _x: Replica, _p: int) -> None:
        if self.backups:
            self.store = copy.deepcopy(self.r.choice(self.backups))

    def reset(self, _x: Replica, p: int) -> None:
        self.store.reset(self.partition(p), self.new_id(), self.r.randrange(len(self.log[p])), str(self.topic[p]))

    def recreate(self, _x: Replica, p: int) -> None:
        self.topic[p] += 1
        self.log[p] = self.new_log()

    def edit(self, _x: Replica, _p: int) -> None:
        if self.edits < 2:
            self.edits += 1

    def deploy(self, x: Replica, _p: int) -> None:
        if x.knows != self.edits:
            x.knows = self.edits
            x.deploy()

    # -- the end

    def finish(self) -> tuple[bool, bool, bool]:
        """All sane again: topics acknowledged, one fresh replica with the newest text must drain everything in bounded steps."""
        for p in range(len(self.topic)):
            if self.store.rows[self.partition(p)].position.topic_id != str(self.topic[p]):
                self.store.reset(self.partition(p), self.new_id(), 0, str(self.topic[p]))
        for x in self.replicas:
            for flight in list(x.flights.values()):
                if flight.begun:
                    x.commit(flight, answer_lost=False, on_its_way=False)
        x = Replica(self)
        for _ in range(150):
            for p in x.mine:
                x.read(p, 7)
            x.tick(2.0)
            while x.todo:
                x.do(x.todo.pop(0))
            for flight in list(x.flights.values()):
                x.begin(flight)
                x.commit(flight, answer_lost=False, on_its_way=False)
        return self.verdict()

    def verdict(self) -> tuple[bool, bool, bool]:
        """(lost, doubled, stuck)."""
        lost = doubled = False
        got: dict[Any, list[str]] = {}
        for source_partition, life, o, d in self.store.delivered:
            got.setdefault((source_partition, life, o), []).append(d)
        doubled |= any(len(ds) != len(set(ds)) for ds in got.values())
        for p in range(len(self.topic)):
            q = self.store.rows[self.partition(p)]
            for o in range(q.life[1], len(self.log[p])):
                if self.key_of(self.partition(p), o) is None:
                    continue
                ds = set(got.get((self.partition(p), q.life, o), ()))
                ways = [set(self.route(self.log[p][o], k)) for k in range(self.edits + 1)]
                if ds not in ways:
                    lost |= any(ds < w for w in ways)
                    doubled |= not any(ds < w for w in ways)
        doubled |= any(len(rows) != len(set(rows.values())) for rows in self.store.table.values())
        stuck = any(
            q.position.floor != len(self.log[p]) or bool(q.position.fences) or edit_of(q.position.routing) != self.edits
            for p in range(len(self.topic)) for q in [self.store.rows[self.partition(p)]]
        )
        return lost, doubled, stuck


ACTS = (
    ["read", "work", "race", "fail", "late", "reload", "restored", "pause", "crash", "join", "leave", "arrive", "backup", "restore", "reset", "recreate", "edit", "deploy"],
    [30, 70, 4, 5, 6, 4, 1, 1, 2, 4, 3, 2, 2, 0.7, 0.7, 0.3, 1, 2],
)


def live(seed: int, mutant: str | None = None, steps: int = 250) -> tuple[World, tuple[bool, bool, bool]]:
    world = World(seed, mutant)
    for _ in range(steps):
        world.step()
    return world, world.finish()
