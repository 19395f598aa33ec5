"""The lease of a lane whose runs are put away while the next one starts, and what becomes of a run's times."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reactor.core.effects import Refused, StartRun, Ticket
from reactor.errors import Conflict
from reactor.runtime.executor import Executor
from reactor.telemetry import Telemetry

pytestmark = pytest.mark.anyio
LANE = "lane:c"
ONE, TWO = Ticket(1), Ticket(2)


class Database:
    """Leases; and a state of another epoch than is known, so that each run is refused."""

    def __init__(self) -> None:
        self.holders: dict[str, str] = {}

    async def lease(self, name: str, holder: str, _seconds: float) -> bool:
        return self.holders.setdefault(name, holder) == holder

    async def release(self, name: str, holder: str) -> None:
        if self.holders.get(name) == holder:
            del self.holders[name]

    async def partition_tokens(self, *_: object) -> object:
        return SimpleNamespace(epoch=object(), tokens={}, table_uuid=None)

    async def note_timings(self, *_: object) -> None:
        raise Conflict("a deadlock")


class Work:
    """Put away when it is told so."""

    def __init__(self) -> None:
        self.timings: dict[str, float] = {}
        self.closing, self.close_now = asyncio.Event(), asyncio.Event()

    async def close(self) -> None:
        self.closing.set()
        await self.close_now.wait()


def start(ticket: Ticket) -> StartRun:
    return cast("StartRun", SimpleNamespace(ticket=ticket, consumer="c", script=SimpleNamespace(managed=None), exclusive=True, slices=(), claims=()))


def executor(database: Database, works: list[Work]) -> Executor:
    async def restored() -> None:
        return None

    parts: dict[str, Any] = {"state": database, "clock": SimpleNamespace(now=lambda: 0.0), "work_for": lambda _: works.pop(0), "lake_of": lambda _: "main"}
    return Executor(**parts, holder="me", epoch=cast("Any", object()), on_restored=restored, telemetry=Telemetry("1"))


async def test_a_lease_is_not_given_back_once_the_next_run_of_its_lane_has_it() -> None:
    database, (first, second) = Database(), (Work(), Work())
    runs = executor(database, [first, second])
    assert isinstance(await runs.start(start(ONE)), Refused)
    putting_away = asyncio.create_task(runs.discard(ONE))
    await first.closing.wait()
    assert isinstance(await runs.start(start(TWO)), Refused)
    first.close_now.set()
    await putting_away
    assert database.holders == {LANE: "me"}, "the second run's"
    second.close_now.set()
    await runs.discard(TWO)
    assert database.holders == {}
    await runs.discard(TWO)  # nothing is left of it


async def test_times_that_cannot_be_noted_end_nothing() -> None:
    work = Work()
    work.close_now.set()
    runs = executor(Database(), [work])
    await runs.start(start(ONE))
    runs._flights[ONE].completed = cast("Any", SimpleNamespace(run_id="r"))
    await runs.discard(ONE)
    assert work.closing.is_set()
