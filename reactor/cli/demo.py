"""`reactor demo`: the project `examples/orders` at work, with a shop that sends orders, and what becomes of them.

    parts ─▶ shop (makes its topics, then sends) ─▶ serve ─▶ a look a second ─▶ the shop closes ─▶ all is read ─▶ serve drains ─▶ parts end

The shop comes first because a topic that is made later is seen seconds later. What is counted is asked of the state and the lake, never added
up here, so a look that fails loses nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from anyio import to_thread
from prometheus_client.samples import Sample

from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.failures import DONE, INTERRUPTED
from reactor.cli.live import Collector, View, scraped
from reactor.cli.screen import Frame
from reactor.cli.shop import GENERATOR, Shop, last_lines
from reactor.cli.supervisor import Signals, Supervised, supervised
from reactor.cli.terminal import Display, Lines, Terminal
from reactor.errors import Fatal, Outage, UsageError
from reactor.project import Opened
from reactor.wiring import kafka_connection, opened_state

app = verbs()

PROJECT: Final = Path(__file__).parents[2] / "examples" / "orders"
KEPT: Final = Path(".reactor/demo")
"""Below the project: the logs of the demo's processes, and what its scripts write."""
NOTES: Final = "notify.txt"
NOTES_COUNT, LOG_LINES, LOG_BEGIN_CHARACTERS = 3, 15, 4096
KEYS: Final = "(q ends it)"
LOOK_SECONDS, WAIT_SECONDS = 1.0, 0.1
REST_LOOKS, REST_SECONDS_MAX = 4, 30.0
"""It is over when so many looks in a row have found nothing left to do (metrics are two seconds old), or after so long."""
_HEALTH: Final = re.compile(r"health at http://([^\s\"]+):(\d+)")


@app.command(epilog=example("reactor demo --seconds 60 --rate 100"))
@verb
def demo(
    call: Call,
    seconds: Annotated[float | None, typer.Option(min=0.0, help="End in order after so long; else at q or Ctrl-C.")] = None,
    rate: Annotated[float, typer.Option(min=0.1, max=1000.0, help="Orders a second.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Which shop it is: the same seed sends the same orders.")] = 7,
) -> int:
    """Run the demo's project, with a shop that sends orders, and show what becomes of them.

    On a terminal a screen, else a line a second. The last line counts this session: records that the broker has acknowledged (events), rows
    that runs have inserted, completed runs, their snapshots, runs fired by another table's snapshot (cascades), records set aside.
    """
    folder = call.flags.project or PROJECT
    if not (folder / GENERATOR).is_file():
        raise UsageError(f"{folder} has no {GENERATOR}", hint="the demo is examples/orders of Reactor's repository: make run")
    opened = call.open(folder=folder)
    display = Terminal(color=call.color) if sys.stdout.isatty() else Lines()
    with asyncio.Runner() as runner, Signals() as signals:
        session = Session(opened, display, signals)
        try:
            with session.log_path.open("ab") as log, supervised(
                opened.project, signals, output=log, before=lambda: runner.run(session.begin(rate, seed)),
            ) as running:
                runner.run(session.live(running, seconds))
            totals = session.view.totals
        finally:
            runner.run(session.end())
    print(  # noqa: T201 - stdout is the result
        f"run: events={session.shop.acknowledged} rows={totals.rows} runs={totals.runs} snapshots={totals.snapshots} "
        f"cascades={totals.cascades} quarantined={totals.quarantined}")
    return INTERRUPTED if signals.insisted else DONE


class Session:
    """One demo, from its first record to its last. `shop` is open after `begin`; `view` is what was seen last."""

    shop: Shop
    _collector: Collector

    def __init__(self, opened: Opened, display: Display, signals: Signals) -> None:
        self._opened, self._display, self._signals = opened, display, signals
        self._began_at = time.monotonic()
        self._until: float | None = None
        self._started: Mapping[str, str] = {}
        self._stack = AsyncExitStack()
        self._kept = opened.project.folder / KEPT
        self._kept.mkdir(parents=True, exist_ok=True)
        self.log_path = self._kept / "serve.log"
        self.view = View()

    async def begin(self, rate: float, seed: int) -> None:
        """Before `serve` starts: count what was there, and open the shop, so that there are topics. Raises `Outage`, `Fatal`."""
        self.log_path.write_bytes(b"")  # only now: another demo might have been at work here
        project = self._opened.project
        state = await self._stack.enter_async_context(opened_state(project))
        order = (self._opened.checked.scripts[path] for path in self._opened.checked.lineage.order())
        scripts = [script for script in order if script in project.scripts]
        self._collector = Collector(state, list(project.settings.lakes.named), scripts, self._scrape, datetime.now(UTC))
        await self._collector.look(time.time())
        servers = kafka_connection(project, next(iter(project.settings.kafka))).bootstrap_servers
        self.shop = Shop(project.folder, self._kept / "generator.log", servers, rate=rate, seed=seed)
        self._stack.callback(self.shop.close)
        while not self.shop.is_open:
            self._shop_lives()
            await asyncio.sleep(WAIT_SECONDS)

    async def live(self, running: Supervised, seconds: float | None) -> None:
        """Show what happens until the time is over or somebody wants it to end, then until all is read, then until `serve` has drained.

        Raises `Fatal` with the last lines of a process that has ended by itself.
        """
        self._until = None if seconds is None else time.monotonic() + seconds
        parts = {"PostgreSQL": running.parts.state_url, "broker": running.parts.bootstrap_servers}
        self._started = {name: place for name, place in parts.items() if place is not None}
        with self._display:
            while not self._over:
                await self._show("running" if self.view.sources else "starting")
                self._shop_lives()
                self._serve_lives(running)
                await self._pause()
            await to_thread.run_sync(self.shop.close)
            await self._rest(running)
            await self._show("stopping")
            await to_thread.run_sync(running.stop)
            await self._show("stopped")

    async def end(self) -> None:
        """Whatever happened: nothing of it runs on."""
        await self._stack.aclose()

    # ------------------------------------------------------------------------------------------------------- what is shown

    async def _show(self, status: str) -> None:
        with suppress(Outage):
            self.view = await self._collector.look(time.time())
        notes = last_lines(self._kept / NOTES, NOTES_COUNT)
        title, elapsed_seconds = f"Reactor demo: {self._opened.project.folder.name}", time.monotonic() - self._began_at
        self._display.show(self.view, Frame(title, status, elapsed_seconds, self._places(), f"{KEPT / NOTES}, by export/notify.py", notes, KEYS))

    async def _scrape(self) -> Sequence[Sample]:
        if (health := self._health) is None:
            raise Outage("serve has not said yet where its metrics are")
        return await to_thread.run_sync(scraped, *health)

    @property
    def _health(self) -> tuple[str, int] | None:
        """Host and port of `serve`, as its log begins; None: it is not that far."""
        with self.log_path.open() as log:
            found = _HEALTH.search(log.read(LOG_BEGIN_CHARACTERS))
        return (found[1], int(found[2])) if found else None

    def _places(self) -> Mapping[str, str]:
        """What can be found where, while this runs."""
        project, health = self._opened.project, self._health
        served = {"health": f"http://{health[0]}:{health[1]}/readyz", "metrics": f"http://{health[0]}:{health[1]}/metrics"} if health else {}
        lakes = {f"lake {name}": lake.data_path for name, lake in project.settings.lakes.named.items()}
        reactor, folder = (os.path.relpath(path) for path in (Path(sys.executable).with_name("reactor"), project.folder))
        return {**served, **self._started, **lakes, "rows": f'{reactor} query --project {folder} "FROM orders_daily"'}

    # ------------------------------------------------------------------------------------------------------- when it ends

    @property
    def _over(self) -> bool:
        return self._signals.asked or self._display.quit or (self._until is not None and time.monotonic() >= self._until)

    async def _pause(self) -> None:
        """Till the next look, or till it is over."""
        left = LOOK_SECONDS if self._until is None else min(LOOK_SECONDS, max(0.0, self._until - time.monotonic()))
        await to_thread.run_sync(self._signals.wait, left)

    async def _rest(self, running: Supervised) -> None:
        """Until nothing is left to do, but not for ever; who insists gets what is there by then."""
        until, quiet_looks = time.monotonic() + REST_SECONDS_MAX, 0
        while quiet_looks < REST_LOOKS and time.monotonic() < until and not self._signals.insisted:
            await asyncio.sleep(LOOK_SECONDS)
            before = self.view.totals
            await self._show("reading what is left")
            self._serve_lives(running)
            quiet_looks = quiet_looks + 1 if self.view.at_rest and self.view.totals == before else 0

    def _shop_lives(self) -> None:
        if (code := self.shop.exit_code) is not None:
            raise Fatal(f"the shop ended by itself (exit code {code}); the end of {self.shop.log_path}:\n{told(self.shop.log_path)}")

    def _serve_lives(self, running: Supervised) -> None:
        if (said := running.ended()) is not None:
            raise Fatal(f"{said}; the end of {self.log_path}:\n{told(self.log_path)}")


def told(log_path: Path) -> str:
    """The end of a log."""
    return "\n".join(last_lines(log_path, LOG_LINES))
