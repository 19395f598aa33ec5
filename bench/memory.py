"""The memory of `serve` under a load that lasts, and while the lake is away.

Away is PostgreSQL, killed while the load goes on: nothing can be committed, so reading must pause. After its return everything must arrive.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench import topics
from bench.ground import Ground
from bench.installation import Installation, append, installation, wait_until_assigned
from bench.resident import Resident
from bench.screen import Screen
from tests.integration.served import Served

RATE, AWAY_RATE = 50_000.0, 20_000.0
CAUGHT_UP_SECONDS_MAX = 300.0


def memory(ground: Ground, seconds: float, screen: Screen) -> dict[str, float]:
    """MB: the most under load, the growth of the median from its second quarter to its last, and the most with the lake away."""
    topic = f"memory-{time.time_ns()}"
    asyncio.run(topics.make(ground.bootstrap_servers, topic))
    with installation(ground, "memory", {"orders.sql": append(topic)}) as installed, installed.serve() as served:
        wait_until_assigned(served, topic)
        with Resident(served.process.pid) as under_load, screen.step(f"{RATE:,.0f} events/s: memory", RATE * seconds) as advance:
            sent = asyncio.run(_fed(installed, topic, RATE, seconds, 0, advance))
            installed.wait_until_inserted(sent, served, CAUGHT_UP_SECONDS_MAX)
        with Resident(served.process.pid) as away, screen.step("the lake is away: memory", AWAY_RATE * seconds) as advance, _away(ground):
            sent += asyncio.run(_fed(installed, topic, AWAY_RATE, seconds, sent, advance))
        with screen.step("the lake is back", 1):
            _caught_up(installed, sent, served)
    flat = under_load.median_mb(0.75, 1.0) - under_load.median_mb(0.25, 0.5)
    return {"load_mb": under_load.most_mb, "growth_mb": flat, "away_mb": away.most_mb, "events": sent}


def _caught_up(installed: Installation, sent: int, served: Served) -> None:
    installed.wait_until_inserted(sent, served, CAUGHT_UP_SECONDS_MAX)
    installed.must_hold(sent)


@contextmanager
def _away(ground: Ground) -> Iterator[None]:
    ground.server.kill()
    try:
        yield
    finally:
        ground.server.start()


async def _fed(installed: Installation, topic: str, rate: float, seconds: float, first: int, advance: topics.Advance) -> int:
    async with topics.sender(installed.bootstrap_servers, topic) as sending:
        return await sending.feed(rate, seconds, itertools.count(first), advance)
