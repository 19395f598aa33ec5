"""Runs a program, and ends it with whoever started it: `python -I -S guard.py COMMAND...`

A process between the service and the program, the leader of the program's process group. Standard input is a pipe that the service holds
open: where it ends the service is gone, however it went, and the whole group is killed. Otherwise it ends as the program does, by the same exit
code or signal, and leaves whoever is still in the group to the service. Standard library only; SIGTERM is for the program.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import NoReturn

CANNOT = 127
"""The exit code of a program that cannot be started, as shells have it."""


def _end_with_the_service() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


def _become(command: list[str]) -> NoReturn:
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    try:
        os.execvp(command[0], command)  # noqa: S606  (that is the purpose; the command is the caller's own)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201  (a program's last word)
        os._exit(CANNOT)


def main(*command: str) -> NoReturn:
    """Never returns: it ends as the command does."""
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, signal.SIG_IGN)
    program = os.fork()
    if program == 0:
        _become(list(command))
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    if code < 0:
        if -code not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
