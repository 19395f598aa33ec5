"""Publishers: each reads the outbox from a position of its own and tells somebody outside, in order, at least once.

One at a time over all replicas by a lease; the position is a token row like any other, so one that slept moves nothing. A batch is
acknowledged before its position moves: after a crash in between it is sent again, with the same ids. After a restore or failover the same
token may stand in an outbox that goes on with other events, so a position is only moved in the database that it was read from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol

import anyio

from reactor.domain.scripts import Routing
from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, SourcePartition
from reactor.errors import Conflict, Outage
from reactor.ports import Clock, Epoch, NewPosition, Publisher, State
from reactor.runtime import failpoints
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)

LEASE_SECONDS, RENEW_SECONDS = 15.0, 5.0
BATCH_EVENTS_MAX = 200
POLL_SECONDS = 0.5
"""Without a hint: polling is the truth."""
BACKOFF_MIN_SECONDS, BACKOFF_MAX_SECONDS = 1.0, 300.0


class Published(Protocol):
    """How the outbox is read for publishing."""

    async def read_published(self, lo: int, limit: int) -> tuple[int, Sequence[Mapping[str, object]]]:
        """CloudEvents of rows from `lo` on, and the offset behind those rows."""
        ...


@dataclass(slots=True)
class Publishing:
    """One publisher. `wanted`: which events it is told of; `hint`: something was committed here, look now."""

    name: str
    publisher: Publisher
    wanted: Callable[[Mapping[str, object]], bool]
    outbox: SourcePartition
    holder: str
    state: State
    published: Published
    clock: Clock
    telemetry: Telemetry
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    hint: asyncio.Event = field(default_factory=asyncio.Event)
    _epoch: Epoch | None = field(default=None, init=False)

    @property
    def key(self) -> PositionKey:
        """Its position."""
        return PositionKey(Consumer(f"publisher:{self.name}"), self.outbox)

    @property
    def _lease(self) -> str:
        return f"publisher:{self.name}"

    async def run(self) -> None:
        """For ever: take the lease, send while it is held."""
        backoff_seconds = BACKOFF_MIN_SECONDS
        while True:
            try:
                if await self.state.lease(self._lease, self.holder, LEASE_SECONDS):
                    try:
                        await self._hold()
                    finally:
                        with anyio.CancelScope(shield=True), suppress(Outage):  # it runs out by itself
                            await self.state.release(self._lease, self.holder)
                self.telemetry.forget(self.telemetry.outbox_oldest, self.name)  # another replica sends, and says what waits
                backoff_seconds = BACKOFF_MIN_SECONDS
                await self.sleep(1.0)
            except (Outage, Conflict) as error:
                self.telemetry.events_published.labels(self.name, "failed").inc()
                logger.warning("publisher %s waits: %s", self.name, error.headline, extra={"event": "publisher_away", "publisher": self.name})
                await self.sleep(backoff_seconds)
                backoff_seconds = min(2 * backoff_seconds, BACKOFF_MAX_SECONDS)

    async def _hold(self) -> None:
        position = await self.subscribe()
        renewed_at = self.clock.now()
        while position is not None:
            if self.clock.now() - renewed_at >= RENEW_SECONDS:
                if not await self.state.lease(self._lease, self.holder, LEASE_SECONDS):
                    return
                renewed_at = self.clock.now()
            before, position = position, await self._batch(position)
            if position is before:
                with anyio.move_on_after(POLL_SECONDS):
                    await self.hint.wait()

    async def subscribe(self) -> Position | None:
        """Its position; a new publisher starts now."""
        self._epoch = await self.state.epoch()
        found = (await self.state.load([self.key])).get(self.key)
        if found is None:
            await self.state.insert_positions([NewPosition(self.key, await self.state.outbox_next(), Routing(None).fingerprint, "latest")])
            found = (await self.state.load([self.key])).get(self.key)
        return found

    async def _batch(self, position: Position) -> Position | None:
        """Send what comes next; the same position: nothing came; None: another one has moved it, or the database is another one."""
        self.hint.clear()
        to, events = await self.published.read_published(position.floor, BATCH_EVENTS_MAX)
        wanted = [e for e in events if self.wanted(e)]
        if wanted:
            self.telemetry.outbox_oldest.labels(self.name).set(datetime.fromisoformat(str(wanted[0]["time"])).timestamp())
            failpoints.reach("before_publish")
            await self.publisher.publish(wanted)
            failpoints.reach("after_publish")
            self.telemetry.events_published.labels(self.name, "sent").inc(len(wanted))
            for event in wanted:
                extra = {"event": "event_published", "publisher": self.name, "event_id": event["id"], "asset": event.get("subject")}
                logger.debug("published %s", event["id"], extra=extra)
        self.telemetry.forget(self.telemetry.outbox_oldest, self.name)
        if to == position.floor:
            return position
        if await self.state.epoch() != self._epoch:
            return None
        token, refused = await self.state.settle([PositionClaim(self.key, position.token, to, {})])
        return None if refused else Position(to, token, position.routing, position.topic_id)


def wanted_by(assets: Sequence[str], types: Sequence[str]) -> Callable[[Mapping[str, object]], bool]:
    """By the settings `assets` and `types`; an empty list wants all."""
    return partial(_wanted, frozenset(assets), frozenset(types))


def _wanted(assets: frozenset[str], types: frozenset[str], event: Mapping[str, object]) -> bool:
    return (not assets or event.get("subject") in assets) and (not types or event.get("type") in types)
