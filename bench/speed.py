"""Rates: events a second into the table, from the first read to all rows committed, and what they are compared with."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from bench import orders, topics
from bench.children import last_answer
from bench.ground import Ground
from bench.installation import append, installation, wait_until_assigned
from bench.options import Options
from bench.resident import Resident
from bench.rivals.task import Task
from bench.screen import Screen

SECONDS_MAX = 600.0
"""For any one rate."""


def fill(ground: Ground, name: str, count: int, screen: Screen, *, dirty: bool = False) -> None:
    """A topic of orders."""
    with screen.step(f"produce {name}", count) as advance:
        asyncio.run(topics.filled(ground.bootstrap_servers, name, count, dirty=dirty, advance=advance))


def reactor(ground: Ground, topic: str, count: int, screen: Screen, *, dirty: bool = False) -> dict[str, float]:
    """`serve` drains a topic into an append table of three slices, quarantine and positions on."""
    good = count - (orders.dirty_in(count) if dirty else 0)
    with installation(ground, "drain", {"orders.sql": append(topic)}) as installed, installed.serve() as served, Resident(served.process.pid) as resident:
        with screen.step(f"reactor drains {topic}", good):
            began_cpu = resident.cpu_seconds
            began_at = wait_until_assigned(served, topic)
            ended_at = installed.wait_until_inserted(good, served, SECONDS_MAX)
            if dirty:
                ended_at = installed.wait_until_settled(count - good, "quarantined", served, SECONDS_MAX)
        cpu_seconds = resident.cpu_seconds - began_cpu
        installed.must_hold(good)
        if dirty:
            quarantined = installed.rows("SELECT count(*) FROM _reactor_quarantine")[0][0]
            if quarantined != count - good:
                raise ValueError(f"{quarantined} events are in quarantine instead of {count - good}")
        runs = installed.fetch("SELECT count(*) FROM reactor.run WHERE state = 'completed'")[0][0]
    seconds = (ended_at - began_at).total_seconds()
    rate = {"events_s": count / seconds, "cpu_us": cpu_seconds / count * 1e6}
    return {**rate, "seconds": seconds, "runs": runs, "rss_mb": resident.most_mb}


def drain(ground: Ground, topic: str, count: int, screen: Screen) -> dict[str, float]:
    """(a) aiokafka's stock drain."""
    with screen.step("aiokafka drains, values dropped", count):
        return _rate([sys.executable, "-m", "bench.drain", ground.bootstrap_servers, topic, str(count)], {}, ground, "drain")


def limit(ground: Ground, count: int, screen: Screen) -> dict[str, float]:
    """(b) Decode and insert alone, from memory."""
    with screen.step("decode and insert alone", count), ground.database("limit") as url:
        return _rate([sys.executable, "-m", "bench.limit", url, str(ground.new_folder("limit")), str(count)], {}, ground, "limit")


def rival(ground: Ground, name: str, command: tuple[str, ...], topic: str, count: int, options: Options, screen: Screen) -> dict[str, float]:
    """(c), (d), (e): a program of the environment of rivals."""
    with screen.step(f"{name} drains {topic}", count) as advance, ground.database("rival") as url:
        task = Task(ground.bootstrap_servers, topic, count, url, str(ground.new_folder("rival")))
        return _rate([str(options.rivals_python), "-m", *command], task.environment, ground, name, _counting(advance))


def _counting(advance: Callable[[float], None]) -> Callable[[dict[str, float]], None]:
    seen = 0.0

    def heard(answer: dict[str, float]) -> None:
        nonlocal seen
        advance(answer.get("committed", seen) - seen)
        seen = answer.get("committed", seen)

    return heard


def _rate(
    command: list[str], environment: dict[str, str], ground: Ground, name: str, heard: Callable[[dict[str, float]], None] = lambda _: None,
) -> dict[str, float]:
    """Events a second, and microseconds of the processor for each."""
    answer = last_answer(command, environment, ground.folder / f"{name}.log", seconds=SECONDS_MAX, heard=heard)
    events = float(answer["events"])
    return {"events_s": events / float(answer["seconds"]), "cpu_us": float(answer["cpu_seconds"]) / events * 1e6}
