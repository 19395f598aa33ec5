"""Latency at a steady rate: produce → asset-updated readable from Kafka, minus the debounce.

A run is as old as the oldest record that it carries. That record may wait `DEBOUNCE_SECONDS` for others; what it waits beyond that, until
somebody can read from Kafka that its row is in the table, is the latency of the run.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench import topics
from bench.ground import Ground
from bench.installation import DEBOUNCE, Installation, append, installation, wait_until_assigned
from bench.resident import Resident
from bench.screen import Screen
from tests.parts.waiting import until

RATE = 10_000.0
DEBOUNCE_SECONDS = 0.5
WARM_RUNS = 3
"""The first runs make the table; they do not count."""
TOLD_SECONDS_MAX = 60.0

RUNS = """
SELECT r.id::text AS run, p->>'source_partition' AS number, min((p->>'from')::bigint) AS lo
  FROM reactor.run r, jsonb_array_elements(r.trigger->'positions') p WHERE r.state = 'completed' GROUP BY 1, 2 ORDER BY r.id::text
"""


def percentile(numbers: Iterable[float], share: float) -> float:
    """The smallest number that so large a share does not exceed."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def latency(ground: Ground, seconds: float, screen: Screen) -> dict[str, float]:
    """p50 and p99 in milliseconds, over runs; and the memory meanwhile."""
    topic = f"latency-{time.time_ns()}"
    asyncio.run(topics.make(ground.bootstrap_servers, topic))
    with installation(ground, "latency", {"orders.sql": append(topic)}, DEBOUNCE.format(seconds=DEBOUNCE_SECONDS)) as installed:
        asyncio.run(topics.make(ground.bootstrap_servers, installed.events, partitions=1))
        return _under_load(installed, topic, seconds, screen)


def _under_load(installed: Installation, topic: str, seconds: float, screen: Screen) -> dict[str, float]:
    with installed.serve() as served, Resident(served.process.pid) as resident:
        wait_until_assigned(served, topic)
        with screen.step(f"{RATE:,.0f} events/s: latency", RATE * seconds) as advance:
            log, told = asyncio.run(_fed(installed, topic, seconds, advance))
        excess = _excess(installed, log, told)
    return {
        "p50_ms": percentile(excess, 0.5) * 1000, "p99_ms": percentile(excess, 0.99) * 1000, "most_ms": max(excess) * 1000, "runs": len(excess),
        "rss_mb": resident.most_mb,
    }


async def _fed(installed: Installation, topic: str, seconds: float, advance: topics.Advance) -> tuple[Sequence[topics.Sent], Mapping[str, float]]:
    """What was sent, and when each run could be read about."""
    told: dict[str, float] = {}
    listening = asyncio.create_task(_listen(installed, told))
    async with topics.sender(installed.bootstrap_servers, topic) as sending:
        await sending.feed(RATE, seconds, itertools.count(), advance)
    rows = sum(sent.hi - sent.lo for sent in sending.log)

    async def all_told() -> bool:
        if listening.done():
            listening.result()
        inserted = await asyncio.to_thread(installed.inserted)
        return inserted >= rows and {row["run"] for row in await asyncio.to_thread(installed.fetch, RUNS)} <= told.keys()

    await until(all_told, f"{rows} rows are told of", TOLD_SECONDS_MAX)
    listening.cancel()
    await asyncio.wait([listening])
    return sending.log, told


async def _listen(installed: Installation, told: dict[str, float]) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=installed.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(installed.events, 0)])
        while True:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                at = time.time()
                told |= {json.loads(record.value or b"{}")["run_id"]: at for record in records}
    finally:
        await consumer.stop()


def _excess(installed: Installation, log: Sequence[topics.Sent], told: Mapping[str, float]) -> list[float]:
    """Seconds beyond the debounce, of each run after the warm-up."""
    at = {(sent.number, offset): sent.at for sent in log for offset in range(sent.lo, sent.hi)}
    oldest: dict[str, float] = {}
    for row in installed.fetch(RUNS):
        oldest[row["run"]] = min(oldest.get(row["run"], time.time()), at[int(row["number"]), row["lo"]])
    excess = [told[run] - first - DEBOUNCE_SECONDS for run, first in oldest.items()]
    return excess[WARM_RUNS:] or excess
