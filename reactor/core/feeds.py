"""Feeds: how far each shared reader is, who listens to it, and what it is told (pause, resume, the group offset)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from reactor.core.effects import CommitPosition, Effect, Feed, Pause, Resume
from reactor.core.lanes import Lane
from reactor.core.ledger import Ledger
from reactor.domain.spans import inbox_of, outbox_of


class Feeds:
    """All feeds that are assigned here. A shared reader never seeks back, so a head only grows while its feed is assigned.

    `parked`: being revoked; they may come straight back.
    """

    def __init__(self, workspace: str) -> None:
        self.heads: dict[Feed, int] = {}
        self.parked: set[Feed] = set()
        self.outbox, self.inbox = outbox_of(workspace).source, inbox_of(workspace).source
        self._listeners: defaultdict[tuple[str, str], list[Lane]] = defaultdict(list)
        self._paused: set[Feed] = set()
        self._told: dict[Feed, int] = {}

    def index(self, lanes: Iterable[Lane]) -> None:
        """Who listens to what, anew."""
        self._listeners.clear()
        for lane in lanes:
            for source in self.sources_of(lane):
                self._listeners[lane.tag, source].append(lane)

    def sources_of(self, lane: Lane) -> frozenset[str]:
        """Whatever feeds a lane: topics, the outbox if it has an asset edge, and always the inbox."""
        return lane.streams | {self.inbox} | ({self.outbox} if lane.fired_by else frozenset())

    def listeners(self, feed: Feed) -> list[Lane]:
        """The lanes that a feed is for."""
        return self._listeners.get((feed.tag, feed.source_partition.source), [])

    def ledgers(self, feed: Feed) -> Sequence[tuple[Lane, Ledger]]:
        """The listeners that read it, with what they have read."""
        return [(lane, ledger) for lane in self.listeners(feed) if (ledger := lane.ledgers.get(feed.source_partition)) is not None]

    def assign(self, feed: Feed, floors: Iterable[int], attach_distance_offsets: int) -> int:
        """Where the shared reader starts: at the lowest floor, but for consumers so far behind that they read by themselves."""
        self.parked.discard(feed)
        if feed not in self.heads:
            known = list(floors)
            near = max(known, default=0) - attach_distance_offsets
            self.heads[feed] = min((f for f in known if f >= near), default=0)
        return self.heads[feed]

    def drop(self, feed: Feed) -> None:
        """It went elsewhere."""
        self.heads.pop(feed, None)
        self.parked.discard(feed)
        self._told.pop(feed, None)
        self._paused.discard(feed)

    def hold(self, feed: Feed) -> list[Effect]:
        """Pause it if nobody takes what it brings."""
        if feed in self._paused or not self.listeners(feed) or any(ledger.detached is None for _, ledger in self.ledgers(feed)):
            return []
        self._paused.add(feed)
        return [Pause(feed)]

    def release(self, feed: Feed) -> list[Effect]:
        """Resume it if somebody takes it again."""
        if feed not in self._paused or all(ledger.detached is not None for _, ledger in self.ledgers(feed)):
            return []
        self._paused.discard(feed)
        return [Resume(feed)]

    def courtesy(self, feeds: Iterable[Feed]) -> list[Effect]:
        """The group offset of feeds whose positions moved: from where nobody would miss a record."""
        effects: list[Effect] = []
        for feed in feeds:
            ledgers, told = [ledger for _, ledger in self.ledgers(feed)], self._told.get(feed, -1)
            if feed in self.heads and feed not in self.parked and ledgers and all(ledger.low > told for ledger in ledgers):
                self._told[feed] = low = min(ledger.low for ledger in ledgers)
                effects.append(CommitPosition(feed, low))
        return effects
