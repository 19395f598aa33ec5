"""Scripts that change while `serve` runs (OP-12): at SIGHUP, and with `--watch` whenever a file does, the project is read again.

    ask ─▶ read and check the whole project ─▶ nothing wrong: the service takes it over, whole
                                            └▶ an error: it is said, and the scripts go on that ran before

Only scripts are reloaded. Settings are those of the start until a restart, and scripts are checked against them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import watchfiles
from anyio import to_thread

from reactor.cli.answers import counted
from reactor.domain.project import language_of
from reactor.errors import ReactorError, UsageError
from reactor.project import SETTINGS_FILE, Opened, folders_of, judged, names_of
from reactor.runtime.service import Service

logger = logging.getLogger(__name__)

DEBOUNCE_MS, STEP_MS = 400, 50
"""How long files may go on changing before they are read, and how long they must have rested."""
WATCH_AGAIN_SECONDS = 10.0
ERRORS_SAID_MAX = 20
MOUNTED: Final = "..data"
"""The link by which Kubernetes changes all files of a mounted ConfigMap at once."""


@dataclass(slots=True)
class Reloader:
    """Reads the project again when it is asked to. `read`: the project as it is on disk; `refuse`: what more `--strict` asks of it."""

    opened: Opened
    tags: Sequence[str]
    read: Callable[[], Opened]
    refuse: Callable[[Opened], None] | None = None
    _asked: asyncio.Event = field(default_factory=asyncio.Event)
    _by_signal: bool = False

    def ask(self, *, by_signal: bool) -> None:
        """Reload soon; not `by_signal`: only if a script is another one than the one that runs."""
        self._by_signal |= by_signal
        self._asked.set()

    async def run(self, service: Service) -> None:
        """Whenever it is asked, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._reload(service)
            except ReactorError as error:
                _say_refused(error)

    async def _reload(self, service: Service) -> None:
        by_signal, self._by_signal = self._by_signal, False
        opened = await to_thread.run_sync(self._opened)
        if opened.files == self.opened.files and not by_signal:
            return
        _check(opened)
        if self.refuse is not None:
            self.refuse(opened)
        for path, why in opened.checked.inactive.items():
            logger.warning("%s does not run: %s", path, "; ".join(why), extra={"event": "script_refused", "script": path})
        await service.reload(opened.project.tagged(self.tags), opened.project.producers)
        self.opened = opened

    def _opened(self) -> Opened:
        """By the settings of the start."""
        found, settings = self.read(), self.opened.project.settings
        if found.project.settings == settings:
            return found
        logger.warning("the settings have changed: they take effect with a restart", extra={"event": "settings_changed"})
        return judged(found.project.folder, replace(found.loaded, settings=settings), found.files, found.warnings)

    # -- --watch

    async def watch(self) -> None:
        """Ask whenever a file of the project changes; where that cannot be seen now, it is tried again."""
        while True:
            try:
                await self._watch()
            except (OSError, RuntimeError, UsageError) as error:
                logger.warning("files are not watched: %s; SIGHUP reloads all the same", error, extra={"event": "watch_failed"})
                await asyncio.sleep(WATCH_AGAIN_SECONDS)

    async def _watch(self) -> None:
        names = names_of(self.opened.project.settings)

        def concerns(_: watchfiles.Change, path: str) -> bool:
            name = Path(path).name
            return name in {SETTINGS_FILE, MOUNTED} or language_of(name, names) is not None or Path(path).is_dir()

        while True:
            folders = await to_thread.run_sync(folders_of, self.opened.project)
            self.ask(by_signal=False)
            async for _ in watchfiles.awatch(*folders, watch_filter=concerns, debounce=DEBOUNCE_MS, step=STEP_MS, recursive=False):
                self.ask(by_signal=False)
                if await to_thread.run_sync(folders_of, self.opened.project) != folders:
                    break


def _say_refused(error: ReactorError) -> None:
    logger.error("not reloaded, the scripts of before go on: %s", error, extra={"event": "reload_refused"})


def _check(opened: Opened) -> None:
    """Raises `UsageError` with what is wrong."""
    errors = [str(found) for found in opened.checked.diagnostics if found.severity == "error"]
    if errors:
        more = [f"and {len(errors) - ERRORS_SAID_MAX} more"] if len(errors) > ERRORS_SAID_MAX else []
        raise UsageError("\n".join([f"{counted(len(errors), 'error')} in the project:", *errors[:ERRORS_SAID_MAX], *more]), hint="reactor check says more")
