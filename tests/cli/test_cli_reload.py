"""The reader of a project that changes: what it takes over, what it refuses, and that it goes on looking."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from reactor.cli import reload
from reactor.cli.reload import Reloader
from reactor.project import open_project
from reactor.runtime.service import Service
from tests.cli.conftest import DAILY, NUMBERS, WAITING, project_at
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio


class Taken:
    """What a service is told: the scripts of each graph."""

    def __init__(self) -> None:
        self.graphs: list[set[str]] = []

    async def reload(self, scripts: list[object], _producers: object) -> None:
        self.graphs.append({script.path for script in scripts})  # type: ignore[attr-defined]


def reloader(folder: Path, tags: tuple[str, ...] = ()) -> Reloader:
    read = partial(open_project, folder, flags={}, environ={})
    return Reloader(read(), tags, read)


@asynccontextmanager
async def at_work(folder: Path, *, watch: bool = False) -> AsyncIterator[tuple[Reloader, Taken]]:
    asked, taken = reloader(folder), Taken()
    tasks = [asyncio.create_task(asked.run(cast("Service", taken)))]
    if watch:
        tasks.append(asyncio.create_task(asked.watch()))
    yield asked, taken
    for task in tasks:
        assert not task.done() or task.result() is None
        task.cancel()
    await asyncio.wait(tasks)


async def taken_over(taken: Taken, scripts: set[str]) -> None:
    async def so() -> bool:
        return taken.graphs[-1:] == [scripts]

    await until(so, f"{scripts} run, now {taken.graphs}", 60.0)


def words(caplog: pytest.LogCaptureFixture) -> set[str]:
    """What the log is about."""
    return {getattr(record, "event", "log") for record in caplog.records}


async def test_a_signal_reloads_even_if_nothing_has_changed(tmp_path: Path) -> None:
    async with at_work(project_at(tmp_path / "p", None, {"a.sql": NUMBERS})) as (asked, taken):
        asked.ask(by_signal=True)
        await taken_over(taken, {"a.sql"})


async def test_an_error_anywhere_refuses_the_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = project_at(tmp_path / "p", None, {"a.sql": NUMBERS})
    async with at_work(folder) as (asked, taken):
        (folder / "b.sql").write_text(DAILY)
        (folder / "c.sql").write_text(NUMBERS.replace("SELECT", "SELEC"))
        asked.ask(by_signal=True)

        async def said() -> bool:
            return "reload_refused" in words(caplog) and "c.sql:2:1" in caplog.text

        await until(said, "it is refused", 60.0)
        assert taken.graphs == []
        (folder / "c.sql").write_text(WAITING)  # known, not active yet: left out, as at the start
        asked.ask(by_signal=True)
        await taken_over(taken, {"a.sql", "b.sql"})


async def test_settings_stay_those_of_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = project_at(tmp_path / "p", None, {"a.sql": NUMBERS})
    async with at_work(folder) as (asked, taken):
        project_at(folder, None, {"b.sql": DAILY}, ["[debounce]", "quiet_seconds = 7"])
        asked.ask(by_signal=True)
        await taken_over(taken, {"a.sql", "b.sql"})
        assert asked.opened.project.settings.debounce.quiet_seconds != 7
        assert "settings_changed" in words(caplog)


async def test_files_that_come_change_and_go_in_folders_that_come_and_go_are_noticed(tmp_path: Path) -> None:
    folder = project_at(tmp_path / "p", None, {"a.sql": NUMBERS})
    async with at_work(folder, watch=True) as (_, taken):
        (folder / "notes.txt").write_text("no script")
        (folder / "b.sql").write_text(DAILY)
        await taken_over(taken, {"a.sql", "b.sql"})
        (folder / "b.sql").rename(folder / "c.sql")
        await taken_over(taken, {"a.sql", "c.sql"})
        (folder / "new/deep").mkdir(parents=True)
        (folder / "c.sql").rename(folder / "new/deep/d.sql")
        await taken_over(taken, {"a.sql", "new/deep/d.sql"})
        (folder / "new/deep/d.sql").unlink()
        (folder / "new/deep").rmdir()
        await taken_over(taken, {"a.sql"})


async def test_a_folder_that_is_gone_for_a_while_is_watched_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reload, "WATCH_AGAIN_SECONDS", 0.1)
    folder = project_at(tmp_path / "p", None, {"a.sql": NUMBERS})

    async def said() -> bool:
        return "watch_failed" in words(caplog)

    async with at_work(folder, watch=True) as (_, taken):
        away = folder.rename(tmp_path / "away")
        await until(said, "it is said that nothing is watched", 60.0)
        (away / "b.sql").write_text(DAILY)
        away.rename(folder)
        await taken_over(taken, {"a.sql", "b.sql"})
