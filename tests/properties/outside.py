"""Who is told of commits, and what it has heard."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from reactor.domain.spans import SourcePartition
from reactor.errors import Outage
from reactor.runtime.publishing import Publishing, wanted_by
from reactor.telemetry import Telemetry
from tests.properties.store import Outbox

if TYPE_CHECKING:
    from tests.properties.world import World

TELEMETRY = Telemetry("lives")


class Turn:
    """Awaited, it gives the others a turn."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Outside:
    """`ports.Publisher`. `heard`: event ids as they arrived. It may go away at any event of a call, and its answer may be lost."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.r, self.heard = world, random.Random(seed), list[str]()

    async def publish(self, events: Sequence[Mapping[str, object]]) -> None:
        for event in events:
            if self.r.random() < self.world.away:
                raise Outage("it went away")
            run, _, _ = str(event["id"]).partition(" ")
            assert UUID(run) in self.world.store.completed, "told of a commit that is none"
            self.heard.append(str(event["id"]))
        await Turn()
        if self.r.random() < self.world.away:
            raise Outage("its answer was lost")

    async def close(self) -> None:
        """Nothing is held."""


def publishing(world: World) -> Publishing:
    """The product's, for one replica."""
    state: Any = Outbox(world)
    return Publishing(
        "outside", world.outside, wanted_by([], []), SourcePartition("outbox://prod", ""), "holder", state, state, world.clock, TELEMETRY, sleep=_no_time,
    )


async def _no_time(_seconds: float) -> None:
    """Time is the life's."""
