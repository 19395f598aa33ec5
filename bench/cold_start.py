"""The first start: what compiling costs once for each machine and version, and what a start costs when it is kept.

    python bench/cold_start.py [--rounds 3] [--json PATH]

Each line is the best of some rounds, in processes of their own with an empty cache (cold) or a filled one (warm). `all at once` is what a
service does at its first start, beside everything else that it has to do: one process a module; its wall time is when the last is ready.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reactor.wiring import KERNELS

FIELDS = ("cold wall s", "cold cpu s", "warm wall s", "warm cpu s")


def timed(modules: tuple[str, ...], cache: str) -> tuple[float, float]:
    """Wall and processor seconds of compiling these modules at once."""
    env = os.environ | {"NUMBA_CACHE_DIR": cache}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    processes = [subprocess.Popen([sys.executable, "-m", "reactor.compiled", module], env=env) for module in modules]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("a module cannot be compiled")
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(modules: tuple[str, ...], rounds: int) -> dict[str, float]:
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            found.append((*timed(modules, cache), *timed(modules, cache)))
    return {field: round(min(times), 2) for field, times in zip(FIELDS, zip(*found, strict=True), strict=True)}


def main() -> None:
    arguments = argparse.ArgumentParser(description="What compiling costs at the first start")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--json", type=Path)
    asked = arguments.parse_args()
    rows = {module: measured((module,), asked.rounds) for module in KERNELS} | {"all at once": measured(KERNELS, asked.rounds)}
    print(f"{'':34}" + "".join(f"{field:>14}" for field in FIELDS))
    for name, row in rows.items():
        print(f"{name:34}" + "".join(f"{row[field]:14.2f}" for field in FIELDS))
    if asked.json:
        asked.json.write_text(json.dumps({"cold_start": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
