"""One hop of the cascade: from the commit of A to the start of B's run.

A appends what comes from Kafka, B makes the slice anew. The commit's time is PostgreSQL's own (`track_commit_timestamp`), that of the row of
the snapshot; a run starts when it is fired. One hop at a time, so that nobody waits for a lane.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import asyncpg

from bench import orders, topics
from bench.ground import Ground
from bench.installation import DEBOUNCE, Installation, append, installation, wait_until_assigned
from bench.latency import percentile
from bench.screen import Screen

ROWS = 50
"""Of each commit of A."""
WARM_HOPS = 5
HOP_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.02

DAILY = """\
-- pipeline
-- on ducklake://main/orders
-- partitioned daily
-- materialize ducklake://main/daily
SELECT country, count(*) AS orders, sum(amount) AS total FROM main.orders WHERE wm_partition(ordered_at) = {partition} GROUP BY country
"""
DONE = "SELECT count(*) FROM reactor.run WHERE script = 'daily.sql' AND state = 'completed'"
HOPS = """
SELECT extract(epoch FROM b.fired_at - pg_xact_commit_timestamp(s.xmin))::float8 AS seconds
  FROM reactor.run b, lake_main.ducklake_snapshot s
 WHERE b.script = 'daily.sql' AND b.state = 'completed' AND s.snapshot_id = (b.trigger->'events'->0->>'snapshot_id')::bigint ORDER BY b.id
"""
COMMITS = """
SELECT extract(epoch FROM a.finished_at - a.fired_at)::float8 AS seconds FROM reactor.run a
 WHERE a.script = 'orders.sql' AND a.state = 'completed' ORDER BY a.id
"""


def hop(ground: Ground, count: int, screen: Screen, more: Mapping[str, str] | None = None) -> dict[str, float]:
    """p50 and p99 of so many hops in milliseconds. `more`: scripts that stand beside."""
    topic = f"hops-{time.time_ns()}"
    asyncio.run(topics.make(ground.bootstrap_servers, topic, partitions=1))
    scripts = {"orders.sql": append(topic), "daily.sql": DAILY, **(more or {})}
    with installation(ground, "hops", scripts, DEBOUNCE.format(seconds=0)) as installed, installed.serve() as served:
        wait_until_assigned(served, topic)
        with screen.step("hops of the cascade", count) as advance:
            asyncio.run(hopped(installed, topic, count + WARM_HOPS, advance))
        return hop_numbers(installed)


def hop_numbers(installed: Installation, after: int = WARM_HOPS) -> dict[str, float]:
    """Of the hops after the first so many; `run_p50_ms`: how long a run of A takes, from fired to committed."""
    seconds = [row["seconds"] for row in installed.fetch(HOPS)][after:]
    runs = [row["seconds"] for row in installed.fetch(COMMITS)][after:]
    return {"p50_ms": percentile(seconds, 0.5) * 1000, "p99_ms": percentile(seconds, 0.99) * 1000, "hops": len(seconds), "run_p50_ms": percentile(runs, 0.5) * 1000}


async def hopped(installed: Installation, topic: str, count: int, advance: Callable[[float], None] = lambda _: None) -> None:
    """A commit of A, then B's, so often."""
    connection = await asyncpg.connect(installed.url)
    try:
        done = await connection.fetchval(DONE)
        async with topics.sender(installed.bootstrap_servers, topic, partitions=1) as sending:
            for number in range(count):
                values = iter([orders.value(3 * (number * ROWS + i)) for i in range(ROWS)])  # every third is of one day
                await sending.send_batch(values)
                await _until_done(connection, done + number + 1)
                advance(1)
    finally:
        await connection.close()


async def _until_done(connection: asyncpg.Connection, count: int) -> None:
    async with asyncio.timeout(HOP_SECONDS_MAX):
        while await connection.fetchval(DONE) < count:  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(LOOK_SECONDS)
