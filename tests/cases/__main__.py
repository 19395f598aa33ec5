"""Run all cases of a folder: `python -m tests.cases [FOLDER]`. Exits 0, 1 if a case failed, 2 if the folder cannot be read."""

import asyncio
import importlib
import inspect
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.progress import Progress

from reactor.errors import UsageError
from tests.cases import Case
from tests.cases.files import BadCases, Kind, Pending, read_kinds, read_pending
from tests.cases.together import raised
from tests.parts import PartMissing, in_ci

RUNNERS = "tests.cases.runners"


@dataclass(slots=True)
class Report:
    """What became of every case."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)

    def skip(self, case: Case, reason: str) -> None:
        """Count it under its reason."""
        self.skipped.setdefault(reason, []).append(str(case["id"]))

    def record(self, case: Case, difference: str | None) -> None:
        """None: it passed."""
        if difference is None:
            self.passed += 1
        else:
            self.failed.append(f"{case['id']}: {' '.join(difference.split())}")

    def lines(self) -> list[str]:
        """What is printed: the skipped by reason, the failed, the counts."""
        skipped = [f"skipped ({reason}): {' '.join(ids)}" for reason, ids in self.skipped.items()]
        count = sum(len(ids) for ids in self.skipped.values())
        return [*skipped, *self.failed, f"cases: passed={self.passed} failed={len(self.failed)} skipped={count}"]


def run_kind(kind: Kind, pending: Sequence[Pending], runners: str, report: Report, done: Callable[[], None]) -> None:
    """Run the cases of one kind that do not wait; call `done` after each."""
    module = f"{runners}.{kind.name}"
    has_runner = find_spec(module) is not None
    ready: list[Case] = []
    for case in kind.cases:
        row = next((rule.row for rule in pending if rule.holds(kind.name, case)), None)
        if row is not None:
            report.skip(case, f"waits for {row}")
        elif not has_runner:
            report.skip(case, f"no runner for {kind.name}")
        else:
            ready.append(case)
            continue
        done()
    if not ready:
        return
    counted = report.passed + len(report.failed)
    try:
        run_ready(importlib.import_module(module), kind.setup, ready, report, done)
    except Exception as error:  # noqa: BLE001  (the other kinds still run)
        told = report.passed + len(report.failed) - counted
        for case in ready[told:] or [{"id": f"{kind.name}, afterwards"}]:
            report.record(case, raised(error))


def run_ready(module: ModuleType, setup: Case, cases: Sequence[Case], report: Report, done: Callable[[], None]) -> None:
    """Run cases in the environment of their runner."""
    with ExitStack() as stack:
        loop = stack.enter_context(asyncio.Runner())
        try:
            arguments = [stack.enter_context(module.environment())] if hasattr(module, "environment") else []
        except (PartMissing, UsageError) as missing:
            for case in cases:
                if in_ci():
                    report.record(case, f"missing in CI: {missing}")
                else:
                    report.skip(case, str(missing).splitlines()[0])
                done()
            return
        if hasattr(module, "run_together"):
            differences = run_together(module, loop, cases, setup, *arguments)
            for case in cases:
                report.record(case, differences[str(case["id"])])
                done()
            return
        for case in cases:
            report.record(case, run_case(module, loop, case, setup, *arguments))
            done()


def run_together(module: ModuleType, loop: asyncio.Runner, cases: Sequence[Case], *arguments: object) -> Mapping[str, str | None]:
    """What is wrong with each result by id, or None. Those that get no answer together are run in halves, in the end each alone."""
    found: dict[str, str | None] = {}
    try:
        found |= loop.run(module.run_together(cases, *arguments))
    except Exception as error:  # noqa: BLE001  (no case has an answer then)
        if len(cases) == 1:
            return {str(cases[0]["id"]): raised(error)}
    left = [case for case in cases if str(case["id"]) not in found]
    half = -(-len(left) // 2)
    for part in filter(None, (left[:half], left[half:])):
        found |= run_together(module, loop, part, *arguments)
    return found


def run_case(module: ModuleType, loop: asyncio.Runner, *arguments: object) -> str | None:
    """What is wrong with the result, or None."""
    try:
        result = module.run(*arguments)
        difference = loop.run(result) if inspect.iscoroutine(result) else result
    except Exception as error:  # noqa: BLE001  (whatever a runner raises is the failure of this case alone)
        return raised(error)
    return None if difference is None else str(difference)


def run_folder(folder: Path, pending: Sequence[Pending], runners: str = RUNNERS) -> Report:
    """Run every case of a folder under a progress bar on stderr."""
    kinds = read_kinds(folder)
    report = Report()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("cases", total=sum(len(kind.cases) for kind in kinds))
        for kind in kinds:
            progress.update(task, description=kind.name)
            run_kind(kind, pending, runners, report, lambda: progress.advance(task))
    return report


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    logging.getLogger().addHandler(logging.NullHandler())  # what a killed product says on its way is not for the reader of the report
    try:
        report = run_folder(folder, read_pending())
    except BadCases as error:
        print(error, file=sys.stderr)  # noqa: T201  (a program's answer)
        return 2
    print("\n".join(report.lines()))  # noqa: T201
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
