"""The folder of one embedded part: who may run it, on which port, and what was left behind in it."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from reactor.errors import StateForbids

PORT_MIN, PORT_MAX = 20_000, 32_000
"""Below the range from which Linux and macOS take the ports of outgoing connections, so that none of these can be in the way."""

LOG_BYTES_MAX = 10 * 1024 * 1024
"""A log larger than this is put aside at the next start (one old log is kept)."""

ORPHAN_SECONDS = 10.0
"""How long an orphan may take to end before it is killed."""


def bindable(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port in TIME_WAIT is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A loopback port on which nobody listens. Raises StateForbids if there seems to be none."""
    for _ in range(1000):
        port = PORT_MIN + secrets.randbelow(PORT_MAX - PORT_MIN)
        if bindable(port):
            return port
    raise StateForbids(f"no free port between {PORT_MIN} and {PORT_MAX} on 127.0.0.1")


class PartFolder:
    """A part's folder while it is claimed: `with PartFolder(path, program="postgres") as folder`.

    Raises StateForbids if a living process has claimed it. `program` is the name of the processes that may have been left behind here.
    """

    def __init__(self, path: Path, program: str) -> None:
        self.path = path.absolute()
        self.log_path = self.path / f"{program}.log"
        self._program = program
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except PermissionError as error:
            raise StateForbids(
                f"{error.filename}: user {os.geteuid()} may not write there", hint="run as its owner, or remove the folder with its data"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip()
            os.close(lock)
            raise StateForbids(
                f"{self.path} is in use by process {holder or 'unknown'}", hint="stop that one first, or give this one a folder of its own"
            ) from None
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        self._lock = lock
        self._end_orphans()
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_BYTES_MAX:
            self.log_path.replace(self.log_path.with_suffix(".log.old"))
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def port(self) -> int:
        """The port kept here if it is still free, else a new one, which is kept."""
        file = self.path / "port"
        with suppress(FileNotFoundError, ValueError):
            kept = int(file.read_text())
            if PORT_MIN <= kept < PORT_MAX and bindable(kept):
                return kept
        port = free_port()
        file.write_text(f"{port}\n")
        return port

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of the part's log."""
        with suppress(FileNotFoundError):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def _end_orphans(self) -> None:
        """End the processes that stand in this folder: we hold the lock, so their supervisor is gone."""
        orphans = [process for process in psutil.process_iter(["name"]) if process.info["name"] == self._program and self._inside(process)]
        for process in orphans:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(3)  # SIGQUIT: PostgreSQL ends at once, and repairs itself at the next start
        _, stubborn = psutil.wait_procs(orphans, timeout=ORPHAN_SECONDS)
        for process in stubborn:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(stubborn, timeout=ORPHAN_SECONDS)

    def _inside(self, process: psutil.Process) -> bool:
        """Zombies stand nowhere, and processes of others are not ours to judge."""
        with suppress(psutil.Error):
            return Path(process.cwd()).is_relative_to(self.path.resolve())
        return False
