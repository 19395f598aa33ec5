"""A receiver of events in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reactor.errors import Outage


@dataclass(slots=True)
class MemoryPublisher:
    """`ports.Publisher`. `received`: events as they arrived. `away_after`: it takes so many more and is then away; None: it is there."""

    received: list[Mapping[str, object]] = field(default_factory=list)
    away_after: int | None = None

    async def publish(self, events: Sequence[Mapping[str, object]]) -> None:
        """See `ports.Publisher`. What arrived before it went away stays received, as on a broker without transactions."""
        for event in events:
            if self.away_after is not None:
                if not self.away_after:
                    raise Outage("the receiver is away")
                self.away_after -= 1
            self.received.append(event)

    async def close(self) -> None:
        """See `ports.Publisher`."""
