"""Whether somebody else's embedded parts are running, and where: for `serve` and the verbs, which never start any."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


def port_in(folder: Path) -> int | None:
    """The port of the part whose folder this is, while a living process holds it; None: nobody does."""
    with suppress(OSError, ValueError):
        lock = os.open(folder / "lock", os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int((folder / "port").read_text())
        finally:
            os.close(lock)
    return None


def state_url(folder: Path) -> str | None:
    """The URL of the embedded PostgreSQL of a project's `.reactor`."""
    port = port_in(folder / "postgres")
    return None if port is None else f"postgresql://reactor@127.0.0.1:{port}/reactor"


def bootstrap_servers(folder: Path) -> str | None:
    """Where the embedded broker of a project's `.reactor` listens."""
    port = port_in(folder / "broker")
    return None if port is None else f"127.0.0.1:{port}"
