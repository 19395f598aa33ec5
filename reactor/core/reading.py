"""What a lane gets to read: pieces of a span by its routing, and readers of its own for what the shared reader does not bring.

A reader of one's own serves a detached ledger (all asset partitions, from its head to the shared one) or a blocked stream (one asset
partition, from its fence). Each has one read out at a time, and none while the lane has no room or what was read before still waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from reactor.core.debouncer import AT_ONCE, Window
from reactor.core.decisions import Waiting, dispatched
from reactor.core.effects import Decided, Effect, Feed, RangeRead, ReadRange, Ticket
from reactor.core.lanes import Lane
from reactor.core.ledger import Accepted, Catchup, Ledger, Pieces
from reactor.core.router import Skip, targets
from reactor.domain.decisions import Decision
from reactor.domain.events import AssetUpdated, RunRequested
from reactor.domain.scripts import Partitioning, Routing
from reactor.domain.spans import Piece, Span

Producers = Mapping[str, Partitioning | None]
"""Asset → how it is partitioned; an asset that nobody here makes is missing."""


class Routed(NamedTuple):
    """A span as one lane sees it. `windows`: asset partition → the debounce windows of the edges that it came by (missing: its source's)."""

    pieces: Pieces
    windows: Mapping[str, frozenset[Window]]
    skipped: tuple[Decision, ...] = ()


_routing = lru_cache(maxsize=4096)(Routing.parse)


def named(span: Span) -> frozenset[str] | None:
    """The assets and scripts that its events name; None: it has records."""
    if span.events is None:
        return None
    return frozenset(e.asset if isinstance(e, AssetUpdated) else e.script for e in span.events if isinstance(e, AssetUpdated | RunRequested))


def route(lane: Lane, ledger: Ledger, span: Span, producers: Producers) -> Routed | None:
    """None: the span was split before this routing was asked for, so it has to be read again."""
    if span.events is not None:
        return _route_events(lane, _routing(ledger.routing).partitioning, span, producers)
    pieces = span.pieces.get(ledger.routing)
    return None if pieces is None else Routed(pieces, {})


def _route_events(lane: Lane, own: Partitioning | None, span: Span, producers: Producers) -> Routed:
    events: defaultdict[str, list[AssetUpdated | RunRequested]] = defaultdict(list)
    windows: defaultdict[str, set[Window]] = defaultdict(set)
    skipped: list[Decision] = []
    for event in span.events or ():
        if isinstance(event, RunRequested):
            found: tuple[str, ...] = (event.partition,) if event.script == lane.script.path else ()
            window = AT_ONCE
        elif isinstance(event, AssetUpdated) and (event.asset in lane.fired_by or event.asset in lane.muted):
            to = _targets(lane, own, event, producers)
            if isinstance(to, Skip):
                skipped.append(_skipped(lane, span, event, to.reason))
                continue
            found, window = to, lane.window(event.asset)
        else:
            continue
        for asset_partition in found:
            events[asset_partition].append(event)
            windows[asset_partition].add(window)
    pieces = {
        d: Piece(es[0].offset, es[-1].offset + 1, sum(e.rows for e in es), sum(e.size_bytes for e in es), tuple(es)) for d, es in events.items()
    }
    return Routed(pieces, {d: frozenset(ws) for d, ws in windows.items()}, tuple(skipped))


def _targets(lane: Lane, own: Partitioning | None, event: AssetUpdated, producers: Producers) -> tuple[str, ...] | Skip:
    if event.asset in lane.muted:
        return Skip("muted")
    return targets(lane.script, own, event, producers.get(event.asset)) if event.changed else Skip("unchanged")


def _skipped(lane: Lane, span: Span, event: AssetUpdated, reason: str) -> Decision:
    return Decision(
        lane.consumer, lane.script.path, span.source_partition, event.offset, event.offset + 1, event.partition, "skipped", reason, event.event_id,
        event.asset)


def accept(lane: Lane, ledger: Ledger, accepted: Accepted, routed: Routed, at: float) -> list[Effect]:
    """Pieces that are open now wait by the windows that they came by; what was decided of the span."""
    lane.accept(accepted, routed.windows, lane.window(ledger.key.source_partition.source), at)
    found = [*routed.skipped]
    for d, piece in accepted:
        found += dispatched(_waiting(lane, ledger, d), piece)
    return [Decided(tuple(found))] if found else []


def _waiting(lane: Lane, ledger: Ledger, d: str) -> Waiting:
    lo = next(piece.lo for piece in reversed(ledger.open[d]) if piece.first)
    return Waiting(lane.consumer, lane.script.path, ledger.key.source_partition, d, lo, lane.debouncer.due_at(d))


def wake_blocked(lane: Lane, ledger: Ledger, routed: Routed, now: float) -> None:
    """A slice that reads no `batch` folds into the next event: it is tried again as soon as something new comes for it."""
    if not lane.script.body.reads_batch:
        for d in routed.pieces:
            if d in ledger.blocked:
                ledger.blocked[d].retry_at = min(ledger.blocked[d].retry_at, now)


@dataclass(frozen=True, slots=True)
class _Out:
    lane: Lane
    ledger: Ledger
    asset_partition: str | None


class OwnReaders:
    """The reads that are out, by ticket."""

    def __init__(self) -> None:
        self._out: dict[Ticket, _Out] = {}

    def ask(self, lane: Lane, ledger: Ledger, shared_head: int, now: float, ticket: Ticket, *, room: bool) -> list[Effect]:
        """The next read that this ledger needs: of a blocked stream whose time has come (unless the lane is paused), else of the detached ledger."""
        if ledger.parked or any(out.ledger is ledger for out in self._out.values()):
            return []
        for d, blocked in ledger.blocked.items() if not lane.paused else ():
            if blocked.catchup is None and blocked.retry_at <= now:
                blocked.catchup = Catchup(ledger.head)
            waits = d in ledger.open or (ledger.inflight is not None and d in ledger.inflight.taken)
            if blocked.catchup is not None and not waits:
                return [self._read(ticket, _Out(lane, ledger, d), blocked.at, blocked.catchup.target)]
        if ledger.detached is None or not room:
            return []
        effects = accept(lane, ledger, ledger.meet(shared_head), Routed({}, {}), now)
        if ledger.detached is not None:
            effects.append(self._read(ticket, _Out(lane, ledger, None), ledger.head, ledger.detached.target))
        return effects

    def _read(self, ticket: Ticket, out: _Out, lo: int, hi: int) -> ReadRange:
        self._out[ticket] = out
        return ReadRange(ticket, Feed(out.lane.tag, out.ledger.key.source_partition), lo, hi)

    def done(self, read: RangeRead, heads: Mapping[Feed, int], producers: Producers, now: float) -> tuple[Lane | None, list[Effect]]:
        """Feed the ledger, if it has not been loaded anew meanwhile."""
        out = self._out.pop(read.ticket, None)
        if out is None or not out.lane.is_current(out.ledger):
            return None, []
        lane, ledger, d = out.lane, out.ledger, out.asset_partition
        shared_head = heads.get(Feed(lane.tag, ledger.key.source_partition), ledger.head)
        effects: list[Effect] = []
        for span in read.spans:
            routed = route(lane, ledger, span, producers)
            if routed is None:
                break
            if d is None:
                accepted = ledger.take_own(span.lo, span.hi, routed.pieces, shared_head)
            else:
                accepted, routed = ledger.take_blocked(d, span.lo, span.hi, routed.pieces.get(d)), routed._replace(skipped=())
            effects += accept(lane, ledger, accepted, routed, span.arrived_at)
        if d is not None and d in ledger.open:
            lane.debouncer.make_due(d, now)
        return lane, effects
