"""What `serve` shows of itself while it works: the one screen on a terminal, where `q` ends it in order, else a line of the log each 10 s.

It looks from outside, at the state and the metrics (`live`), on connections of its own: whatever it does not get to see, the service goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import anyio
from prometheus_client.samples import Sample

from reactor.cli.database import looked_at
from reactor.cli.live import Collector, View
from reactor.cli.screen import Frame, counted_line
from reactor.cli.shop import last_lines
from reactor.cli.terminal import Display
from reactor.domain.scripts import Script
from reactor.errors import ReactorError
from reactor.project import Opened
from reactor.telemetry import Telemetry
from reactor.web.health import Health

logger = logging.getLogger(__name__)

SCREEN_SECONDS, LINE_SECONDS = 1.0, 10.0
NOTES_COUNT = 3
KEYS: Final = "(q ends it in order)"


class LogLines:
    """A display without a terminal: counts, and no word of a user's (a partition's key may be a customer's name)."""

    quit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, view: View, frame: Frame) -> None:
        """One line."""
        logger.info("%s", counted_line(view, frame), extra={"event": "service_progress"})


@dataclass(slots=True)
class Onlooker:
    """`opened`: the project as it runs now; `log_path`: where the log goes while the screen is up; `ask_to_stop`: `q` was pressed."""

    opened: Callable[[], Opened]
    tags: Sequence[str]
    telemetry: Telemetry
    health: Health
    display: Display
    look_seconds: float
    address: str
    log_path: Path | None
    ask_to_stop: Callable[[], None]
    view: View = field(default_factory=View)
    _began_at: float = field(default_factory=time.monotonic)

    async def run(self) -> None:
        """Until cancelled; whatever goes wrong here, the service goes on."""
        try:
            await self._look_on()
        except Exception:
            logger.exception("nothing more is shown", extra={"event": "view_failed"})

    async def _look_on(self) -> None:
        since = datetime.now(UTC)
        with self.display:
            while True:
                try:
                    async with looked_at(self.opened().project) as state:
                        collector = Collector(state, list(self.opened().project.settings.lakes.named), (), self._metrics, since)
                        while True:
                            collector.scripts = self._scripts()
                            self.view = await collector.look(time.time())
                            await self._show()
                except ReactorError:
                    await self._show()

    async def _show(self) -> None:
        report = await self.health.ready()
        wrong = next((check.message for check in report.checks if check.status == report.status), "") if report.status != "up" else ""
        status = {"up": "running", "degraded": "degraded"}.get(report.status, "not ready")
        places = {"health": f"{self.address}/readyz", "metrics": f"{self.address}/metrics", **({status: wrong} if wrong else {})}
        notes = last_lines(self.log_path, NOTES_COUNT) if self.log_path else ()
        title = f"Reactor: {self.opened().project.folder.name}"
        self.display.show(self.view, Frame(title, status, time.monotonic() - self._began_at, places, f"log: {self.log_path}", notes, KEYS))
        await anyio.sleep(self.look_seconds)
        if self.display.quit:
            self.ask_to_stop()

    def _scripts(self) -> Sequence[Script]:
        """Upstream first."""
        opened = self.opened()
        mine: Mapping[str, Script] = {script.path: script for script in opened.project.tagged(self.tags)}
        return [mine[path] for path in opened.checked.lineage.order() if path in mine]

    async def _metrics(self) -> Sequence[Sample]:
        return [sample for family in self.telemetry.registry.collect() for sample in family.samples]
