"""What was measured: a table for people, JSON for programs, one line for both."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

NOT_MEASURED = float("nan")
Numbers = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Goal:
    """A row of the table: `name` of the last line, what it is, and its bound (`most` or `least`)."""

    name: str
    what: str
    least: float | None = None
    most: float | None = None

    def said(self) -> str:
        """The bound in words."""
        if self.least is not None:
            return f"≥ {self.least:g}"
        return f"≤ {self.most:g}" if self.most is not None else ""

    def met(self, number: float) -> bool:
        """Whether it is within."""
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)


GOALS = (
    Goal("events_s", "events a second, socket to lake"),
    Goal("vs_hand", "times the loop by hand", least=4),
    Goal("vs_bytewax", "times Bytewax", least=12),
    Goal("vs_quix", "times Quix Streams", least=12),
    Goal("vs_drain", "times aiokafka's drain", least=0.85),
    Goal("vs_limit", "times decode and insert alone", least=0.7),
    Goal("dirty", "times the clean rate, 1 % malformed", least=0.8),
    Goal("p99_ms", "p99 to asset-updated, ms", most=250),
    Goal("hop_p50_ms", "p50 of one hop, ms", most=30),
    Goal("hop_p99_ms", "p99 of one hop, ms", most=100),
    Goal("rss_mb", "most memory of serve under a load that lasts, MB", most=600),
)
"""In the order of the last line."""
BESIDE = (Goal("compiling_s", "by what a machine's first start takes longer, s", most=3),)
"""In the table alone."""


def line(numbers: Mapping[str, float]) -> str:
    """The last line; what was not measured is `nan`."""
    found = {goal.name: numbers.get(goal.name, NOT_MEASURED) for goal in GOALS}
    return "bench: " + " ".join(f"{name}={number:.0f}" if name == "events_s" else f"{name}={number:.2f}" for name, number in found.items())


def summed_up(measured: Numbers) -> dict[str, float]:
    """The numbers of the last line."""
    rate = measured.get("reactor", {}).get("events_s", NOT_MEASURED)
    rates = {name: measured[name]["events_s"] for name in ("hand", "bytewax", "quix", "drain", "limit") if name in measured}
    found = {"events_s": rate, **{f"vs_{name}": rate / other for name, other in rates.items()}}
    if "dirty" in measured:
        found["dirty"] = measured["dirty"]["events_s"] / rate
    if "latency" in measured:
        found["p99_ms"] = measured["latency"]["p99_ms"]
    if "hop" in measured:
        found["hop_p50_ms"], found["hop_p99_ms"] = measured["hop"]["p50_ms"], measured["hop"]["p99_ms"]
    if "start" in measured:
        found["compiling_s"] = measured["start"]["compiling_s"]
    found["rss_mb"] = measured.get("memory", {}).get("load_mb", NOT_MEASURED)
    return found


def show(measured: Numbers, numbers: Mapping[str, float]) -> None:
    """On stdout: every number that was measured, then the goals."""
    console = Console(file=sys.stdout)
    every = Table(title="measured", title_justify="left")
    for column in ("what", "number", "value"):
        every.add_column(column, justify="right" if column == "value" else "left")
    for name, values in measured.items():
        for number, value in values.items():
            every.add_row(name, number, f"{value:,.1f}")
    console.print(every)
    goals = Table(title="against the goals", title_justify="left")
    for column in ("number", "value", "goal", ""):
        goals.add_column(column, justify="right" if column == "value" else "left")
    for goal in GOALS + BESIDE:
        if not math.isnan(numbers.get(goal.name, NOT_MEASURED)):
            verdict = "" if not goal.said() else "[green]met" if goal.met(numbers[goal.name]) else "[red]missed"
            goals.add_row(goal.what, f"{numbers[goal.name]:,.2f}", goal.said(), verdict)
    console.print(goals)


def write(path: Path, measured: Numbers, numbers: Mapping[str, float], arguments: Mapping[str, object]) -> None:
    """As JSON, with the machine and what was asked for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "cores": os.cpu_count(), "memory_gb": round(psutil.virtual_memory().total / 1e9), "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }  # fmt: skip
    whole = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine, "asked": arguments, "numbers": numbers, "measured": measured}
    path.write_text(json.dumps(whole, indent=2, default=str) + "\n")
