"""Where an instance spills what does not fit into its memory.

DuckDB names its temporary files alike in every instance, so two that share a folder, in one process or in two, read each other's rows. Each
gets a folder of its own, which DuckDB makes when it spills first and removes when it is closed. What a crash has left goes at the next start.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil


def spill_folder(home: Path) -> Path:
    """A folder that no other instance has, not made yet: DuckDB does not make `home`.

    Containers may share a host's name and number their processes alike, so chance has a part in the name.
    """
    _drop_what_crashes_left(home)
    return home / f".tmp-{os.getpid()}-{secrets.token_hex(4)}-{socket.gethostname()}"


@cache
def _drop_what_crashes_left(home: Path) -> None:
    """Once a process: folders of processes of this machine that are gone. One with our own number cannot be ours yet."""
    ours = re.compile(rf"\.tmp-(\d+)-[0-9a-f]+-{re.escape(socket.gethostname())}")
    with suppress(OSError):  # a folder that nobody may list has nothing of ours
        for folder in home.iterdir():
            found = ours.fullmatch(folder.name)
            if found and (int(found[1]) == os.getpid() or not psutil.pid_exists(int(found[1]))):
                shutil.rmtree(folder, ignore_errors=True)
