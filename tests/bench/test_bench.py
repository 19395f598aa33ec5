"""The suite still runs, with few events and without rivals: what it says of speed is worth nothing here."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import orders, results
from bench.latency import percentile

SMALL = ("--events", "3000", "--seconds", "3", "--hops", "3", "--only", "produced,limit,drain,reactor,dirty,latency,hop")


@pytest.mark.long
@pytest.mark.slow
def test_every_number_is_measured_and_said(kafka_bootstrap: str, tmp_path: Path) -> None:
    output = tmp_path / "speed.json"
    command = [sys.executable, "-m", "bench", "speed", *SMALL, "--output", str(output)]
    environment = {**os.environ, "REACTOR_TEST_KAFKA_BOOTSTRAP": kafka_bootstrap, "BENCH_TOPICS": f"smoke-{tmp_path.name}-"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(re.findall(r"(\w+)=(\S+)", done.stdout.splitlines()[-1]))
    assert list(said) == [goal.name for goal in results.GOALS]
    measured = {name for name, number in said.items() if not math.isnan(float(number))}
    assert measured == set(said) - {"vs_hand", "vs_bytewax", "vs_quix", "rss_mb"}
    assert json.loads(output.read_text())["measured"]["hop"]["hops"] == 3


def test_an_order_has_its_columns_and_some_180_bytes() -> None:
    values = [orders.value(n) for n in range(1000)]
    assert 160 < sum(map(len, values)) / len(values) < 200
    assert {tuple(json.loads(value)) for value in values} == {tuple(orders.COLUMNS)}
    assert len({json.loads(value)["ordered_at"][:10] for value in values}) == 3


def test_one_event_in_a_hundred_is_dirty() -> None:
    assert sum(orders.dirty_value(n) != orders.value(n) for n in range(1000)) == orders.dirty_in(1000) == 10


def test_percentiles() -> None:
    assert percentile(range(100), 0.5) == 50
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert math.isnan(percentile([], 0.5))


def test_what_was_not_measured_is_nan() -> None:
    numbers = results.summed_up({"reactor": {"events_s": 300.0, "rss_mb": 700.0}, "hand": {"events_s": 100.0}, "memory": {"load_mb": 400.0, "away_mb": 800.0}})
    assert results.line(numbers).startswith("bench: events_s=300 vs_hand=3.00 vs_bytewax=nan")
    assert numbers["rss_mb"] == 400.0
