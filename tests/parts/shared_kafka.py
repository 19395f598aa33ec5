"""One Kafka for all workers of a test run, kept by a process of its own, so that a worker that crashes takes it from nobody.

In its folder `users` is a lock that all users have in common, and lose with their life. Who can have it alone knows that nobody uses Kafka: a
user then starts a keeper (this module as a program), and a keeper ends. At the `door` one after the other starts and joins. `address` is there
while a keeper keeps.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.parts import PartMissing
from tests.parts.kafka import kafka
from tests.parts.waiting import wait_until

EXIT_MISSING = 3
START_SECONDS = 240.0
ROOT = Path(__file__).parents[2]


@contextmanager
def shared_kafka(folder: Path) -> Iterator[str]:
    """The bootstrap servers of the Kafka that is kept in `folder`. Raises `PartMissing`."""
    folder.mkdir(parents=True, exist_ok=True)
    address = folder / "address"
    with (folder / "users").open("w") as users:
        with _behind_the_door(folder):
            joined = False
            while not joined:
                if _has_alone(users):
                    address.unlink(missing_ok=True)
                    _start_keeper(folder)
                fcntl.flock(users, fcntl.LOCK_SH)
                joined = address.exists()  # else its keeper was ending
        yield address.read_text()


def keep(folder: Path) -> int:
    """Keep a Kafka until nobody uses it; the exit code."""
    address, written = folder / "address", folder / "address.new"
    try:
        with kafka(folder / f"of-{os.getpid()}") as bootstrap_servers, (folder / "users").open("w") as users:
            written.write_text(bootstrap_servers)
            written.rename(address)
            with _behind_the_door(folder):
                pass  # who has started it is a user now
            fcntl.flock(users, fcntl.LOCK_EX)
            address.unlink()
    except PartMissing as missing:
        print(missing)  # noqa: T201 - to the log
        return EXIT_MISSING
    return 0


def _start_keeper(folder: Path) -> None:
    log, exit_codes = folder / "keeper.log", list[int]()
    output = [(os.POSIX_SPAWN_OPEN, number, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for number in (1, 2)]
    command = [sys.executable, "-m", __name__, str(folder)]
    pid = os.posix_spawn(sys.executable, command, {**os.environ, "PYTHONPATH": str(ROOT)}, file_actions=output, setsid=True)

    def there_or_ended() -> bool:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            exit_codes.append(os.waitstatus_to_exitcode(status))
        return bool(exit_codes) or (folder / "address").exists()

    wait_until(there_or_ended, "Kafka answers", START_SECONDS)
    if exit_codes == [EXIT_MISSING]:
        raise PartMissing(log.read_text().strip())
    if exit_codes:
        raise RuntimeError(f"Kafka is not kept:\n{log.read_text()[-3000:]}")


def _has_alone(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _behind_the_door(folder: Path) -> Iterator[None]:
    with (folder / "door").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1])))
