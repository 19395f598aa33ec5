"""Who starts the embedded parts and `serve`, and ends them in order: `reactor dev`, and whatever is built on it.

    parts (PostgreSQL, broker: those that no setting replaces) ─▶ serve, a child process ─▶ watched ─▶ serve drains ─▶ parts stop

Nothing is started again by itself: a part or a `serve` that ends is said, and ends the whole. Killed without warning, the kernel ends the children.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, Self

from reactor.cli.failures import DONE, INTERRUPTED
from reactor.embedded import EmbeddedParts
from reactor.embedded.child import command_as_child
from reactor.project import Project

CLOSE_SECONDS_MAX = 15.0
"""What `serve` may take beyond its drain."""
LOOK_SECONDS = 0.2


class Signals:
    """SIGINT and SIGTERM while it is entered: the first asks to stop in order, the second insists."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.insisted = False

    @property
    def asked(self) -> bool:
        """Whether somebody wants it to stop."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait; True at once when asked to stop."""
        return self._asked.wait(seconds)

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._seen) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _seen(self, _number: int, _frame: FrameType | None) -> None:
        self.insisted = self.asked
        self._asked.set()


@dataclass(slots=True)
class Supervised:
    """Embedded parts and a `serve` that runs on them."""

    parts: EmbeddedParts
    serve: subprocess.Popen[bytes]
    drain_seconds: float
    signals: Signals = field(default_factory=Signals)

    def ended(self) -> str | None:
        """What has ended by itself; None while all live. Ask it every second or so."""
        if self.serve.poll() is not None:
            return f"serve ended by itself (exit code {self.serve.returncode})"
        return self.parts.ended()

    def stop(self) -> int:
        """End `serve`: in order, or at once if that takes too long or somebody insists. Its exit code."""
        with suppress(ProcessLookupError):
            self.serve.terminate()
        for _ in range(round((self.drain_seconds + CLOSE_SECONDS_MAX) / LOOK_SECONDS)):
            if self.signals.insisted:
                break
            with suppress(subprocess.TimeoutExpired):
                exit_code = self.serve.wait(LOOK_SECONDS)
                return DONE if exit_code == -signal.SIGTERM else exit_code  # told to stop before it listened to signals: nothing was begun
        self.serve.kill()
        self.serve.wait()
        return INTERRUPTED


@contextmanager
def supervised(
    project: Project, signals: Signals, arguments: Sequence[str] = (), output: IO[bytes] | None = None, before: Callable[[], object] | None = None,
) -> Iterator[Supervised]:
    """The parts that no setting replaces, and `serve` with these arguments as a child process, until this is left.

    Enter it on the main thread, outside of an event loop. `output`: where stdout and stderr of `serve` go; None: ours. `before`: done between the
    parts and `serve`. Raises what the parts and `before` raise.
    """
    settings = project.settings
    broker = any(kafka.embedded for kafka in settings.kafka.values())
    command = [sys.executable, "-P", "-m", "reactor", "serve", "--project", str(project.folder), *arguments]
    with EmbeddedParts(project.private_folder, postgres=settings.state.embedded, broker=broker) as parts:
        if before is not None:
            before()
        serve = subprocess.Popen(  # noqa: S603 - our own command, no shell
            command_as_child(command, user="same", folder=project.folder, death_signal=signal.SIGKILL),
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=os.environ, start_new_session=True)
        running = Supervised(parts, serve, settings.run.drain_seconds, signals)
        try:
            yield running
        finally:
            if serve.poll() is None:
                running.stop()
