"""Files that outlive a lost answer (commit.md 7), for lakes in folders.

If the answer of a COMMIT is lost, DuckLake takes it for failed and deletes the Parquet files it wrote, although the catalog may name them.
So each new file gets a second name before COMMIT, a hard link in a folder outside of the lake. Whatever the catalog then names and the lake
has lost is linked back. The links go when the run row has spoken and COMMIT has returned, for DuckLake deletes when it returns; what a crash
leaves here is linked back at the next start and goes after `KEEP_SECONDS`, because another replica may still need it.

    <keep>/<lake>/<run id>/<path below the lake's folder>
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from reactor.domain.runs import RunId
from reactor.errors import Outage, UsageError
from reactor.lake.folders import LakeFolder

KEEP_SECONDS = 3600.0
"""Age of a run's links at which a sweep drops them: longer than any COMMIT, or any replica that sleeps in one, may take."""

CLOCK_SLACK_MS = 2000
"""How far a clock may have been set back within a transaction; links too many do no harm."""

AWAY = frozenset({errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ENOTCONN})
"""What a folder answers that is right, and cannot be written just now."""

_NEW_FILE = re.compile(r"ducklake-([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}(?:-delete)?\.(?:parquet|puffin)")

Named = Callable[[Collection[str]], Collection[str]]
"""Those of the file names that the catalog has in any snapshot. Raises `Outage`."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The links of one run: paths below the lake's folder."""

    folder: Path
    files: tuple[Path, ...]


def keep_of(lake_folder: Path, keep_folder: Path | None = None) -> Keep:
    """The keep of a lake's folder, beside it unless told otherwise. Raises as `Keep`."""
    return Keep(lake_folder, keep_folder or lake_folder.parent / f".{lake_folder.name}.keep")


class Keep:
    """The keep folder of one lake. Raises UsageError if a file of the lake cannot have a second name there, Outage if nothing can be written now."""

    def __init__(self, lake_folder: Path, keep_folder: Path) -> None:
        self._lake, self._folder = lake_folder, keep_folder
        if keep_folder.is_relative_to(lake_folder):
            raise UsageError(f"the keep folder {keep_folder} lies inside the lake's data path", hint="orphan cleaning would see its files: put it outside")
        self._prove()
        self._home = LakeFolder(lake_folder)

    def _prove(self) -> None:
        name = f".reactor-probe-{uuid4()}"  # in containers all have one pid, and one that was killed leaves its files
        probe, link = self._lake / name, self._folder / name
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            probe.touch()
            os.link(probe, link)
        except OSError as error:
            if error.errno in AWAY:
                raise Outage(f"{self._lake} cannot be written: {error.strerror}", hint="make the lake's data path writable again") from error
            raise UsageError(f"files of {self._lake} cannot be kept in {self._folder}: {error.strerror}",
                             hint="keep_path must lie outside of the data path, on the same file system") from error
        finally:
            with suppress(OSError):
                link.unlink(missing_ok=True)
                probe.unlink(missing_ok=True)

    def hold(self, run_id: RunId, tables: Iterable[str], since: float) -> Kept:
        """Link the files that were written into these folders of the lake since then, POSIX seconds. Raises OSError, `Outage`."""
        self._home.must_be_there()
        folder = self._folder / str(run_id)
        places = sorted({self._lake / table for table in tables})
        files = tuple(file.relative_to(self._lake) for place in places for file in self._written(place, since))
        for file in files:
            link = folder / file
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError, FileNotFoundError):  # another replica's file of the same time, whose commit was refused in this moment
                os.link(self._lake / file, link)
        self._home.must_be_there()
        return Kept(folder, files)

    def _written(self, folder: Path, since: float) -> list[Path]:
        """Names begin with their time, so only names are read: 1 ms for 2,000."""
        oldest = int(since * 1000) - CLOCK_SLACK_MS
        with os.scandir(folder) if folder.is_dir() else nullcontext(()) as entries:
            names = [entry.name for entry in entries]
        return [folder / name for name in names if (match := _NEW_FILE.fullmatch(name)) and int(match[1] + match[2], 16) >= oldest]

    def restore(self, kept: Kept, named: Named) -> int:
        """Link back what the catalog names and the lake has lost; how many files that were. Raises `Outage`."""
        self._home.must_be_there()
        lost = {file.name: file for file in kept.files if not (self._lake / file).exists() and (kept.folder / file).exists()}
        wanted = named(lost) if lost else ()
        for name in wanted:
            target = self._lake / lost[name]
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(kept.folder / lost[name], target)
            except FileExistsError:
                continue  # another replica was first
            except OSError as error:
                raise Outage(f"{target} cannot be linked back: {error.strerror}", hint="make the lake's data path writable again") from error
        return len(wanted)

    def drop(self, kept: Kept) -> None:
        """Forget the links of a run."""
        shutil.rmtree(kept.folder, ignore_errors=True)

    def sweep(self, named: Named) -> int:
        """Repair what crashes have left, and drop what is old enough; how many files were linked back. Raises `Outage`."""
        restored = 0
        for folder in sorted(self._folder.iterdir()):
            with suppress(FileNotFoundError):  # its replica lives, and has dropped it in this moment
                restored += self._swept(folder, named) if folder.is_dir() else 0
        return restored

    def _swept(self, folder: Path, named: Named) -> int:
        kept = Kept(folder, tuple(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()))
        restored = self.restore(kept, named)
        if time.time() - folder.stat().st_mtime > KEEP_SECONDS:
            self.drop(kept)
        return restored


class Custody:
    """The new files of one run, from before COMMIT until COMMIT is back and the run row has spoken, in either order.

    `keep` None: the lake is an object store, which keeps versions itself. May be called from two threads, one of which is in COMMIT.
    """

    def __init__(self, keep: Keep | None, named: Named) -> None:
        self._keep, self._named = keep, named
        self._lock = threading.Lock()
        self._kept: Kept | None = None
        self._committing = False
        self._committed: bool | None = None

    def hold(self, run_id: RunId, tables: Iterable[str], since: float) -> None:
        """COMMIT comes next. Raises OSError, `Outage`."""
        self._kept = self._keep.hold(run_id, tables, since) if self._keep else None
        with self._lock:
            self._committing, self._committed = True, None

    def returned(self, *, given_up: bool) -> None:
        """COMMIT is back, and DuckLake has deleted what it deletes. `given_up`: nobody waits for it any more."""
        with self._lock:
            self._committing = False
            left_alone = given_up or self._committed is not None
        if left_alone:
            with suppress(Outage):  # then the next sweep does it
                self._release()

    def settled(self, *, committed: bool) -> None:
        """The run row has spoken. Raises `Outage` while the catalog cannot be asked, or a lost file not be linked back: then call it again."""
        with self._lock:
            self._committed = committed
            waiting = self._committing
        if not waiting:
            self._release()

    def _release(self) -> None:
        kept, keep = self._kept, self._keep
        if kept is None or keep is None:
            return
        if self._committed is not False:
            keep.restore(kept, self._named)
        if self._committed is not None:
            keep.drop(kept)
            self._kept = None
