"""Progress on stderr: a bar for what is being measured. Numbers are for the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Screen:
    """`with Screen() as screen`: `step` shows a bar while it lasts."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(file=sys.stderr))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, what: str, numbers: Mapping[str, float]) -> None:
        """A result, as soon as it is there."""
        self._progress.console.print(f"{what}: " + ", ".join(f"{name} {number:,.1f}" for name, number in numbers.items()))

    def fail(self, what: str, error: Exception) -> None:
        """Why there is no result."""
        self._progress.console.print(f"[red]{what} failed:[/red] {type(error).__name__}: {escape(str(error))}")

    @contextmanager
    def step(self, what: str, total: float) -> Iterator[Callable[[float], None]]:
        """`advance(by)` while it lasts; whole at its end."""
        task = self._progress.add_task(what, total=total)

        def advance(by: float) -> None:
            self._progress.advance(task, by)

        yield advance
        self._progress.update(task, completed=total)
