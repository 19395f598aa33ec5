"""A folder that refuses writes for a while."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.parts import PartMissing


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """By its permissions; for root, whom no permission binds, by a mount upon itself. Raises PartMissing: we are root and may not mount."""
    if os.geteuid() != 0:
        _permit(folder, 0o555)
        yield
        _permit(folder, 0o755)
        return
    _mount("mount", "--bind", str(folder), str(folder))
    try:
        _mount("mount", "-o", "remount,bind,ro", str(folder))
        yield
    finally:
        _mount("umount", "--lazy", str(folder))


def _permit(folder: Path, mode: int) -> None:
    for path in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):
            if path.is_dir():
                path.chmod(mode)


def _mount(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise PartMissing(f"a folder that root cannot write needs the right to mount: {done.stderr.strip()}")
