"""The demo as a newcomer sees it: as processes, on the embedded parts. The broker forgets what it holds when it ends, so of a session that
was killed only what had been read is there afterwards; that is what is looked at.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from reactor.embedded import EmbeddedPostgres
from reactor.lake.session import Instance, InstanceSettings, LakeSettings
from tests.parts.postgres import value
from tests.parts.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.broker, pytest.mark.slow]
ORDERS = Path(__file__).parents[2] / "examples" / "orders"
LAST_LINE = re.compile(r"run: events=(\d+) rows=(\d+) runs=(\d+) snapshots=(\d+) cascades=(\d+) quarantined=(\d+)")
LINE = re.compile(r"\d+:\d\d [a-z ]+: rows=(\d+) runs=\d+ snapshots=\d+ cascades=\d+ quarantined=\d+ lag=\d+")

ORDERS_NOW = re.compile(r"; orders (\d+) rows @")

REMADE = "SELECT (sum(orders)::BIGINT, sum(total)) FROM orders_daily"
AS_ORDERED = "SELECT (count(*), sum(amount)) FROM (SELECT DISTINCT order_id, amount FROM orders)"


class Counts(NamedTuple):
    events: int
    rows: int
    runs: int
    snapshots: int
    cascades: int
    quarantined: int


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The demo's project at a place of its own."""
    return Path(shutil.copytree(ORDERS, tmp_path / "orders", ignore=shutil.ignore_patterns(".reactor", "__pycache__")))


def demo_command(project: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "reactor", "demo", "--project", str(project), "--rate", "100", *options]


def demo(project: Path) -> Counts:
    """A session of a few seconds; it has ended in order, and shown itself a line a second."""
    done = subprocess.run(demo_command(project, "--seconds", "4"), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    found = LAST_LINE.fullmatch(last)
    assert found is not None, last
    shown = [line for line in lines if LINE.match(line)]
    assert len(shown) > 4
    assert any(line.startswith("metrics: http://127.0.0.1:") for line in lines)
    assert LINE.match(shown[-1])[1] == found[2]  # type: ignore[index]
    return Counts(*map(int, found.groups()))


@contextmanager
def looked_at(project: Path) -> Iterator[Callable[[str], Any]]:
    """`one(sql)`: the first value of a query of the lake, while no demo runs. What must always hold then is checked first."""
    with EmbeddedPostgres(project / ".reactor" / "postgres") as url:
        lakes = {"main": LakeSettings(str(project / ".reactor" / "lake" / "main"))}
        instance = Instance(InstanceSettings(url, lakes, "main", read_only=True))
        with instance.lent("looking") as cursor:

            def one(sql: str) -> Any:
                row = cursor.execute(sql).fetchone()
                return row and row[0]

            assert one("SELECT count(*) - count(DISTINCT (order_id, _source_partition, _offset)) FROM orders") == 0
            assert one("SELECT count(*) - count(DISTINCT customer_id) FROM customers") == 0
            assert one("SELECT count(*) FROM orders") == value(url, "SELECT sum(rows_inserted) FROM reactor.run WHERE script = 'raw/orders.sql'")
            yield one
        instance.retire()


def sent(project: Path) -> Mapping[str, int]:
    """What the broker has acknowledged of the last session, by kind."""
    reports: list[Mapping[str, int]] = [json.loads(line) for line in (project / ".reactor/demo/generator.log").read_text().splitlines()]
    return reports[-1]


def nobody_stands_in(folder: Path) -> bool:
    def inside(process: psutil.Process) -> bool:
        try:
            return Path(process.cwd()).is_relative_to(folder)
        except psutil.Error:
            return False

    return not [process for process in psutil.process_iter() if inside(process)]


@contextmanager
def started(project: Path, orders: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A demo that has shown more than so many orders; it is left with no process of it alive."""
    with subprocess.Popen(demo_command(project), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert any((found := ORDERS_NOW.search(line)) and int(found[1]) > orders for line in process.stdout)
            yield process
        finally:
            process.kill()
    wait_until(lambda: nobody_stands_in(project), "all processes of the demo end", seconds=30)


def orders_in(kinds: Mapping[str, int]) -> int:
    return kinds["order"] + kinds["late"] + kinds["duplicate"]


def test_a_session_a_killed_one_and_one_that_goes_on_with_the_same_lake(project: Path) -> None:
    first = demo(project)
    assert min(first) > 0
    assert first.events == sum(sent(project).values())
    assert first.quarantined == sent(project)["malformed"]
    with looked_at(project) as one:
        orders = one("SELECT count(*) FROM orders")
        assert orders == orders_in(sent(project))
        assert one("SELECT count(*) FROM main._reactor_quarantine") == first.quarantined
        assert one("SELECT count(DISTINCT customer_id) FROM orders") == one("SELECT count(*) FROM customers")
        assert one(REMADE) == one(AS_ORDERED)

    with started(project, orders) as process:
        os.killpg(process.pid, signal.SIGKILL)
    with looked_at(project) as one:
        assert one("SELECT count(*) FROM orders") > orders
        orders = one("SELECT count(*) FROM orders")

    demo(project)
    with looked_at(project) as one:
        assert one("SELECT count(*) FROM orders") == orders + orders_in(sent(project))
        assert one(REMADE) == one(AS_ORDERED)
    for archived in (project / ".reactor/demo/archive").iterdir():
        trigger = json.loads(archived.read_text())
        assert (trigger["reason"], trigger["partition"]) == ("asset", archived.stem)
        assert {upstream["asset"] for upstream in trigger["upstream_snapshots"]} == {"ducklake://main/orders_daily"}
    assert "fired by snapshot" in (project / ".reactor/demo/notify.txt").read_text()


@pytest.mark.long
def test_a_serve_that_is_killed_ends_the_demo_with_its_last_lines(project: Path) -> None:
    with started(project) as process:
        (serve,) = [child for child in psutil.Process(process.pid).children() if "serve" in child.cmdline()]
        serve.kill()
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "serve ended by itself" in stderr
        assert re.search(r'"event": "(service|source|run)_', stderr)


def test_a_folder_without_a_shop_is_no_demo(tmp_path: Path) -> None:
    done = subprocess.run(demo_command(tmp_path), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "generator.py" in done.stderr
    assert not list(tmp_path.iterdir())
