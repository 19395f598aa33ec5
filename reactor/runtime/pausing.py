"""Tells the engine which consumers are paused. The state says so, and it is asked every second: a pause needs no message to reach a replica."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from reactor.domain.spans import Consumer
from reactor.ports import State
from reactor.runtime.loop import Loop

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Pausing:
    """What this replica knows of pauses. While PostgreSQL is away nothing of it changes, and nothing can be committed either."""

    loop: Loop
    state: State
    _known: frozenset[Consumer] = field(default=frozenset())

    async def look(self) -> None:
        """Ask, and tell the engine what has changed. Raises `Outage`."""
        found = frozenset(await self.state.pauses())
        if found == self._known:
            return
        self.loop.tell(lambda engine, _: engine.pause(found))
        for consumer in found - self._known:
            logger.info("%s is paused: its slices gather", consumer, extra={"event": "asset_paused", "asset": consumer})
        for consumer in self._known - found:
            logger.info("%s is resumed", consumer, extra={"event": "asset_resumed", "asset": consumer})
        self._known = found
