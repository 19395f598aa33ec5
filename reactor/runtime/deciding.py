"""The decision log (DP-12): what the engine decided of each event or span, counted at once and written to the state in batches.

*Durable.* What a run takes is written with its run row, in that row's transaction: a run that exists is explained. *Batched.* What only waits,
and what is skipped, gathers here and is written each second beside the hot path, one row for an open slice however many spans it holds. A
replica that is killed loses at most what it had not written; what waited is decided again by whoever reads on, under the same key, and a skipped
event whose position has moved by then is only missing from the log. Nothing depends on it. *Bounded.* While PostgreSQL is away the oldest go
beyond `WAITING_MAX`. A slice that is written already is written again at most with `RENEWED_MAX` others: of very many the due time lags behind.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, TypeVar

from reactor.domain.decisions import Decision
from reactor.errors import Retryable
from reactor.ports import State
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)
T = TypeVar("T")

WRITE_SECONDS: Final = 1.0
PURGE_SECONDS: Final = 3600.0
KEPT_DAYS: Final = 30
BATCH_ROWS: Final = 1000
PURGE_ROWS: Final = 50_000
"""Rows of one statement."""
WAITING_MAX: Final = 20_000
"""Decisions that wait to be written."""
RENEWED_MAX: Final = 2000
"""Rows that are written again in one turn, because more has come for them."""


class DecisionLog:
    """Decisions on their way from the loop to the state."""

    def __init__(self, state: State, telemetry: Telemetry) -> None:
        self._state, self._telemetry = state, telemetry
        self._waiting: dict[object, Decision] = {}
        self._written: dict[object, None] = {}

    def note(self, decisions: Sequence[Decision]) -> None:
        """Of one span for one consumer. An event counts once, and so does a span of a stream, whatever slices it goes to."""
        counted = set()
        for decision in decisions:
            self._waiting[decision.key] = decision
            counted.add((decision.outcome, decision.reason, decision.event_id))
            if decision.outcome == "skipped":
                _say(decision)
        for outcome, reason, _ in counted:
            self._telemetry.decisions.labels(decisions[0].consumer, outcome, reason).inc()
        _forget_oldest(self._waiting)

    async def write(self, renewed_max: int = RENEWED_MAX) -> None:
        """What waits, in batches; of what was written before, so much. What cannot be written now waits on; raises what the state raised."""
        renewed = [key for key in self._waiting if key in self._written]
        held = set(renewed[renewed_max:])
        ready = [decision for key, decision in self._waiting.items() if key not in held]
        for start in range(0, len(ready), BATCH_ROWS):
            await self._write(ready[start : start + BATCH_ROWS])

    async def _write(self, batch: Sequence[Decision]) -> None:
        told: dict[object, Decision] = {decision.key: decision for decision in batch}
        self._waiting = {key: decision for key, decision in self._waiting.items() if told.get(key) is not decision}
        try:
            await self._state.write_decisions(batch)
        except Retryable:
            self._waiting = {**told, **self._waiting}
            raise
        self._written |= dict.fromkeys(decision.key for decision in batch if decision.event_id is None)
        _forget_oldest(self._written)

    async def purge(self) -> None:
        """Forget what is older than `KEPT_DAYS`."""
        while await self._state.purge_decisions(KEPT_DAYS, PURGE_ROWS) == PURGE_ROWS:
            continue


def _forget_oldest(kept: dict[object, T]) -> None:
    while len(kept) > WAITING_MAX:
        del kept[next(iter(kept))]


def _say(decision: Decision) -> None:
    extra = {"event": "dispatch_skipped", "asset": decision.consumer, "script": decision.script, "event_id": decision.event_id,
             "partition": decision.partition, "reason": decision.reason}
    logger.info("%s is not run: %s", decision.consumer, decision.reason, extra=extra)
