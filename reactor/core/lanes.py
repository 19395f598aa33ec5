"""A lane: the single run slot of one consumer, with what waits before it.

At most one run at a time; no overtaking inside a stream: a failed run blocks its slice, retries it, or gives it up in a commit. An append
that reads `batch` takes all due slices of the lane at once (all or none; if that fails each is tried alone), every other strategy one. What
adds rows to those that are there takes no more of `batch` than a run may hold in memory; the rest is due, and goes into the next run. What is
put back stays due; a slice may be held for a while (retry delay, a lease held elsewhere), the others go on. While the lane is paused nothing
starts: slices gather, within the share of memory that `engine` leaves to paused lanes, and what is blocked stays so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from reactor.core.debouncer import AT_ONCE, WAIT_MAX_FACTOR, Debouncer, Window
from reactor.core.effects import RunSlice, Ticket
from reactor.core.ledger import Accepted, Inflight, Ledger
from reactor.domain.scripts import Debounce, Edge, Routing, Script
from reactor.domain.spans import Consumer, PositionClaim, SourcePartition, Token

SLICES_PER_RUN_MAX = 1000
"""Asset partitions that one append takes at once."""
RETRY_DELAY_MAX_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of the core (`[debounce]` and the feature table's limits)."""

    quiet_seconds: float = 2.0
    wait_max_seconds: float = 30.0
    rows_max: int = 100_000
    bytes_max: int = 134_217_728
    open_bytes_max: int = 268_435_456
    open_slices_max: int = 10_000
    run_bytes_max: int = 33_554_432
    settle_seconds: float = 10.0
    retry_blocked_seconds: float = 300.0
    attach_distance_offsets: int = 100_000


@dataclass(slots=True)
class Running:
    """What is in flight; a settle has no asset partitions. `ledgers` as they were when it started."""

    ticket: Ticket
    asset_partitions: tuple[str, ...]
    ledgers: tuple[Ledger, ...]
    refusals: int = 0


class Lane:
    """One consumer: its script, its ledgers, its open slices and its run.

    `looks_at`: when it will be looked at again at the latest. `calm`: until then, or until one of its slices is due, another span for a
    ledger that is attached changes nothing of what may start. `names`: what an event must name to be for it.
    """

    def __init__(self, script: Script, limits: Limits) -> None:
        self.consumer = Consumer(script.consumer)
        self.limits = limits
        self.debouncer = Debouncer()
        self.ledgers: dict[SourcePartition, Ledger] = {}
        self.running: Running | None = None
        self.paused = False
        self.deferred_until = 0.0
        self.looks_at = float("inf")
        self.calm = False
        self._holds: dict[str, float] = {}
        self._attempts: dict[str, int] = {}
        self._alone: set[str] = set()
        self.took_over: set[SourcePartition] = set()
        self.set_script(script)

    def set_script(self, script: Script) -> None:
        """A new text: it runs from the next run on; another routing takes over at a common cut, once (see `engine`)."""
        self.script = script
        self.routing = routing_of(script).fingerprint
        self.took_over = {p for p, ledger in self.ledgers.items() if ledger.routing == self.routing}
        self._windows = {e.uri: window_of(e, script.header.debounce, self.limits) for e in script.edges}
        self.fired_by = frozenset(e.uri for e in script.edges if e.kind == "asset")
        self.streams = frozenset(e.uri for e in script.streams)
        self.muted = script.muted
        self.names = self.fired_by | self.muted | {script.path}

    def keep(self, sources: Collection[str]) -> None:
        """It reads these and no others: what it has of others goes."""
        self.ledgers = {p: ledger for p, ledger in self.ledgers.items() if p.source in sources}

    @property
    def tag(self) -> str:
        """Whose readers feed it."""
        return self.script.header.tag or ""

    def window(self, uri: str) -> Window:
        """The debounce of an edge; what is no edge (a run by hand) is due at once."""
        return self._windows.get(uri, AT_ONCE)

    @property
    def memory_bytes(self) -> int:
        """What its open slices and its run hold in memory."""
        return sum(ledger.memory_bytes for ledger in self.ledgers.values())

    def accept(self, accepted: Accepted, windows: Mapping[str, frozenset[Window]], otherwise: Window, arrived_at: float) -> None:
        """Pieces that are open now wait by the windows they came by."""
        for d, piece in accepted:
            for window in windows.get(d) or (otherwise,):
                if self.debouncer.add(d, window, arrived_at, piece.rows, piece.size_bytes):
                    self.calm = False

    # -- the run

    def choose(self, now: float) -> tuple[str, ...]:
        """The slices of the next run; empty: nothing may start."""
        if self.running is not None or self.paused or self.deferred_until > now:
            return ()
        ready = []
        for asset_partition in self.debouncer.take_due(now):
            having = [ledger for ledger in self.ledgers.values() if asset_partition in ledger.open]
            if not having:
                self.debouncer.remove(asset_partition)
            elif self._holds.get(asset_partition, 0.0) <= now and any(not ledger.parked for ledger in having):
                ready.append(asset_partition)
        if ready and self.script.appends_batch and ready[0] not in self._alone:
            return tuple(d for d in ready if d not in self._alone)[:SLICES_PER_RUN_MAX]
        return tuple(ready[:1])

    def start(self, ticket: Ticket, asset_partitions: tuple[str, ...]) -> tuple[Running, tuple[RunSlice, ...], tuple[PositionClaim, ...]]:
        """Take these slices out of every ledger that may run. What is too much for one run stays due, and so does what a parked ledger holds."""
        started: list[tuple[Ledger, Inflight]] = []
        at_most = self._at_most(asset_partitions)
        for ledger in self.ledgers.values():
            inflight = None if ledger.parked else ledger.start(asset_partitions, at_most)
            if inflight is not None:
                started.append((ledger, inflight))
        self.running = running = Running(ticket, asset_partitions, tuple(ledger for ledger, _ in started))
        slices = tuple(
            RunSlice(
                d, tuple((ledger.key.source_partition, i.taken[d][1], i.taken[d][0]) for ledger, i in started if d in i.taken), self.debouncer.due_at(d))
            for d in asset_partitions
        )
        for d, due_at in ((s.asset_partition, s.due_at) for s in slices):
            self.debouncer.remove(d)
            self._holds.pop(d, None)
            if due_at is not None and any(d in ledger.open for ledger in self.ledgers.values()):
                self.debouncer.make_due(d, due_at)
        return running, slices, tuple(i.claim for _, i in started)

    def _at_most(self, asset_partitions: Collection[str]) -> int | None:
        """How many bytes of a slice a run takes from each source partition, so that it stays below `run_bytes_max`; None: all of it."""
        room, managed = self.limits.run_bytes_max, self.script.managed
        if self.memory_bytes <= room or managed is None or managed.strategy == "replace" or not self.script.body.reads_batch:
            return None
        waiting = (ledger.waiting() for ledger in self.ledgers.values() if not ledger.parked)
        sizes = sorted(size for slices in waiting for d, (_, size) in slices.items() if d in asset_partitions)
        for n, size in enumerate(sizes):
            share = room // (len(sizes) - n)
            if size > share:
                return share
            room -= size
        return None

    def start_settle(self, ticket: Ticket) -> tuple[Running, tuple[PositionClaim, ...]] | None:
        """Floors that no run carries; None: all that is known is stored, or a run will tell."""
        if self.running is not None:
            return None
        started = [(ledger, i) for ledger in self.ledgers.values() if (i := ledger.start_settle()) is not None]
        if not started:
            return None
        self.running = Running(ticket, (), tuple(ledger for ledger, _ in started))
        return self.running, tuple(i.claim for _, i in started)

    @property
    def retries(self) -> int:
        """How often a failed slice is tried again."""
        return self.script.header.retry.count if self.script.header.retry else 0

    @property
    def retry_blocked_at(self) -> float | None:
        """When a blocked stream wants its next reader."""
        return min((b.retry_at for ledger in self.ledgers.values() for b in ledger.blocked.values() if b.catchup is None), default=None)

    def attempt(self, asset_partitions: tuple[str, ...]) -> int:
        """Which attempt the next run of these is, from 1."""
        return 1 + max((self._attempts.get(d, 0) for d in asset_partitions), default=0)

    def end(self) -> Running | None:
        """The run is over; the ledgers still know what it took."""
        running, self.running = self.running, None
        return running

    def is_current(self, ledger: Ledger) -> bool:
        """Whether a ledger has not been loaded anew since."""
        return self.ledgers.get(ledger.key.source_partition) is ledger

    def committed(self, running: Running, token: Token) -> None:
        """What it claimed is stored."""
        for ledger in running.ledgers:
            ledger.committed(token)
        for d in running.asset_partitions:
            self._attempts.pop(d, None)
            self._alone.discard(d)

    def put_back(self, running: Running, now: float, hold_seconds: float = 0.0) -> None:
        """Its slices are due again, at the earliest after `hold_seconds`."""
        for ledger in running.ledgers:
            ledger.put_back()
        for d in running.asset_partitions:
            self.debouncer.make_due(d, now)
            if hold_seconds > 0:
                self._holds[d] = now + hold_seconds

    def failed(self, running: Running, now: float) -> None:
        """The script's work failed, but not for good: each slice alone, or once more after the delay of `retry`."""
        if len(running.asset_partitions) > 1:
            self._alone.update(running.asset_partitions)
            self.put_back(running, now)
            return
        for d in running.asset_partitions:
            self._attempts[d] = self._attempts.get(d, 0) + 1
            self.put_back(running, now, retry_delay_seconds(self.script, self._attempts[d], running.ticket))

    def failed_for_good(self, running: Running, retry_at: float) -> None:
        """Its streams are blocked and leave memory; what was asked for by hand is given up."""
        for ledger in running.ledgers:
            if ledger.key.source_partition.source.startswith("inbox:"):
                ledger.drop(running.asset_partitions)
            else:
                ledger.block(running.asset_partitions, retry_at)
        for d in running.asset_partitions:
            self._attempts.pop(d, None)
            self._alone.discard(d)

    def next_deadline(self, now: float) -> float | None:
        """When `choose` may give something that it does not give now."""
        if self.running is not None or self.paused:
            return None
        times = (self.debouncer.next_deadline(), self.deferred_until, *self._holds.values())
        return min((t for t in times if t is not None and t > now), default=None)


def routing_of(script: Script) -> Routing:
    """What decides the asset partition of a record of this script."""
    streams = script.streams
    return Routing(script.header.partitioned, (streams[0].format or "json") if streams else "json")


def window_of(edge: Edge, line: Debounce | None, limits: Limits) -> Window:
    """An edge's own `debounce=` stands for the script's line; without either, streams wait by `[debounce]` and asset edges not at all."""
    own = edge.debounce or line
    if own is None:
        if edge.kind == "asset":
            return AT_ONCE
        return Window(limits.quiet_seconds, limits.wait_max_seconds, limits.rows_max, limits.bytes_max)
    wait_max = own.wait_max_seconds
    if wait_max is None:
        wait_max = max(WAIT_MAX_FACTOR * own.quiet_seconds, limits.wait_max_seconds)
    stream = edge.kind != "asset"
    return Window(own.quiet_seconds, wait_max, own.rows_max or (limits.rows_max if stream else None), own.bytes_max or (limits.bytes_max if stream else None))


def retry_delay_seconds(script: Script, attempt: int, ticket: int) -> float:
    """The wait before the attempt after this one. The ±10 % of an exponential one come from the ticket, so equal inputs give equal waits."""
    retry = script.header.retry
    if retry is None:
        return 0.0
    if not retry.exponential:
        return retry.delay_seconds
    spread = 0.9 + 0.2 * (ticket * 2654435761 % 2**32) / 2**32
    return min(RETRY_DELAY_MAX_SECONDS, retry.delay_seconds * 2.0 ** (attempt - 1) * spread)
