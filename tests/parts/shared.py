"""One part for all workers of a test run."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def shared(folder: Path, part: Callable[[Path], AbstractContextManager[str]]) -> Iterator[str]:
    """The address of the part that all workers find by `folder`: who finds it unused starts it, and ends it when nobody else uses it any more.

    Users hold a lock in common, which ends with their process at the latest. Who comes while the part is being ended waits at the door.
    """
    folder.mkdir(parents=True, exist_ok=True)
    address = folder / "address"
    with (folder / "users").open("w") as users, ExitStack() as started:
        with _behind(folder / "door"):
            ours = _unused(users)
            if ours:
                address.write_text(started.enter_context(part(folder / f"of-{os.getpid()}")))
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield address.read_text()
        finally:
            if ours:
                with _behind(folder / "door"):
                    fcntl.flock(users, fcntl.LOCK_EX)
                    started.close()


def _unused(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _behind(door: Path) -> Iterator[None]:
    with door.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
