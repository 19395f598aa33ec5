"""A file system of a few megabytes that can become full, or read-only."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.parts import PartMissing


class SmallDisk:
    """Mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remount(self, options: str) -> None:
        """`size=64m`, `ro`, `rw`."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True, capture_output=True)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[SmallDisk]:
    """A tmpfs. Raises PartMissing where we may not mount one."""
    folder.mkdir(parents=True)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PartMissing(f"a small disk needs root and the right to mount (we are user {os.geteuid()})") from error
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)
