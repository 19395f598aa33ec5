"""To whom an event of the outbox or inbox goes, and to which of its asset partitions. The same event always gives the same targets.

Kafka's records are not routed here: a span comes split already, by the routing of each consumer (`ports.Splitter`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from reactor.domain.events import AssetUpdated
from reactor.domain.partitions import NoSlice, calendar_of
from reactor.domain.runs import CHAIN_MAX
from reactor.domain.scripts import Partitioning, Script
from reactor.domain.spans import WHOLE

FAN_OUT_MAX = 1000
"""Slices that one event may open in one consumer."""


@dataclass(frozen=True, slots=True)
class Skip:
    """No run; `reason` is a word of conventions 11."""

    reason: str


def targets(script: Script, own: Partitioning | None, event: AssetUpdated, producer: Partitioning | None) -> tuple[str, ...] | Skip:
    """The asset partitions of `script` that an update fires.

    `own`: its partitioning by the routing in force; `producer`: how the updated asset is partitioned (None: it is not).
    """
    if refusal := _refusal(script, event):
        return Skip(refusal)
    if own is None:
        return (WHOLE,)
    try:
        return _mapped(own, producer if event.partition else None, event)
    except NoSlice as e:
        return Skip("before_start" if e.reason == "before_start" else "expired")


def _refusal(script: Script, event: AssetUpdated) -> str | None:
    if not event.cascade:
        return "no_cascade"
    if script.path in event.chain or script.path == event.script:
        return "cycle"
    return "chain" if len(event.chain) >= CHAIN_MAX else None


def _mapped(own: Partitioning, producer: Partitioning | None, event: AssetUpdated) -> tuple[str, ...] | Skip:
    """Same grain: itself; finer: the slice that holds it; coarser: all slices inside; unpartitioned: the bucket of the commit's time."""
    if own.kind == "dynamic":
        return (event.partition,) if producer is not None else Skip("fan_out")  # a whole table: every key may have changed
    calendar = calendar_of(own)
    if producer is None:
        return (calendar.slice_of(int(event.committed_at * 1_000_000)).identity,)
    its = calendar_of(producer).parse(event.partition)
    if own.identity == producer.identity:
        return (calendar.parse(event.partition).identity,)
    found = tuple(one.identity for one in islice(calendar.overlapping(its.start, its.end), FAN_OUT_MAX + 1))
    return found if 0 < len(found) <= FAN_OUT_MAX else Skip("fan_out" if found else "before_start")
