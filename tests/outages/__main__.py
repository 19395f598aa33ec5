"""Outages: python -m tests.outages [--seconds N] [--small-broker]

Ends with `outages: cut=… lost=… doubled=… failed_runs=…`, and exit code 1 if one of the last three is not 0 or something was not as it should be.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reactor.errors import UsageError
from tests.chaos.facts import judged, look
from tests.integration.records import Load, OrderTopic
from tests.integration.served import Served
from tests.integration.shop import Shop
from tests.outages.cuts import Cut, cuts, parts
from tests.parts import PartMissing

SECONDS, LINE_SECONDS = 60, 10.0
NOTICED_SECONDS, WHOLE_SECONDS = 120.0, 300.0
"""What health, and what everything that waited, may take."""
ROWS_BETWEEN = 400
"""So many rows are committed before a part goes away, and after it has come back."""
PARTITIONS = 4

Say = Callable[[str], None]


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="outages", description="Each part goes away under load, and comes back.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each is away at least")
    parser.add_argument("--small-broker", action="store_true", help="not Apache Kafka, even if there is Java")
    asked = parser.parse_args(arguments)
    logging.getLogger().addHandler(logging.NullHandler())  # parts that die are not for the reader of the report
    with Bar(3 * asked.seconds) as bar, tempfile.TemporaryDirectory(prefix="reactor-outages-") as folder:
        try:
            return _play(Path(folder), asked.seconds, bar, small_broker=asked.small_broker)
        except (PartMissing, UsageError) as missing:
            bar.line(f"no outages on this machine: {missing}")
            return 1


def _play(folder: Path, seconds: float, bar: "Bar", *, small_broker: bool) -> int:
    bar.say("PostgreSQL and Kafka start")
    with parts(folder, small_broker=small_broker) as stand:
        bar.line(f"on PostgreSQL and {stand.broker}, each away for {seconds:g} s")
        orders = OrderTopic(stand.bootstrap_servers, "orders", PARTITIONS, idempotent=stand.idempotent)
        orders.make()
        shop = Shop(folder / "project", stand.postgres.url, orders, "events", "outages")
        try:
            shop.write_all_scripts()
            served = shop.serve()
            bar.say("serve starts")
            served.wait_until_ready()
            played = cuts(shop, stand)
            with Load(orders, patience_seconds=10 * seconds + NOTICED_SECONDS):
                for cut in played:
                    _cut(cut, shop, served, seconds, bar)
            bar.say("everything that waited is done")
            shop.wait_until_whole(WHOLE_SECONDS)
            served.stop()
            findings, failed = judged(look(shop)), shop.failed_runs()
        finally:
            shop.close()
    for sentence in (*findings.said, *(f"failed: {error}" for error in failed)):
        bar.line(f"WRONG: {sentence}")
    bar.line(f"{len(orders.sent)} orders were sent")
    print(f"outages: cut={len(played)} lost={findings.lost} doubled={findings.doubled} failed_runs={len(failed)}")  # noqa: T201 - its answer
    return 1 if findings.said or failed else 0


def _cut(cut: Cut, shop: Shop, served: Served, seconds: float, bar: "Bar") -> None:
    """It is away until health says so, for `seconds` at least; then work goes on."""
    shop.wait_until_committed(shop.committed() + ROWS_BETWEEN, seconds=WHOLE_SECONDS)
    began_at = time.monotonic()
    cut.leave()
    try:
        bar.until(lambda: cut.noticed(*served.ready()), f"{cut.name} is away, health is asked", NOTICED_SECONDS)
        bar.stay(began_at + seconds, f"{cut.name} is away")
        if served.ended:
            raise AssertionError(f"{cut.name} is away, and serve has ended:\n{served.log()[-3000:]}")
        if not cut.noticed(*served.ready()) or not served.alive():
            raise AssertionError(f"{cut.name} is away: {served.ready()}, alive: {served.alive()}")
    finally:
        cut.come_back()
    bar.until(lambda: served.ready()[0] == 200, f"{cut.name} is back", NOTICED_SECONDS)
    shop.wait_until_committed(shop.committed() + ROWS_BETWEEN, seconds=WHOLE_SECONDS)
    bar.line(f"{cut.name} was away for {time.monotonic() - began_at:.0f} s")


class Bar:
    """On stderr: how much of the time is over; where nobody looks, a line now and then."""

    def __init__(self, total_seconds: float) -> None:
        self._console = Console(stderr=True, soft_wrap=True, highlight=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._progress.add_task("", total=max(total_seconds, 1.0))
        self._said_at = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, what: str) -> None:
        """This is done now."""
        self._progress.update(self._task, description=what)
        if not self._console.is_terminal and time.monotonic() - self._said_at >= LINE_SECONDS:
            self._said_at = time.monotonic()
            self.line(what)

    def line(self, text: str) -> None:
        """A line that stays."""
        self._progress.console.print(text, markup=False)

    def stay(self, until: float, what: str) -> None:
        """Until this time, by the monotonic clock."""
        while (left := until - time.monotonic()) > 0:
            self.say(what)
            step = min(left, 0.5)
            time.sleep(step)
            self._progress.advance(self._task, step)

    def until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Until the condition holds. Raises `TimeoutError`."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:.0f} s: {what}")
            self.stay(time.monotonic() + 0.2, what)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
