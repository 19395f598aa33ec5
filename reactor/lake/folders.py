"""A lake's folder may go away, as a mount does, and come back.

DuckLake makes every folder that it does not find. What it writes while a mount is away then lies below the mount point, and nobody finds it
once the mount is back, though the catalog names it. So the folder is known by its inode from the first ATTACH on, and looked at before it is
read, before anything is written, and again before COMMIT.
"""

from __future__ import annotations

from pathlib import Path

from reactor.errors import Outage


class LakeFolder:
    """The folder as it is now is the one that is meant. Raises `OSError` if it is not there."""

    def __init__(self, path: Path) -> None:
        self._path, self._inode = path, path.stat().st_ino

    @property
    def trouble(self) -> str:
        """Why its files cannot be reached now; empty: they can."""
        try:
            found = self._path.stat().st_ino
        except OSError as error:
            return f"the lake's folder {self._path} is away: {error.strerror}"
        return "" if found == self._inode else f"the lake's folder {self._path} is away: another one is in its place"

    def must_be_there(self) -> None:
        """Raises `Outage`."""
        if said := self.trouble:
            raise Outage(said, hint="mount it again, or put it back: nothing is lost, work goes on then. If another folder is meant, restart")
