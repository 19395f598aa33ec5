"""The demo's shop: its generator as a child process, which says in its log what the broker has acknowledged."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from reactor.embedded.child import Child

GENERATOR: Final = "generator.py"
STOP: Final = [(signal.SIGTERM, 10.0)]
REPORT_LINES: Final = 20
"""From the end of the log, where the newest report is: libraries may have said something behind it."""
LINE_BYTES: Final = 512
"""Of a long line, so that a log is not read whole."""


class Shop:
    """A generator that runs. Start it on the main thread."""

    def __init__(self, folder: Path, log_path: Path, bootstrap_servers: str, *, rate: float, seed: int) -> None:
        self.log_path = log_path
        log_path.unlink(missing_ok=True)
        command = [sys.executable, str(folder / GENERATOR), "--bootstrap-servers", bootstrap_servers, "--rate", str(rate), "--seed", str(seed)]
        self._child = Child(command, folder=folder, log_path=log_path, death_signal=signal.SIGKILL)  # the broker dies too

    @property
    def is_open(self) -> bool:
        """Whether it has made its topics, and sends."""
        return bool(self._report())

    @property
    def acknowledged(self) -> int:
        """Records so far, of all kinds."""
        return sum(self._report().values())

    @property
    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._child.exit_code

    def close(self) -> None:
        """Let it send what it has begun, and end (blocking)."""
        self._child.stop(STOP)

    def _report(self) -> Mapping[str, int]:
        """The newest report in the log."""
        for said in reversed(last_lines(self.log_path, REPORT_LINES)):
            with suppress(ValueError):
                if isinstance(report := json.loads(said), dict):
                    return report
        return {}


def last_lines(file: Path, count: int) -> Sequence[str]:
    """The last whole lines of a text that grows; none if there is no such file."""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - count * LINE_BYTES))
        text = opened.read().decode(errors="replace")
        return [line.rstrip() for line in text.splitlines(keepends=True) if line.endswith("\n")][-count:]
    return ()
