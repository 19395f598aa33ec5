"""`reactor serve`: one replica, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Annotated, Literal, TextIO

import anyio
import typer
import uvloop

from reactor import __version__, compiled
from reactor.cli.answers import counted
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.failures import DONE, INTERRUPTED, TimedOut
from reactor.cli.onlooker import LINE_SECONDS, SCREEN_SECONDS, LogLines, Onlooker
from reactor.cli.reload import Reloader
from reactor.cli.terminal import Display, Terminal
from reactor.errors import Outage, UsageError
from reactor.project import Opened, open_project
from reactor.runtime import failpoints
from reactor.runtime.service import Service
from reactor.telemetry import Telemetry, start_logging
from reactor.web.health import Health, health_app, listening_socket, served
from reactor.wiring import KERNELS, WallClock, opened_service

app = verbs()
logger = logging.getLogger(__name__)

WAIT_MIN_SECONDS, WAIT_MAX_SECONDS = 0.5, 10.0
"""Between two attempts to start while a dependency is away; each waits twice as long as the one before."""
READY_LOOK_SECONDS = 0.25
LOG_FILE = "serve.log"
"""Below the private folder: the log of the last start whose terminal showed the screen."""


@app.command(epilog=example("reactor serve --strict --tags ingest,marts"))
@verb
def serve(
    call: Call,
    tags: Annotated[str | None, typer.Option(metavar="TAG,TAG", help="Only scripts with one of these tags.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Do not start while `check` finds an error or a script waits for a feature.")] = False,
    live: Annotated[bool | None, typer.Option("--live/--no-live", help="The screen, or the log. [default: the screen on a terminal]")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Reload scripts as soon as their files change.")] = False,
) -> int:
    """Run the scripts whenever their sources change, until SIGTERM or Ctrl-C.

    SIGHUP reloads the scripts: all, or none while `check` finds an error. Running runs end on the text that they began with.

    A terminal shows one screen, and the log goes to .reactor/serve.log; q ends it. Else logs go to stdout as JSON lines (on a terminal as text), with
    a line of counts each 10 s. The first signal ends in order, exit code 0; the second at once. What is away at
    the start is waited for (with --timeout: for so long at most). /livez, /readyz and /metrics are on [http] health_port.
    """
    failpoints.arm(os.environ.get(failpoints.VARIABLE, ""))
    opened = call.open()
    log = opened.loaded.settings.log
    wanted = [tag for tag in (tags or "").split(",") if tag]
    if strict:
        refuse(opened)
    is_terminal, looked_at = sys.stdout.isatty(), sys.stdout.isatty() and sys.stdin.isatty()
    if live and not looked_at:
        raise UsageError("--live needs a terminal", hint="leave it out: the log then says each 10 s how far it is")
    log_path = opened.project.private_folder / LOG_FILE if looked_at and live is not False else None
    start_logging(_log_file(log_path) if log_path else sys.stdout, level=log.level, form=log_form(log.format, is_terminal=is_terminal))
    for refused, why in opened.refused.items():
        logger.warning("%s does not run: %s", refused, "; ".join(why), extra={"event": "script_refused", "script": refused})
    for dropped, lines in opened.checked.dropped.items():
        said = f"{counted(lines, 'line')} that cannot be understood: reactor check {dropped}"
        logger.warning("%s runs without %s", dropped, said, extra={"event": "lines_dropped", "script": dropped})
    reloader = Reloader(opened, wanted, partial(open_project, opened.project.folder, flags={}, environ=os.environ, profile=call.flags.profile),
                        refuse if strict else None)
    display = Terminal(color=call.color) if log_path else LogLines()
    serving = Serving(opened, wanted, reloader, display, log_path, watch=watch, start_seconds_max=call.flags.timeout)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serving.run())


def _log_file(path: Path) -> TextIO:
    """Of this start alone; it is open as long as the process lives."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w", buffering=1)


def refuse(opened: Opened) -> None:
    """`--strict`: nothing may be wrong, and nothing may wait. Raises `UsageError`."""
    errors = [str(found) for found in opened.checked.diagnostics if found.severity == "error"]
    waiting = [f"{path}: {'; '.join(why)}" for path, why in opened.checked.inactive.items()]
    if errors or waiting:
        raise UsageError("\n".join(["--strict, and not every script runs:", *errors, *waiting]), hint="reactor check says more")


def log_form(asked: Literal["auto", "json", "text"], *, is_terminal: bool) -> Literal["json", "text"]:
    """`auto` asks whether people look."""
    return ("text" if is_terminal else "json") if asked == "auto" else asked


@dataclass(slots=True)
class Serving:
    """One process. `start_seconds_max`: how long it may wait for its dependencies, None: for ever."""

    opened: Opened
    tags: Sequence[str]
    reloader: Reloader
    display: Display
    log_path: Path | None = None
    watch: bool = False
    start_seconds_max: float | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> int:
        """Until it is told to stop; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, partial(self.reloader.ask, by_signal=True))
        settings, telemetry, clock = self.opened.project.settings, Telemetry(__version__), WallClock()
        listener = listening_socket(settings.http.host, settings.http.health_port, fixed=self.opened.loaded.is_set("http.health_port"))
        health = Health(clock, list(settings.lakes.named))
        host, port = listener.getsockname()[:2]
        extra = {"event": "service_started"}
        logger.info("reactor %s in %s: health at http://%s:%d", __version__, self.opened.project.folder, host, port, extra=extra)
        async with served(health_app(health, telemetry.registry), listener), AsyncExitStack() as stack:
            if any(script.streams for script in self.opened.project.scripts):
                compiled.ahead(KERNELS, self.opened.project.private_folder / "compiled")
                stack.callback(compiled.stop)
                Thread(target=compiled.load, args=(KERNELS,), name="machine code").start()
            looking = asyncio.create_task(self._onlooker(telemetry, health, f"http://{host}:{port}").run())
            stack.push_async_callback(_ended, looking)
            service = await self._start(stack, health, telemetry)
            if service is not None:
                await self._serve(service, health)
        logger.info("stopped", extra={"event": "service_stopped"})
        return DONE

    def _onlooker(self, telemetry: Telemetry, health: Health, address: str) -> Onlooker:
        seconds = SCREEN_SECONDS if self.log_path else LINE_SECONDS
        return Onlooker(lambda: self.reloader.opened, self.tags, telemetry, health, self.display, seconds, address, self.log_path, self.stopping.set)

    def _stop(self, number: int) -> None:
        if self.stopping.is_set():
            self.display.__exit__()
            logger.warning("a second signal: ending at once", extra={"event": "service_stopped"})
            logging.shutdown()
            os._exit(INTERRUPTED)
        logger.info("asked to stop: what runs is ended in order", extra={"event": "signal_received", "reason": signal.Signals(number).name})
        self.stopping.set()

    async def _start(self, stack: AsyncExitStack, health: Health, telemetry: Telemetry) -> Service | None:
        """The service, once everything that it needs at its start answers; None: it was told to stop before."""
        service: Service | None = None
        with anyio.move_on_after(self.start_seconds_max) as limit:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_when_stopping, tasks.cancel_scope)
                service = await self._opened(stack, health, telemetry)
                tasks.cancel_scope.cancel()
        if limit.cancelled_caught and not self.stopping.is_set():
            raise TimedOut(f"serve did not start within {self.start_seconds_max:g} s: {health.waiting}")
        return service

    async def _cancel_when_stopping(self, scope: anyio.CancelScope) -> None:
        await self.stopping.wait()
        scope.cancel()

    async def _opened(self, stack: AsyncExitStack, health: Health, telemetry: Telemetry) -> Service:
        wait_seconds = WAIT_MIN_SECONDS
        while True:
            try:
                return await stack.enter_async_context(opened_service(self.opened.project, tags=self.tags, telemetry=telemetry))
            except Outage as error:
                health.waiting = str(error.args[0])
                logger.warning("waiting to start: %s", error, extra={"event": "start_waits"})
            await anyio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, WAIT_MAX_SECONDS)

    async def _serve(self, service: Service, health: Health) -> None:
        service.stopping = self.stopping
        health.service = service
        if not service.graph.scripts:
            logger.warning("there is no script to run", extra={"event": "no_script"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_say_ready, health, len(service.graph.scripts))
            tasks.start_soon(self.reloader.run, service)
            if self.watch:
                tasks.start_soon(self.reloader.watch)
            await service.run()
            tasks.cancel_scope.cancel()


async def _ended(task: asyncio.Task[None]) -> None:
    """End it; whoever only looks has no say in how the service ends, and no group of errors wraps the one that it ended with."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _say_ready(health: Health, scripts: int) -> None:
    """Once, when the first probe would be answered by 200."""
    while True:
        if (await health.ready()).status != "down":
            break
        await anyio.sleep(READY_LOOK_SECONDS)
    gc.collect()
    gc.freeze()  # what a start has made stays, 60,000 objects: to look through them stops the loop for 20 ms each time
    logger.info("ready: %s", counted(scripts, "script"), extra={"event": "service_ready"})
