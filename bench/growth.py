"""What grows: rate and hop with the number of topics and of scripts, commits with the number of snapshots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from itertools import islice

import duckdb

from bench import orders, topics
from bench.ground import Ground
from bench.hops import DAILY, hop, hop_numbers, hopped
from bench.installation import DEBOUNCE, Installation, append, installation, wait_until_assigned
from bench.latency import percentile
from bench.resident import Resident
from bench.screen import Screen
from reactor.lake.extensions import extension_path
from reactor.lake.session import connection_text

HOPS_OF_AGED = 30
DRAIN_SECONDS_MAX = 600.0
IDLE = """\
-- pipeline
-- on ducklake://main/absent_{number}
-- materialize ducklake://main/idle_{number}
SELECT 1 AS one
"""


def topics_many(ground: Ground, number: int, events: int, screen: Screen) -> dict[str, float]:
    """So many topics of one source partition, each into a table of its own; all events together stay the same."""
    names = [f"growth-{time.time_ns()}-{i}" for i in range(number)]
    asyncio.run(topics.make(ground.bootstrap_servers, *names, partitions=1))
    scripts = {f"t{i}.sql": append(name, f"t{i}") for i, name in enumerate(names)}
    with screen.step(f"produce into {number} topics", events) as advance:
        total = asyncio.run(_spread(ground, names, events // number, advance))
    with installation(ground, "topics", scripts) as installed, installed.serve() as served, Resident(served.process.pid) as resident:
        with screen.step(f"{number} topics", total):
            began_at = wait_until_assigned(served, names[0])
            ended_at = installed.wait_until_inserted(total, served, DRAIN_SECONDS_MAX)
        installed.must_hold(total // number, "t0")
    return {"events_s": total / (ended_at - began_at).total_seconds(), "rss_mb": resident.most_mb}


async def _spread(ground: Ground, names: list[str], each: int, advance: topics.Advance) -> int:
    for name in names:
        async with topics.sender(ground.bootstrap_servers, name, partitions=1) as sending:
            values = islice(orders.values(each), each)
            while sent := await sending.send_batch(values):
                advance(sent)
    return each * len(names)


def topics_hop(ground: Ground, number: int, count: int, screen: Screen) -> dict[str, float]:
    """Hops beside so many topics that are quiet."""
    names = [f"quiet-{time.time_ns()}-{i}" for i in range(number - 1)]
    asyncio.run(topics.make(ground.bootstrap_servers, *names, partitions=1))
    return hop(ground, count, screen, {f"t{i}.sql": append(name, f"t{i}") for i, name in enumerate(names)})


def scripts_hop(ground: Ground, number: int, count: int, screen: Screen) -> dict[str, float]:
    """Hops in a project of so many scripts."""
    return hop(ground, count, screen, {f"idle/{i:04}.sql": IDLE.format(number=i) for i in range(number - 2)})


def snapshots(ground: Ground, marks: list[int], screen: Screen) -> Mapping[str, Mapping[str, float]]:
    """At each number of snapshots: how fast plain DuckDB commits one row, and Reactor's runs and hops."""
    topic, found = f"aged-{time.time_ns()}", {}
    asyncio.run(topics.make(ground.bootstrap_servers, topic, partitions=1))
    with installation(ground, "aged", {"orders.sql": append(topic), "daily.sql": DAILY}, DEBOUNCE.format(seconds=0)) as installed:
        for mark in marks:
            with screen.step(f"{mark:,} snapshots", mark) as advance:
                plain_ms = _aged(installed, mark, advance)
            before = _snapshots(installed)
            with installed.serve() as served:
                wait_until_assigned(served, topic)
                hops_before = len(installed.fetch("SELECT 1 FROM reactor.run WHERE script = 'daily.sql' AND state = 'completed'"))
                asyncio.run(hopped(installed, topic, HOPS_OF_AGED))
            numbers = hop_numbers(installed, hops_before + 5)
            commits = {"plain_commit_p50_ms": plain_ms, "commits_s": 1000 / numbers["run_p50_ms"]}
            found[f"{mark} snapshots"] = {"snapshots": before, **commits, **numbers}
    return found


def _snapshots(installed: Installation) -> int:
    try:
        return int(installed.fetch("SELECT count(*) FROM lake_main.ducklake_snapshot")[0][0])
    except Exception:  # noqa: BLE001 - there is no lake yet
        return 0


def _aged(installed: Installation, mark: int, advance: topics.Advance) -> float:
    """Commit rows into a table beside until there are so many snapshots; the median of the last commits in milliseconds."""
    took: list[float] = []
    text = connection_text(installed.url)[0].replace("'", "''")
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        for name in ("ducklake", "postgres_scanner"):
            connection.execute(f"LOAD '{extension_path(name)}'")
        lake = f"METADATA_SCHEMA 'lake_main', DATA_PATH '{installed.folder}/lake/', DATA_INLINING_ROW_LIMIT 0"
        connection.execute(f"ATTACH 'ducklake:postgres:{text}' AS lake ({lake})")
        connection.execute("CREATE TABLE IF NOT EXISTS lake.filler (n BIGINT)")
        while len(took) < HOPS_OF_AGED or _snapshots(installed) < mark:
            for _ in range(HOPS_OF_AGED):
                began_at = time.perf_counter()
                connection.execute("INSERT INTO lake.filler VALUES (1)")
                took.append(time.perf_counter() - began_at)
            advance(HOPS_OF_AGED)
    return percentile(took[-HOPS_OF_AGED:], 0.5) * 1000
