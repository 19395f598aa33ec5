"""One child process that ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from reactor.embedded import launch
from reactor.errors import Fatal

POLL_SECONDS = 0.02


def command_as_child(command: Sequence[str], *, user: str, folder: Path, death_signal: signal.Signals) -> list[str]:
    """`command`, to be run as `user` (see `launch`), working in `folder`, sent `death_signal` when the calling thread's process ends."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), str(int(death_signal)), user, str(folder), *command]


class Child:
    """A started process with a session and an environment of its own, its output appended to a log. Call `stop` whatever happens."""

    def __init__(self, command: Sequence[str], *, folder: Path, log_path: Path, death_signal: signal.Signals, user: str = "same") -> None:
        """Start it. The kernel ends a child with the *thread* that started it: only the main thread lives as long as the process."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("embedded parts end with the thread that starts them: start them on the main thread")
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  (the caller's own command, no shell)
                command_as_child(command, user=user, folder=folder, death_signal=death_signal),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=plain_environment(),
                start_new_session=True,
            )
        self.name = Path(command[0]).name
        self.pid = self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._process.poll()

    def wait_until(self, ready: Callable[[], bool], timeout_seconds: float) -> bool:
        """True once `ready()`, False if the process has ended. Raises Fatal after the time."""
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if self.exit_code is not None:
                return False
            if time.monotonic() > deadline:
                raise Fatal(f"{self.name} is not ready after {timeout_seconds:.0f} s")
            time.sleep(POLL_SECONDS)
        return True

    def stop(self, steps: Sequence[tuple[signal.Signals, float]]) -> None:
        """Send each signal and give it its seconds; kill what is left. An interrupt while waiting kills at once."""
        try:
            for step, seconds in steps:
                if self.exit_code is None:
                    self._process.send_signal(step)
                    self._wait(seconds)
        finally:
            self._process.kill()  # does nothing once it has ended
            self._process.wait()

    def _wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return


def plain_environment() -> dict[str, str]:
    """Parts must not listen to PGPORT, LISTENER_URL or a locale of the caller."""
    kept = ("PATH", "HOME", "TMPDIR")
    return {"LC_ALL": "C", "TZ": "UTC", **{name: os.environ[name] for name in kept if name in os.environ}}
