"""The one decision maker: spans, outcomes and ticks in, effects out. A pure function of (state, input, now).

    offer ─▶ route ─▶ ledger.take ─▶ debouncer.add ─┐
    tick ──────────────────────▶ lane.choose ◀──────┘──▶ StartRun ──▶ (runtime) ──▶ outcome ─▶ ledger: committed, put back, blocked

A *feed* is read by one shared reader, which never seeks back; its head is kept here. A lane's ledger is attached to it, or detached and
read by a reader of its own up to it (`ledger`, `reading`). Who holds more than its share of the `room` is detached; when nobody is
attached the feed is paused. Revoked feeds are parked: what comes straight back keeps its spans, if what is stored is what was believed.

Only `tick` starts anything, so whatever was offered together is judged together. Edits (`commit.md` 5): a ledger goes on by its stored
routing; once every stream stands at the floor the new one is switched to, at most once per load of a text.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping

from reactor.core.edits import Edits
from reactor.core.effects import (
    Committed,
    Deferred,
    Discard,
    Effect,
    Failed,
    Feed,
    Load,
    Outcome,
    RangeRead,
    Refused,
    Settle,
    Settled,
    StartRun,
    Switched,
    Ticket,
    WriteAgain,
)
from reactor.core.feeds import Feeds
from reactor.core.lanes import Lane, Limits, Running
from reactor.core.ledger import Ledger
from reactor.core.reading import OwnReaders, Producers, accept, named, route, wake_blocked
from reactor.core.room import Room
from reactor.domain.scripts import Script
from reactor.domain.spans import Consumer, Position, PositionKey, Span

REFUSED_DELAY_MIN_SECONDS, REFUSED_DELAY_MAX_SECONDS = 0.05, 5.0
DEFERRED_SECONDS = 0.5


class Engine:
    """All lanes of one replica."""

    def __init__(self, limits: Limits, workspace: str) -> None:
        self.limits = limits
        self.lanes: dict[Consumer, Lane] = {}
        self.feeds = Feeds(workspace)
        self.draining = False
        self._producers: Producers = {}
        self._runs: dict[Ticket, tuple[Lane, Running]] = {}
        self._edits, self._own = Edits(), OwnReaders()
        self._dirty: dict[Consumer, Lane] = {}
        self._agenda: list[tuple[float, Consumer]] = []
        self._room = Room(limits)
        self._tickets = self._loads = 0
        self._settle_at = 0.0

    # -- scripts

    def set_scripts(self, scripts: Iterable[Script], producers: Producers) -> list[Effect]:
        """The whole graph. New consumers are loaded, vanished ones forgotten; running runs end on the text they began with.

        What waits of a source that a script names no more is left unread: its position stays as it is stored, should the source come back.
        `producers`: asset → how its producer partitions it.
        """
        new = {Consumer(s.consumer): s for s in scripts}
        self._producers = producers
        for gone in self.lanes.keys() - new.keys():
            self._touch(self.lanes.pop(gone))
        for consumer, script in new.items():
            lane = self.lanes.get(consumer)
            if lane is None or lane.tag != (script.header.tag or ""):
                lane = self.lanes[consumer] = Lane(script, self.limits)
                lane.paused = consumer in self._room.paused
            elif lane.script != script:
                lane.set_script(script)
                for blocked in (b for ledger in lane.ledgers.values() for b in ledger.blocked.values()):
                    blocked.retry_at = 0.0
            lane.keep(self.feeds.sources_of(lane))
            self._touch(lane)
        self.feeds.index(self.lanes.values())
        keys = tuple(
            PositionKey(lane.consumer, feed.source_partition)
            for feed in self.feeds.heads for lane in self.feeds.listeners(feed) if feed.source_partition not in lane.ledgers
        )
        return [Load(keys)] if keys else []

    def pause(self, consumers: Collection[Consumer]) -> list[Effect]:
        """These and no others start no run, until it is called again: their slices gather. A run that is in flight ends."""
        self._room.paused = frozenset(consumers)
        effects: list[Effect] = []
        for lane in self.lanes.values():
            if lane.paused != (lane.consumer in consumers):
                lane.paused = not lane.paused
                self._touch(lane)
                effects += self._shed(lane)
        return effects

    def _shed(self, lane: Lane) -> list[Effect]:
        """A paused lane that holds more than its share forgets what it has read, and reads it again."""
        if not self._room.is_to_shed(lane):
            return []
        return self.reload([ledger.key for ledger in lane.ledgers.values() if not ledger.parked])

    # -- assignment

    def assigned(self, feed: Feed, positions: Mapping[Consumer, Position], now: float) -> int:
        """The feed is ours; where its shared reader starts (it goes on where it was if the feed was only parked)."""
        start = self.feeds.assign(feed, (p.floor for p in positions.values()), self.limits.attach_distance_offsets)
        for lane in self.feeds.listeners(feed):
            stored, ledger = positions.get(lane.consumer), lane.ledgers.get(feed.source_partition)
            if ledger is not None and stored is not None and ledger.parked and stored.token == ledger.token:
                ledger.parked = False
            else:
                lane.ledgers.pop(feed.source_partition, None)
                if stored is not None:
                    self._load(lane, feed, stored, now)
            self._touch(lane)
        return start

    def park(self, feeds: Iterable[Feed]) -> None:
        """Being revoked: nothing of them goes into a new run."""
        for feed in feeds:
            self.feeds.parked.add(feed)
            for _, ledger in self.feeds.ledgers(feed):
                ledger.parked = True

    def busy(self, feeds: Iterable[Feed]) -> bool:
        """Whether a run with anything of these is in flight."""
        wanted = set(feeds)
        return any(_feed(lane, ledger) in wanted for lane, running in self._runs.values() for ledger in running.ledgers)

    @property
    def running(self) -> bool:
        """Whether any run or settle is in flight."""
        return bool(self._runs)

    def unassigned(self, feeds: Iterable[Feed]) -> None:
        """They went elsewhere: forget what was read."""
        for feed in feeds:
            for lane in self.feeds.listeners(feed):
                lane.ledgers.pop(feed.source_partition, None)
                self._touch(lane)
            self.feeds.drop(feed)

    def loaded(self, positions: Mapping[PositionKey, Position], now: float) -> None:
        """Answers `Load`: read on from what is stored."""
        for key, stored in positions.items():
            lane = self.lanes.get(key.consumer)
            if lane is None or key.source_partition in lane.ledgers:
                continue
            feed = Feed(lane.tag, key.source_partition)
            if feed in self.feeds.heads:
                self._load(lane, feed, stored, now)
                self._touch(lane)

    def _load(self, lane: Lane, feed: Feed, stored: Position, now: float) -> None:
        self._loads += 1
        key = PositionKey(lane.consumer, feed.source_partition)
        ledger = Ledger(key, stored, load=self._loads, shared_head=self.feeds.heads[feed], retry_blocked_at=now)
        lane.ledgers[feed.source_partition] = ledger
        ledger.parked = feed in self.feeds.parked
        if stored.routing == lane.routing:
            lane.took_over.add(feed.source_partition)

    def reload(self, keys: Iterable[PositionKey]) -> list[Effect]:
        """What is believed or read of these is wrong (their range was lost, they were reset): load them anew."""
        wanted = [key for key in keys if key.consumer in self.lanes]
        for key in wanted:
            self.lanes[key.consumer].ledgers.pop(key.source_partition, None)
            self._touch(self.lanes[key.consumer])
        return [Load(tuple(wanted))] if wanted else []

    def reload_behind(self, feed: Feed, offset: int) -> list[Effect]:
        """The log no longer holds `offset`: whoever still wants to read there is loaded, and so examined, anew."""
        return self.reload([ledger.key for _, ledger in self.feeds.ledgers(feed) if min(ledger.low, ledger.head) <= offset])

    def forget_all(self) -> list[Effect]:
        """The database is another one (restored, failed over): whatever is believed must be loaded again."""
        return self.reload([PositionKey(lane.consumer, p) for lane in self.lanes.values() for p in lane.ledgers])

    # -- reading

    def offer(self, feed: Feed, span: Span, now: float) -> list[Effect]:
        """A span of the shared reader, in order. `now` only tells blocked slices when they were woken."""
        head = self.feeds.heads.get(feed)
        if head is None or span.hi <= head:
            return []
        self.feeds.heads[feed] = span.hi
        effects: list[Effect] = []
        attached, names = False, named(span)
        for lane, ledger in self.feeds.ledgers(feed):
            if lane.calm and names is not None and names.isdisjoint(lane.names):
                ledger.take(head, span.hi, {})
                attached = True
                continue
            routed, before = route(lane, ledger, span, self._producers), ledger.memory_bytes
            if routed is None or self._room.is_over(lane):
                ledger.detach()
            if routed is not None:
                wake_blocked(lane, ledger, routed, now)
                effects += accept(lane, ledger, ledger.take(head, span.hi, routed.pieces), routed, span.arrived_at)
            self._room.grow(lane.consumer, ledger.memory_bytes - before)
            attached = attached or ledger.detached is None
            if not lane.calm or ledger.detached is not None:
                self._dirty[lane.consumer] = lane
        return effects if attached else effects + self.feeds.hold(feed)

    def range_read(self, read: RangeRead, now: float) -> list[Effect]:
        """Answers `ReadRange`."""
        lane, effects = self._own.done(read, self.feeds.heads, self._producers, now)
        if lane is not None:
            self._touch(lane)
        return effects

    # -- time

    def tick(self, now: float) -> list[Effect]:
        """Start what is due. Call it after every input (or batch of inputs), and at `next_deadline`."""
        while self._agenda and self._agenda[0][0] <= now:
            at, consumer = heapq.heappop(self._agenda)
            if lane := self.lanes.get(consumer):
                self._dirty[consumer] = lane
                if lane.looks_at <= at:
                    lane.looks_at = float("inf")
        effects: list[Effect] = []
        if now >= self._settle_at:
            self._settle_at = now + self.limits.settle_seconds
            effects += self.settle(self.lanes.values())
        while self._dirty:
            _, lane = self._dirty.popitem()
            effects += self._advance(lane, now)
        if self._room.is_short:
            effects += self._make_room(now)
        return effects

    def next_deadline(self) -> float:
        """When to tick at the latest."""
        return min(self._settle_at, self._agenda[0][0]) if self._agenda else self._settle_at

    def settle(self, lanes: Iterable[Lane]) -> list[Effect]:
        """Floors that no run carries, of those that are idle."""
        effects: list[Effect] = []
        for lane in lanes:
            if started := lane.start_settle(self._ticket()):
                running, claims = started
                self._runs[running.ticket] = (lane, running)
                effects.append(Settle(running.ticket, claims))
        return effects

    def _advance(self, lane: Lane, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self.lanes.get(lane.consumer) is not lane or self.draining:
            return effects
        for ledger in lane.ledgers.values():
            effects += self._edits.advance(lane, ledger, self._ticket(), now)
        if chosen := lane.choose(now):
            effects.append(self._start(lane, chosen))
        for ledger in lane.ledgers.values():
            effects += self._read_own(lane, ledger, now)
        at = min((t for t in (lane.next_deadline(now), lane.retry_blocked_at) if t is not None and t > now), default=float("inf"))
        if at < lane.looks_at:
            lane.looks_at = at
            heapq.heappush(self._agenda, (at, lane.consumer))
        self._resize(lane)
        lane.calm = all(ledger.reads_along(lane.routing) for ledger in lane.ledgers.values())
        return effects

    def _start(self, lane: Lane, chosen: tuple[str, ...]) -> StartRun:
        attempt = lane.attempt(chosen)
        running, slices, claims = lane.start(self._ticket(), chosen)
        self._runs[running.ticket] = (lane, running)
        last = self._is_last(lane, running, attempt)
        return StartRun(running.ticket, lane.consumer, lane.script, slices, claims, attempt, last, not lane.script.appends_batch)

    def _is_last(self, lane: Lane, running: Running, attempt: int) -> bool:
        """Whether a failure would be final: no retry for what was asked for by hand; several slices are first tried alone."""
        by_hand = all(ledger.key.source_partition.source == self.feeds.inbox for ledger in running.ledgers)
        return len(running.asset_partitions) == 1 and (by_hand or attempt > lane.retries)

    def _read_own(self, lane: Lane, ledger: Ledger, now: float) -> list[Effect]:
        feed = _feed(lane, ledger)
        head = self.feeds.heads.get(feed)
        if head is None or self._edits.stopped(lane, ledger):
            return []
        read = self._own.ask(lane, ledger, head, now, self._ticket(), room=self._room.is_there_for(lane))
        return read + self.feeds.release(feed)

    def _make_room(self, now: float) -> list[Effect]:
        """All together hold too much: the slice that waits longest is due now."""
        found = self._room.oldest_open(self.lanes.values())
        if found is None:
            return []
        lane, asset_partition = found
        lane.debouncer.make_due(asset_partition, now)
        return self._advance(lane, now)

    def _touch(self, lane: Lane) -> None:
        self._dirty[lane.consumer] = lane
        self._resize(lane)

    def _resize(self, lane: Lane) -> None:
        self._room.resize(lane.consumer, lane.memory_bytes if self.lanes.get(lane.consumer) is lane else 0)

    def _ticket(self) -> Ticket:
        self._tickets += 1
        return Ticket(self._tickets)

    # -- outcomes

    def outcome(self, outcome: Outcome, now: float) -> list[Effect]:
        """Answers `StartRun` and `WriteAgain`."""
        lane, running = self._runs.pop(outcome.ticket)
        effects: list[Effect] = []
        match outcome:
            case Committed():
                lane.end()
                lane.committed(running, outcome.token)
                effects += self.feeds.courtesy(_feed(lane, ledger) for ledger in running.ledgers)
            case Refused():
                effects += self._refused(lane, running, outcome, now)
            case Deferred():
                lane.end()
                lane.put_back(running, now)
                lane.deferred_until = now + DEFERRED_SECONDS
            case Failed():
                lane.end()
                attempt = lane.attempt(running.asset_partitions)
                if self._is_last(lane, running, attempt) or (outcome.blocking and len(running.asset_partitions) == 1):
                    reads_batch = lane.script.body.reads_batch
                    lane.failed_for_good(running, now + self.limits.retry_blocked_seconds if reads_batch else float("inf"))
                else:
                    lane.failed(running, now)
        self._touch(lane)
        return effects + self._shed(lane)

    def _refused(self, lane: Lane, running: Running, refused: Refused, now: float) -> list[Effect]:
        """commit.md 5: decide from what is stored, not from the error."""
        running.refusals += 1
        stored = refused.stored
        current = [ledger for ledger in running.ledgers if lane.is_current(ledger)]
        believed = len(current) == len(running.ledgers) and all(le.key in stored and stored[le.key].token == le.token for le in current)
        if believed and not self.draining:
            self._runs[refused.ticket] = (lane, running)
            return [WriteAgain(refused.ticket, tuple(c for ledger in current if (c := ledger.again()) is not None), running.refusals)]
        lane.end()
        lane.put_back(running, now, min(REFUSED_DELAY_MAX_SECONDS, REFUSED_DELAY_MIN_SECONDS * 2.0**running.refusals))
        return [Discard(refused.ticket), *self._rebase(lane, current, stored)]

    def _rebase(self, lane: Lane, ledgers: Iterable[Ledger], stored: Mapping[PositionKey, Position | None]) -> list[Effect]:
        keys = []
        for ledger in ledgers:
            found = stored.get(ledger.key)
            if found is None or (found.token != ledger.token and not ledger.rebase(found)):
                del lane.ledgers[ledger.key.source_partition]
                keys.append(ledger.key)
        return [Load(tuple(keys))] if keys else []

    def settled(self, settled: Settled) -> list[Effect]:
        """Answers `Settle`."""
        lane, running = self._runs.pop(settled.ticket)
        lane.end()
        refused = []
        for ledger in running.ledgers:
            if ledger.key not in settled.refused:
                ledger.committed(settled.token)
                continue
            ledger.put_back()
            if lane.is_current(ledger):
                refused.append(ledger)
        effects = self._rebase(lane, refused, settled.refused)
        self._touch(lane)
        return effects + self.feeds.courtesy(_feed(lane, ledger) for ledger in running.ledgers)

    def switched(self, switched: Switched) -> list[Effect]:
        """Answers `SwitchRouting`."""
        lane, ledger = self._edits.done(switched)
        if not lane.is_current(ledger):
            return []
        del lane.ledgers[ledger.key.source_partition]
        self._touch(lane)
        return [Load((ledger.key,))]


def _feed(lane: Lane, ledger: Ledger) -> Feed:
    return Feed(lane.tag, ledger.key.source_partition)
