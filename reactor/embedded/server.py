"""A child process that listens on the port of its folder."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reactor.embedded.child import Child
from reactor.embedded.folder import PartFolder, bindable
from reactor.errors import Fatal

PORT_TRIES = 5


@dataclass(frozen=True, slots=True)
class Manners:
    """How a part is treated: how long it may take to be ready, how it is asked to stop, and what it is sent when its parent is gone."""

    ready_seconds: float
    stop: Sequence[tuple[signal.Signals, float]]
    death_signal: signal.Signals


class Server:
    """At most one process at a time. `start` gives its port; `stop` is harmless when there is none."""

    def __init__(self, title: str, folder: PartFolder, manners: Manners) -> None:
        self._title = title
        self._folder = folder
        self._manners = manners
        self._child: Child | None = None

    def start(self, command: Callable[[int], Sequence[str]], ready: Callable[[int, int], bool], user: str = "same") -> int:
        """Run `command(port)` until `ready(pid, port)`; on another port if somebody takes this one meanwhile. Raises Fatal."""
        for _ in range(PORT_TRIES):
            port = self._folder.port()
            folder, log_path = self._folder.path, self._folder.log_path
            child = Child(command(port), folder=folder, log_path=log_path, death_signal=self._manners.death_signal, user=user)
            self._child = child
            if self._becomes_ready(child, ready, port):
                return port
            if bindable(port):
                break
        raise Fatal(f"{self._title} does not start; the end of {self._folder.log_path}:\n{self._folder.log_tail()}")

    def stop(self) -> None:
        """As the manners say."""
        if self._child is not None:
            self._child.stop(self._manners.stop)
            self._child = None

    def ended(self) -> str | None:
        """What to say if it has ended by itself; None while it lives."""
        if self._child is None or self._child.exit_code is None:
            return None
        code, log_path = self._child.exit_code, self._folder.log_path
        return f"{self._title} ended by itself (exit code {code}); the end of {log_path}:\n{self._folder.log_tail()}"

    def _becomes_ready(self, child: Child, ready: Callable[[int, int], bool], port: int) -> bool:
        try:
            return child.wait_until(lambda: ready(child.pid, port), self._manners.ready_seconds)
        except BaseException:
            self.stop()
            raise
