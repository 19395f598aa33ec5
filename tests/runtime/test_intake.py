"""A span is split by the routings of who reads it at that moment, where it is or in a thread; who comes later reads it again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from dataclasses import replace
from typing import cast
from uuid import UUID

import pytest

from reactor.core.effects import Load, ReadRange
from reactor.core.engine import Engine
from reactor.domain.scripts import Routing
from reactor.domain.spans import Position, PositionKey, Span, Token
from reactor.lake.split import ArrowSplitter
from reactor.ports import RawSpan, State
from reactor.runtime.intake import INLINE_BYTES_MAX, SourceIntake, Starts
from reactor.runtime.loop import Loop
from reactor.telemetry import Telemetry
from tests.core.driver import Driver
from tests.core.test_engine import KAFKA, TOPIC, on_topic
from tests.lake.driving import raw_span

pytestmark = pytest.mark.anyio


class Stopped:
    """`ports.Clock`."""

    def now(self) -> float:
        return 0.0


def intake_of(engine: Engine) -> SourceIntake:
    """It splits, and asks neither state nor starts."""
    state = cast("State", None)
    return SourceIntake("", Loop(engine, Stopped()), state, ArrowSplitter(), Stopped(), cast("Starts", None), lambda _: None, Telemetry())


async def test_a_position_that_is_loaded_anew_meanwhile_reads_it_again() -> None:
    """As by a routing that was switched, or a reset, while the shared reader reads on."""
    driver = Driver([on_topic()])
    driver.assign(KAFKA)
    (lane,) = driver.engine.lanes.values()
    key = PositionKey(lane.consumer, TOPIC)
    assert driver.engine.reload([key]) == [Load((key,))]

    intake = intake_of(driver.engine)
    splitting = asyncio.ensure_future(intake.split(KAFKA, raw_span([b"{}", b"{}"], 0, TOPIC)))
    while not splitting.done():
        intake.loop.turn()
        await asyncio.sleep(0)
    driver.engine.loaded({key: Position(0, Token(UUID(int=1)), lane.routing)}, 0.0)
    effects = driver.engine.offer(KAFKA, splitting.result(), 0.0) + driver.engine.tick(0.0)

    assert [(e.lo, e.hi) for e in effects if isinstance(e, ReadRange)] == [(0, 2)]
    assert lane.ledgers[TOPIC].floor == 0


@pytest.mark.parametrize(("size_bytes", "here"), [(INLINE_BYTES_MAX, True), (INLINE_BYTES_MAX + 1, False)])
async def test_what_is_small_is_split_where_it_is(size_bytes: int, here: bool) -> None:
    threads: list[int] = []

    class Noting(ArrowSplitter):
        def split(self, raw: RawSpan, routings: Collection[Routing], arrived_at: float) -> Span:
            threads.append(threading.get_ident())
            return super().split(raw, routings, arrived_at)

    driver = Driver([on_topic()])
    driver.assign(KAFKA)
    intake = intake_of(driver.engine)
    intake.splitter = Noting()
    for lo in (0, 2):
        split = await intake.split(KAFKA, replace(raw_span([b"{}", b"{}"], lo, TOPIC), size_bytes=size_bytes))
        assert [piece.rows for pieces in split.pieces.values() for piece in pieces.values()] == [2]
    assert [thread == threading.get_ident() for thread in threads] == [False, here]  # compiled code is loaded at its first call
