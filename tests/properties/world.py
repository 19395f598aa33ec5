"""Lives of replicas on one database: what PostgreSQL and the lake hold is `Store`, what a replica believes is the real `Engine`.

The rules are those of the commit protocol: a commit names the token it believes, or nothing is written. Everything may go wrong: crashes,
frozen replicas that wake, rebalances and hand-overs in mid-run, lost answers, commits still on their way, blocked slices that are retried or
given up, readers of their own, offsets that are sent again or are gone before they were read, `positions reset`, re-created topics, restored
databases, scripts edited in a rolling deploy, a publisher whose receiver is away. Whatever happens, once all is sane again one fresh replica
must drain everything, and then every record is in the table, whole, once, by one routing, and every event has been told.

`test_world.py` lets Hypothesis choose what happens; `live` walks at random, so that `tests/state/sql_world.py` can live the same lives again.
"""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from reactor.core.effects import ReadRange
from reactor.domain.spans import Piece, SourcePartition, Span
from tests.properties.outside import Outside
from tests.properties.replica import Replica, small_limits
from tests.properties.scene import SLICES, TOPIC, edit_of, fingerprint
from tests.properties.store import Store

REPLICAS_MAX = 3
EDITS_MAX = 2
ROUNDS_TO_DRAIN = 150
Verdict = tuple[bool, bool, bool]
"""Lost, doubled, stuck."""


class Standstill:
    """`ports.Clock`: publishers take no time here."""

    def now(self) -> float:
        return 0.0


class World:
    """The logs, the database and the replicas of one life. `start`: what of each log is gone; `gaps`: what was said to be lost."""

    def __init__(self, seed: int) -> None:
        r = self.r = random.Random(seed)
        self.merge, self.ids, self.edits = r.random() < 0.4, 0, 0
        self.topic = [0] * r.choice((1, 2, 3))
        self.log = [self.new_log() for _ in self.topic]
        self.start = [0] * len(self.topic)
        self.limits = small_limits(r.choice((200, 10**9, 10**9)), r.choice((20, 50, 10**9)))
        self.outcomes: dict[str, int] = {}
        self.gaps: defaultdict[tuple[int, UUID], set[int]] = defaultdict(set)
        self.store = Store(self, len(self.topic))
        self.backups: list[Store] = []
        self.on_its_way: list[tuple[Store, Any]] = []
        self.clock, self.away, self.restores = Standstill(), 0.2, 0
        self.outside = Outside(self, seed)
        self.replicas = [Replica(self)]

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    # -- logs

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

    def lose(self, p: int, lo: int, hi: int) -> None:
        """A replica says that these were gone before they were read."""
        assert hi <= self.start[p], "said to be lost, and still there"
        self.gaps[p, self.store.rows[self.partition(p)].life[0]] |= set(range(lo, hi))

    def some(self) -> list[int]:
        return self.r.sample(range(len(self.topic)), self.r.randrange(1, len(self.topic) + 1))

    # -- what happens

    def go_on(self, steps: int) -> None:
        """Ordinary work."""
        for _ in range(steps):
            (act,) = self.r.choices(("read", "work", "tell"), (30, 70, 4))
            getattr(self, act)(self.r.choice(self.replicas), self.r.randrange(len(self.topic)))

    def read(self, x: Replica, p: int) -> None:
        x.read(p, self.r.randrange(1, 9))

    def replay(self, x: Replica, p: int) -> None:
        """The broker sends again what it has sent."""
        x.read(p, self.r.randrange(4), again=self.r.randrange(1, 9))

    def work(self, x: Replica, _p: int) -> None:
        x.tick(self.r.choice((0.0, 0.3, 1.5, 4.0)))
        x.step()

    def race(self, _x: Replica, _p: int) -> None:
        """All of them between the begin of the lake transaction and its COMMIT."""
        for y in self.replicas:
            y.begin_all()
        for y in self.r.sample(self.replicas, len(self.replicas)):
            y.commit_all()

    def hand_over(self, x: Replica, _p: int) -> None:
        """What a replica reads goes to another one in the middle of its run, and that one is done before it is."""
        x.begin_all()
        y = Replica(self, x.mine)
        y.begin_all()
        y.commit_all()
        x.commit_all()
        self.admit(y)

    def merge_twice(self, _x: Replica, _p: int) -> None:
        """Two replicas with source partitions of their own merge into one slice that has no row yet."""
        if not self.merge or len(self.topic) == 1:
            return
        pair = Replica(self, [0]), Replica(self, list(range(1, len(self.topic))))
        for y in pair:
            for p in y.mine:
                y.read(p, 30)
        fresh = {d for d in map(str, range(SLICES)) if self.store.partition_token.get(d) is None}
        shared = fresh.intersection(*({d for ledger in y.lane.ledgers.values() for d in ledger.open} for y in pair))
        for y in pair:
            for d in sorted(shared)[:1]:
                y.lane.debouncer.make_due(d, -1.0)
            y.begin_all()
        for y in pair:
            y.commit_all()
            self.admit(y)

    def admit(self, y: Replica) -> None:
        if len(self.replicas) == REPLICAS_MAX:
            self.replicas.pop(0)
        self.replicas.append(y)

    def fail(self, x: Replica, _p: int) -> None:
        if x.flights:
            flight = x.flights[self.r.choice(sorted(x.flights))]
            x.fail(flight, blocking=self.r.random() < 0.7, deferred=self.r.random() < 0.3)

    def block_and_retry(self, x: Replica, _p: int) -> None:
        x.block_and_retry()

    def late(self, x: Replica, _p: int) -> None:
        """The time of blocked streams comes."""
        x.tick(25.0)

    def revoke(self, x: Replica, p: int) -> None:
        """A run may be in flight."""
        if p in x.mine:
            x.revoke(p)

    def regain(self, x: Replica, p: int) -> None:
        """Assigned, again or still; what was revoked may have been forgotten meanwhile."""
        if p in x.mine:
            x.revoke(p)
            if self.r.random() < 0.5:
                x.engine.unassigned([x.feed(p)])
            x.assign(p)

    def restored(self, x: Replica, _p: int) -> None:
        x.asked(x.engine.forget_all())

    def pause(self, x: Replica, _p: int) -> None:
        """Somebody pauses the asset, or resumes it; replicas hear of it at different times."""
        x.asked(x.engine.pause([] if x.lane.paused else list(x.engine.lanes)))

    def crash(self, x: Replica, _p: int) -> None:
        self.replicas[self.replicas.index(x)] = Replica(self, self.some())

    def join(self, _x: Replica, _p: int) -> None:
        """The other one is frozen, or honestly believes the partition its own."""
        if len(self.replicas) < REPLICAS_MAX:
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
            self.restores += 1

    def reset(self, _x: Replica, p: int) -> None:
        self.store.reset(self.partition(p), self.new_id(), self.r.randrange(len(self.log[p])), str(self.topic[p]))

    def recreate(self, _x: Replica, p: int) -> None:
        self.topic[p] += 1
        self.log[p], self.start[p] = self.new_log(), 0

    def expire(self, _x: Replica, p: int) -> None:
        """Retention."""
        self.start[p] = min(len(self.log[p]), self.start[p] + self.r.randrange(1, 9))

    def edit(self, _x: Replica, _p: int) -> None:
        if self.edits < EDITS_MAX:
            self.edits += 1

    def deploy(self, x: Replica, _p: int) -> None:
        if x.knows != self.edits:
            x.knows = self.edits
            x.deploy()

    def tell(self, x: Replica, _p: int) -> None:
        x.tell()

    # -- the end

    def finish(self) -> Verdict:
        """All sane again: topics acknowledged, one fresh replica with the newest text must drain everything in bounded steps."""
        for p in range(len(self.topic)):
            if self.store.rows[self.partition(p)].position.topic_id != str(self.topic[p]):
                self.store.reset(self.partition(p), self.new_id(), 0, str(self.topic[p]))
        for x in self.replicas:
            x.commit_all()
        x = Replica(self)
        x.work_off(ROUNDS_TO_DRAIN)
        self.listen(x)
        return self.verdict()

    def listen(self, x: Replica) -> None:
        """Its receiver is there: now every event of the outbox is told, and each for the first time in the order of the outbox."""
        self.away = 0.0
        for _ in range(6):
            x.tell()
        heard, outbox = dict.fromkeys(self.outside.heard), self.store.outbox
        assert heard.keys() >= set(outbox), "an event was never told"
        assert self.restores or [e for e in heard if e in set(outbox)] == outbox, "told in another order"

    def verdict(self) -> Verdict:
        wrong = list(self.wrong(whole=True))
        doubled = any(len(rows) != len(set(rows.values())) for rows in self.store.table.values())
        rows = self.store.rows
        stuck = any(
            q.position.floor != len(self.log[p]) or bool(q.position.fences) or edit_of(q.position.routing) != self.edits
            for p in range(len(self.topic)) for q in [rows[self.partition(p)]]
        )
        return "lost" in wrong, doubled or "doubled" in wrong, stuck

    def wrong(self, *, whole: bool = False) -> Iterator[str]:
        """What is wrong with a record that counts as settled; `whole`: all of them do."""
        got: dict[Any, list[str]] = {}
        for source_partition, life, o, d in self.store.delivered:
            got.setdefault((source_partition, life, o), []).append(d)
        if any(len(ds) != len(set(ds)) for ds in got.values()):
            yield "doubled"
        rows = self.store.rows
        for p in range(len(self.topic)):
            q = rows[self.partition(p)]
            gone = self.gaps[p, q.life[0]]
            ours = q.position.topic_id == str(self.topic[p])
            for o in range(q.life[1], len(self.log[p]) if whole else q.position.low if ours else 0):
                if self.key_of(self.partition(p), o) is None:
                    continue
                ds = set(got.get((self.partition(p), q.life, o), ()))
                ways = [set(self.route(self.log[p][o], k)) for k in range(self.edits + 1)]
                if ds not in ways:
                    within = any(ds < w for w in ways)
                    if not within or o not in gone:
                        yield "lost" if within else "doubled"


ACTS = {
    "read": 30, "replay": 2, "work": 70, "race": 4, "hand_over": 0.7, "merge_twice": 0.7, "fail": 5, "block_and_retry": 0.7, "late": 6, "revoke": 2, "regain": 4,
    "restored": 1, "pause": 1, "crash": 2, "join": 4, "leave": 3, "arrive": 2, "backup": 2, "restore": 0.7, "reset": 0.7, "recreate": 0.3, "expire": 0.5,
    "edit": 1, "deploy": 2, "tell": 4,
}  # fmt: skip
"""What happens how often in a random walk."""
NAMES, WEIGHTS = list(ACTS), list(ACTS.values())


def walk(world: World, steps: int = 250) -> Verdict:
    for _ in range(steps):
        (act,) = world.r.choices(NAMES, WEIGHTS)
        getattr(world, act)(world.r.choice(world.replicas), world.r.randrange(len(world.topic)))
    return world.finish()


def live(seed: int) -> tuple[World, Verdict]:
    world = World(seed)
    return world, walk(world)
