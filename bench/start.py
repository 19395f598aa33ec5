"""The first start on a machine, which makes its machine code (`reactor.compiled`), against one that finds it kept."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import speed
from bench.ground import Ground
from bench.installation import append, installation
from bench.screen import Screen
from reactor.compiled import CACHE_VARIABLE

EVENTS, ROUNDS = 1_000, 3
DUE_AT_ONCE = "\n[debounce]\nquiet_seconds = 0.1\nwait_max_seconds = 0.5\n"
SECONDS_MAX = 120.0


def start(ground: Ground, screen: Screen) -> dict[str, float]:
    """Seconds from the start of `serve` until waiting events are rows, the first time and later, and what compiling costs: the best of some rounds."""
    topic, found = f"start-{time.time_ns()}", []
    speed.fill(ground, topic, EVENTS, screen)
    with screen.step("the first start", ROUNDS) as advance:
        for _ in range(ROUNDS):
            with TemporaryDirectory(dir=ground.folder) as cache:
                found.append([_started(ground, topic, Path(cache)) for _ in ("cold", "warm")])
            advance(1)
    cold, warm = map(min, zip(*found, strict=True))
    return {"cold_s": cold, "warm_s": warm, "compiling_s": cold - warm}


def _started(ground: Ground, topic: str, cache: Path) -> float:
    with installation(ground, "start", {"orders.sql": append(topic)}, DUE_AT_ONCE) as installed:
        began_at = time.time()
        with installed.serve({CACHE_VARIABLE: str(cache)}) as served:
            return installed.wait_until_inserted(EVENTS, served, SECONDS_MAX).timestamp() - began_at
