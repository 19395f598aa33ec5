"""A position is loaded anew (a routing that was switched, a reset) while the shared reader reads on: what is split in between is read again."""

from __future__ import annotations

import asyncio
from typing import cast
from uuid import UUID

import pytest

from reactor.core.effects import Load, ReadRange
from reactor.core.engine import Engine
from reactor.domain.spans import Position, PositionKey, Token
from reactor.lake.split import ArrowSplitter
from reactor.ports import State
from reactor.runtime.intake import SourceIntake, Starts
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


async def test_it_is_read_again_by_whoever_is_there_by_then() -> None:
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
