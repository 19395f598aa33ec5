"""The loop alone, turn by turn, on a clock that a test sets: it is the only one who touches the engine, and what waits for it is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from reactor.core.effects import Effect, Feed
from reactor.core.engine import Engine
from reactor.core.lanes import Limits
from reactor.domain.spans import SourcePartition, Span
from reactor.runtime.loop import SPANS_PER_TURN_MAX, SPANS_QUEUED_MAX, Loop, LoopEnded
from reactor.runtime.supervision import TaskEnded, for_ever

pytestmark = pytest.mark.anyio
TOPIC = SourcePartition("kafka://main/orders", "0")
FEED = Feed("", TOPIC)


class ManualClock:
    """`ports.Clock`."""

    seconds = 1_000.0

    def now(self) -> float:
        return self.seconds


class Noting(Engine):
    """What happened to it, in order. It is a deadline away from idle."""

    def __init__(self) -> None:
        super().__init__(Limits(), "prod")
        self.said: list[tuple[str, object]] = []

    def offer(self, feed: Feed, span: Span, now: float) -> list[Effect]:
        self.said.append(("span", span.lo))
        return super().offer(feed, span, now)

    def tick(self, now: float) -> list[Effect]:
        self.said.append(("tick", now))
        return super().tick(now)


def span(lo: int) -> Span:
    return Span(TOPIC, lo, lo + 1, 0.0)


def call(name: str) -> Callable[[Engine, float], Sequence[Effect]]:
    def told(engine: Engine, _now: float) -> Sequence[Effect]:
        assert isinstance(engine, Noting)
        engine.said.append(("call", name))
        return ()

    return told


async def started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """It has come as far as it can."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=0)
    return task


async def test_spans_wait_once_the_queue_is_full() -> None:
    engine = Noting()
    loop = Loop(engine, ManualClock())
    for lo in range(SPANS_QUEUED_MAX):
        assert (await started(loop.offer(FEED, span(lo)))).done()
    late = await started(loop.offer(FEED, span(SPANS_QUEUED_MAX)))
    assert not late.done()
    loop.turn()
    await late
    while engine.said[-1:] != [("span", SPANS_QUEUED_MAX)] and ("span", SPANS_QUEUED_MAX) not in engine.said:
        loop.turn()
    assert [lo for what, lo in engine.said if what == "span"] == list(range(SPANS_QUEUED_MAX + 1))


async def test_a_turn_takes_answers_first_then_some_spans_then_what_is_due() -> None:
    engine, clock = Noting(), ManualClock()
    loop = Loop(engine, clock)
    for lo in range(SPANS_PER_TURN_MAX + 1):
        await loop.offer(FEED, span(lo))
    loop.tell(call("first"))
    loop.tell(call("second"))
    clock.seconds = 2_000.0
    loop.turn()
    assert engine.said == [("call", "first"), ("call", "second"), *(("span", lo) for lo in range(SPANS_PER_TURN_MAX)), ("tick", 2_000.0)]
    assert loop.turned_at == 2_000.0


async def test_whoever_waits_for_an_engine_is_told_when_it_ends() -> None:
    loop = Loop(Noting(), ManualClock())

    class Hands:
        def carry_out(self, effects: Sequence[Effect]) -> None:
            """Nothing is carried out."""

    running = await started(loop.run(Hands()))
    assert await loop.ask(lambda engine, now: (engine.draining, now)) == (False, 1_000.0)
    waiting = await started(loop.until(lambda engine: engine.draining))
    running.cancel()
    await asyncio.wait([running, waiting])
    assert isinstance(waiting.exception(), LoopEnded)
    with pytest.raises(LoopEnded):
        await loop.ask(lambda _engine, _now: None)


async def test_a_look_sees_the_engine_as_the_last_turn_has_left_it() -> None:
    engine = Noting()
    loop = Loop(engine, ManualClock())
    loop.tell(call("told"))
    assert loop.look(lambda _: list(engine.said)) == []
    loop.turn()
    assert loop.look(lambda _: list(engine.said)) == [("call", "told"), ("tick", 1_000.0)]
    loop._ended = True
    with pytest.raises(LoopEnded):
        loop.look(lambda engine: engine.draining)


async def test_a_task_that_asks_an_ended_loop_ends_with_it() -> None:
    """A stop must not fail because somebody came back from a thread a moment too late to be cancelled."""
    loop = Loop(Noting(), ManualClock())
    loop._ended = True

    async def asks() -> None:
        await loop.ask(lambda _engine, _now: None)

    await for_ever("asker", asks)


async def test_a_task_that_is_hit_by_the_cancellation_of_another_does_not_end_in_silence() -> None:
    """A group of tasks takes it for its own cancellation, and would end the service as if somebody had asked for that."""

    async def waits() -> None:
        other = asyncio.create_task(asyncio.Event().wait())
        other.cancel()
        await other

    with pytest.raises(TaskEnded, match="'waiter' was cancelled, and by nobody"):
        await for_ever("waiter", waits)


async def test_a_task_that_is_cancelled_ends() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    asked = await started(for_ever("waiter", waits))
    asked.cancel()
    await asyncio.wait([asked])
    assert asked.cancelled()


async def test_what_an_engine_raises_belongs_to_who_asked() -> None:
    loop = Loop(Noting(), ManualClock())

    def broken(_engine: Engine, _now: float) -> None:
        raise LookupError("nothing there")

    asked = await started(loop.ask(broken))
    loop.turn()
    await asyncio.wait([asked])
    assert isinstance(asked.exception(), LookupError)
