"""`reactor.ports.Lake` on DuckDB and DuckLake: the door of this room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from uuid import UUID

from reactor.domain.assets import LakeTable
from reactor.domain.scripts import Script
from reactor.errors import Conflict, Outage, RunBlocked, RunFailed
from reactor.lake.asking import first_row
from reactor.lake.binding import example_partition
from reactor.lake.keep import Custody, keep_of
from reactor.lake.materialize import StagedRun
from reactor.lake.session import Instance, InstanceSettings, LakeSettings
from reactor.lake.stage import stage
from reactor.lake.tables import any_file, file_names, look
from reactor.ports import SliceInput, StageOrder


class DuckLake:
    """All lakes of an installation, in one DuckDB instance, and one more for each run that makes or drops a table. Every method blocks; all may be called from any thread.

    `keep_path`: where links to new files are kept until their commit is known (folder lakes; default: beside each lake's folder).
    `skip_unchanged`: whether a replace by equal content writes nothing. `run_seconds_max`: how long DuckDB may work for one run. Raises
    `UsageError`, `Outage`.
    """

    def __init__(
        self, *, postgres_url: str, lakes: Mapping[str, LakeSettings], default_lake: str = "main", keep_path: Path | None = None,
        memory_limit_bytes: int | None = None, threads: int | None = None, temp_path: Path | None = None, skip_unchanged: bool = True,
        run_seconds_max: float | None = None,
    ) -> None:  # fmt: skip
        self._settings = InstanceSettings(postgres_url, dict(lakes), default_lake, memory_limit_bytes, threads, temp_path)
        self._skip_unchanged, self._run_seconds_max = skip_unchanged, run_seconds_max
        self._swapping = threading.Lock()
        self._solitary: list[Instance] = []
        self._instance = Instance(self._settings)
        try:
            folders = {lake: settings.folder for lake, settings in lakes.items() if settings.folder}
            self._refuse_lost(folders)
            self._keeps = {lake: keep_of(folder, keep_path and keep_path / lake) for lake, folder in folders.items()}
            self.sweep()
        except BaseException:
            self._instance.retire()
            raise

    def stage(self, order: StageOrder) -> StagedRun:
        """See `reactor.ports.Lake`."""
        instance = self._sound()
        lake = LakeTable.parse(order.script.managed.asset).lake if order.script.managed else self._settings.default_lake
        instance.reach(f"lake_{lake}")
        custody = Custody(self._keeps.get(lake), partial(self._named, f"lake_{lake}"))
        staging = partial(stage, order=order, custody=custody, skip_unchanged=self._skip_unchanged, limit_seconds=self._run_seconds_max)
        return staging(instance, alone=False) or self._alone(instance, partial(staging, alone=True))

    def _alone(self, like: Instance, staging: Callable[[Instance], StagedRun | None]) -> StagedRun:
        """Stage in an instance of its own, which is given up when that of the others is."""
        instance = Instance(self._settings, like.folders)
        with self._swapping:
            self._solitary = [one for one in (*self._solitary, instance) if not one.retired]
        try:
            staged = staging(instance)
        except BaseException:
            instance.retire()
            raise
        if staged is not None and not like.retired:
            return staged
        if staged is not None:
            staged.close()
        raise Outage("the lakes were attached anew", hint="the rows are staged again")

    def _retire(self, shared: Instance) -> None:
        """Give it up, and those that runs have of their own."""
        with self._swapping:
            solitary, self._solitary = self._solitary, []
        for instance in (shared, *solitary):
            instance.retire()

    def ensure_table(self, script: Script) -> UUID | None:
        """See `reactor.ports.Lake`. A script that reads `batch` keeps a position, which names its table by the uuid: it is made first."""
        found = self._uuid(script)
        if found is not None or not script.body.reads_batch or script.managed is None:
            return found
        try:
            staged = self.stage(StageOrder(script, [SliceInput(example_partition(script))]))
        except (RunBlocked, RunFailed):
            return None  # its first run says what is wrong
        try:
            staged.make_table()
        except (Conflict, RunBlocked):
            pass  # another replica was first
        finally:
            staged.close()
        return self._uuid(script)

    def _uuid(self, script: Script) -> UUID | None:
        if script.managed is None:
            return None
        with self._sound().lent("looking at the table") as cursor:
            existing = look(cursor, LakeTable.parse(script.managed.asset))
        return existing.uuid if existing else None

    def sweep(self) -> int:
        """Look after the files of runs that have ended without a word (at start, and in `maintain`); how many were linked back."""
        return sum(keep.sweep(partial(self._named, f"lake_{lake}")) for lake, keep in self._keeps.items())

    def rebuild(self) -> None:
        """See `reactor.ports.Lake`. What was staged before is lost (`stale`)."""
        with self._swapping:
            old, self._instance = self._instance, Instance(self._settings, self._instance.folders)
        self._retire(old)

    def away(self) -> Mapping[str, str]:
        """See `reactor.ports.Lake`."""
        return {lake: said for lake, folder in self._instance.folders.items() if (said := folder.trouble)}

    def close(self) -> None:
        """See `reactor.ports.Lake`."""
        self._retire(self._instance)

    def _refuse_lost(self, folders: Mapping[str, Path]) -> None:
        """An empty folder whose lake has files is a mount that is away. Raises `Outage`."""
        for lake, folder in folders.items():
            if any(folder.iterdir()):
                continue
            with self._sound().lent("looking for files of the lake") as cursor:
                found = first_row(cursor, any_file(f"lake_{lake}"))
            if found:
                raise Outage(f"the lake's folder {folder} is empty, and lake `{lake}` has files", hint="is it a mount that is away? Mount it, or put the files back")

    def _sound(self) -> Instance:
        """The instance, a new one if an INTERNAL error has broken it."""
        if self._instance.broken:
            with self._swapping:
                old = self._instance
                if not old.broken:  # somebody else was first
                    return old
                self._instance = Instance(self._settings, old.folders)
            old.retire()
        return self._instance

    def _named(self, catalog: str, names: Collection[str]) -> Collection[str]:
        with self._sound().lent("asking for files of the lake") as cursor:
            return {str(row[0]) for row in cursor.execute(file_names(catalog, names)).fetchall()}
