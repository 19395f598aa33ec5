"""What an event, or the records of a stream, are told as once they wait in an open slice, and again when a run takes them: the same decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reactor.core.effects import StartRun
from reactor.domain.decisions import Decision
from reactor.domain.events import AssetUpdated, RunRequested
from reactor.domain.scripts import ScriptPath
from reactor.domain.spans import Consumer, Piece, SourcePartition


class Waiting(NamedTuple):
    """A slice of a consumer as one source partition feeds it. `lo`: the first offset that waits. `due_at`: POSIX seconds."""

    consumer: Consumer
    script: ScriptPath
    source_partition: SourcePartition
    asset_partition: str
    lo: int
    due_at: float | None


def dispatched(waiting: Waiting, piece: Piece) -> Sequence[Decision]:
    """An event stands for itself. Records are told from the first that waits, so that all spans of one open slice are one decision."""
    consumer, script, source_partition, asset_partition, lo, due_at = waiting
    if not isinstance(piece.payload, tuple):
        return (Decision(consumer, script, source_partition, lo, piece.hi, asset_partition, "dispatched", "", None, None, due_at),)
    return [
        Decision(
            consumer, script, source_partition, event.offset, event.offset + 1, asset_partition, "dispatched", "", event.event_id,
            event.asset if isinstance(event, AssetUpdated) else None, due_at)
        for event in piece.payload if isinstance(event, AssetUpdated | RunRequested) and event.offset >= piece.lo
    ]


def of_run(start: StartRun) -> tuple[Decision, ...]:
    """All that a run takes, each once. After a run that failed, a slice may hold what was decided while it ran, too."""
    found: dict[object, Decision] = {}
    for s in start.slices:
        for source_partition, _, pieces in s.parts:
            lo = pieces[0].lo
            for n, piece in enumerate(pieces):
                lo = piece.lo if piece.first else lo
                if isinstance(piece.payload, tuple) or n + 1 == len(pieces) or pieces[n + 1].first:
                    waiting = Waiting(start.consumer, start.script.path, source_partition, s.asset_partition, lo, s.due_at)
                    found.update((decision.key, decision) for decision in dispatched(waiting, piece))
    return tuple(found.values())
