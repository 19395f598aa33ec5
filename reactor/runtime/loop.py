"""The only writer of engine state: one call, span or deadline at a time, no await inside."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from reactor.core.effects import Effect, Feed
from reactor.core.engine import Engine
from reactor.domain.spans import Span
from reactor.errors import ReactorError
from reactor.ports import Clock

T = TypeVar("T")

SPANS_QUEUED_MAX = 64
"""Spans that were split and are not yet offered; a source waits beyond it, which takes the loop milliseconds."""
SPANS_PER_TURN_MAX = 32
"""Spans that are offered before what is due is started."""


class LoopEnded(ReactorError):
    """Nothing is decided any more: the service ends."""


class Hands(Protocol):
    """Who carries effects out. Must not block and must not touch the engine."""

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Start doing; answers come back through `Loop.tell`."""
        ...


class Loop:
    """Turns calls and spans into effects. `turned_at` (POSIX seconds) is the heartbeat."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self._calls: deque[Callable[[Engine, float], Sequence[Effect]]] = deque()
        self._spans: asyncio.Queue[tuple[Feed, Span]] = asyncio.Queue(SPANS_QUEUED_MAX)
        self._wake = asyncio.Event()
        self._waiting: list[tuple[Callable[[Engine], bool], asyncio.Future[None]]] = []
        self._asked: set[asyncio.Future[Any]] = set()
        self._ended = False
        self.turned_at = clock.now()

    def tell(self, call: Callable[[Engine, float], Sequence[Effect]]) -> None:
        """An answer or command: taken before any span."""
        self._calls.append(call)
        self._wake.set()

    async def ask(self, call: Callable[[Engine, float], T]) -> T:
        """What the engine says; for callers that need an answer. Effects are not expected of it. Raises `LoopEnded`."""
        answer: asyncio.Future[T] = self._future()

        def turn(engine: Engine, now: float) -> Sequence[Effect]:
            if not answer.done():
                try:
                    answer.set_result(call(engine, now))
                except Exception as e:  # noqa: BLE001 - it belongs to the caller, not to the loop
                    answer.set_exception(e)
            return ()

        self.tell(turn)
        return await answer

    def look(self, at: Callable[[Engine], T]) -> T:
        """What the engine says as it stands, for who cannot wait for a turn; what was told and not yet turned is not seen. Raises `LoopEnded`."""
        if self._ended:
            raise LoopEnded
        return at(self._engine)

    async def until(self, condition: Callable[[Engine], bool]) -> None:
        """Wait for a turn after which this holds. Raises `LoopEnded`."""
        reached: asyncio.Future[None] = self._future()
        self._waiting.append((condition, reached))
        self._wake.set()
        await reached

    def _future(self) -> asyncio.Future[Any]:
        """What somebody waits for; nobody waits for a loop that has ended."""
        if self._ended:
            raise LoopEnded
        future = asyncio.get_running_loop().create_future()
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        return future

    async def offer(self, feed: Feed, span: Span) -> None:
        """A span, in order; waits while `SPANS_QUEUED_MAX` are queued."""
        await self._spans.put((feed, span))
        self._wake.set()

    async def run(self, hands: Hands) -> None:
        """Turn until cancelled."""
        try:
            while True:
                self._wake.clear()
                hands.carry_out(self.turn())
                if not self._calls and self._spans.empty():
                    await self._sleep()
                else:
                    await asyncio.sleep(0)
        finally:
            self._ended = True
            for future in list(self._asked):
                if not future.done():
                    future.set_exception(LoopEnded())

    def turn(self) -> list[Effect]:
        """All waiting calls, some spans, then what is due."""
        now = self.turned_at = self._clock.now()
        effects: list[Effect] = []
        while self._calls:
            effects += self._calls.popleft()(self._engine, now)
        for _ in range(SPANS_PER_TURN_MAX):
            if self._spans.empty():
                break
            feed, span = self._spans.get_nowait()
            effects += self._engine.offer(feed, span, now)
        effects += self._engine.tick(now)
        if self._waiting:
            self._answer_waiting()
        return effects

    def _answer_waiting(self) -> None:
        for condition, reached in self._waiting:
            if not reached.done() and condition(self._engine):
                reached.set_result(None)
        self._waiting = [(c, reached) for c, reached in self._waiting if not reached.done()]

    async def _sleep(self) -> None:
        """Until somebody calls or something is due; never longer than the heartbeat may be late."""
        seconds = min(max(self._engine.next_deadline() - self._clock.now(), 0.0), 5.0)
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
