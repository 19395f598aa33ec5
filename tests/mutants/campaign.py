"""Runs mutants, each in a process of its own, some at a time."""

from __future__ import annotations

import io
import os
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import Phase, settings

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
PROCESSES = max(2, os.cpu_count() or 1)
PRELOADED = ["tests.mutants.campaign", "connectors.kafka.source", "reactor.wiring", "hypothesis.stateful", "tests.harness"]
"""What nearly every process needs, imported once."""
OPTIONS = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
"""The last for what is imported already."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant. `said`: what pytest printed."""

    name: str
    outcome: Literal["killed", "survived", "error"]
    said: str


class Breaking:
    """A pytest plugin: the rule is broken as long as tests run. `failed`: node ids of tests that failed in their own bodies."""

    def __init__(self, mutant: Mutant, postgres_url: str) -> None:
        self.mutant, self.patch, self.profile = mutant, pytest.MonkeyPatch(), settings.get_current_profile_name()
        self.failed: list[str] = []
        self.patch.setenv("REACTOR_TEST_POSTGRES_URL", postgres_url)
        self.patch.chdir(ROOT)

    def pytest_configure(self) -> None:
        settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None, derandomize=True, print_blob=False)
        settings.load_profile("mutants")

    def pytest_runtestloop(self) -> None:
        self.mutant.install(self.patch)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.when == "call":
            self.failed.append(report.nodeid)

    def pytest_unconfigure(self) -> None:
        self.patch.undo()
        settings.load_profile(self.profile)


def fate_of(name: str, postgres_url: str, folder: Path) -> Fate:
    """Break one rule in this process, and run its killer, whose files go to `folder`.

    A folder of its own: processes that share pytest's sweep each other's old ones at their ends, and one that finds a file gone
    warns, which is an error here.
    """
    breaking, said = Breaking(MUTANTS[name], postgres_url), io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            code = pytest.main([*OPTIONS, f"--basetemp={folder / name}", MUTANTS[name].killer], plugins=[breaking])
        except (Warning, ExceptionGroup):  # of what a broken rule has left behind: the affair of this mutant alone
            traceback.print_exc()
            code = pytest.ExitCode.INTERNAL_ERROR
    if breaking.failed:
        return Fate(name, "killed", said.getvalue())
    passed = code == pytest.ExitCode.OK and " passed" in said.getvalue() and "skipped" not in said.getvalue()
    return Fate(name, "survived" if passed else "error", said.getvalue())


def fates(names: Iterable[str], postgres_url: str, folder: Path) -> Iterator[Fate]:
    """Of all these, as they come. `folder` exists, and gets a folder for each."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with ProcessPoolExecutor(PROCESSES, mp_context=context, max_tasks_per_child=1) as pool:
        running: list[Future[Fate]] = [pool.submit(fate_of, name, postgres_url, folder) for name in names]
        for done in as_completed(running):
            yield done.result()
