"""Errors at the border of the command line: which exit code, and how they are told."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reactor.errors import Outage, ReactorError, UsageError

DONE, FAILED, USAGE, UNREACHABLE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes: done; failed or forbidden by the state; usage, settings, script; dependency unreachable; timeout or cancelled; Ctrl-C."""


class TimedOut(BaseException):
    """The time of `--timeout` is over. Not an `Exception`: nobody on the way may take it for a failure of the work."""


class Interrupted(BaseException):
    """Ctrl-C, past typer, which would end without a word."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it is told. `slug`: of the problem's type; `errors`: single causes as (field, message, suggestion)."""

    exit_code: int
    slug: str
    detail: str
    hint: str = ""
    errors: Sequence[Mapping[str, str | None]] = field(default_factory=tuple)

    @property
    def problem(self) -> str:
        """RFC 9457, one line."""
        told: dict[str, object] = {"type": f"urn:reactor:problem:{self.slug}", "title": TITLES[self.slug], "detail": self.detail}
        told |= {"hint": self.hint} if self.hint else {}
        return json.dumps({**told, "exit_code": self.exit_code, "errors": list(self.errors)})

    @property
    def text(self) -> str:
        """The cause, and below it the next step."""
        head = self.detail if self.slug == "settings" else f"error: {self.detail}"
        return f"{head}\n  {self.hint}" if self.hint else head


TITLES: Mapping[str, str] = {
    "usage": "The command cannot be understood", "settings": "The settings are wrong", "unreachable": "A dependency does not answer",
    "timeout": "The time is over", "interrupted": "Interrupted", "failed": "It failed, or the state forbids it", "internal": "Reactor is at fault",
}


_TOLD: Sequence[tuple[type[BaseException] | tuple[type[BaseException], ...], int, str]] = (
    ((KeyboardInterrupt, Interrupted), INTERRUPTED, "interrupted"), ((TimedOut, asyncio.CancelledError), STOPPED, "timeout"),
    (UsageError, USAGE, "usage"), (Outage, UNREACHABLE, "unreachable"), (ReactorError, FAILED, "failed"),
)  # fmt: skip
"""The first that fits; an error may have a `slug` of its own."""


def failure_of(error: BaseException) -> Failure:
    """How an error is told; never raises."""
    cause = root_of(error)
    if (said := getattr(cause, "format_message", None)) is not None:  # typer's errors share no public class
        return Failure(USAGE, "usage", str(said()), "--help shows how it is written")
    for classes, exit_code, slug in _TOLD:
        if isinstance(cause, classes):
            detail = str(next(iter(cause.args), "")) or slug
            errors = [{"field": p.name or p.place, "message": str(p), "suggestion": p.suggestion} for p in getattr(cause, "problems", ())]
            return Failure(exit_code, getattr(cause, "slug", slug), detail, getattr(cause, "hint", ""), errors)
    trace = "".join(traceback.format_exception(cause)).rstrip()
    return Failure(FAILED, "internal", f"{type(cause).__name__}: {cause}\n{trace}", "this is a mistake in Reactor: please report it with these lines")


def root_of(error: BaseException) -> BaseException:
    """What has really happened: the first of a group, and the interrupt behind DuckDB's `Query interrupted`."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, KeyboardInterrupt):
        return error.__cause__
    return error
