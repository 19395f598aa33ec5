"""What went wrong, by what the caller does next.

`Retryable`: nothing is wrong with the work; do it again later. `Quarantine`: set this record aside and go on. `Fatal`: stop this script,
lane or process until somebody has changed something. Foreign errors become one of these at the border (lake, state, connectors) and
nowhere else. A class's docstring is its default message; `hint` says what to do.

The first line of a message (`headline`) holds no values of rows, so a log may have it. What stands below it, and in the hint, may show some:
that is for who asked, and for the run's result.
"""

from __future__ import annotations


class ReactorError(Exception):
    """Something failed."""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        self.hint = hint

    @property
    def headline(self) -> str:
        """What a log may hold of it."""
        return headline_of(str(self.args[0]))

    def __str__(self) -> str:
        """The message, and behind it what to do."""
        return f"{self.args[0]}\n  {self.hint}" if self.hint else str(self.args[0])


def headline_of(text: str) -> str:
    """The first line of an error that is kept as text."""
    return text.partition("\n")[0]


class Retryable(ReactorError):
    """The work is sound; try again."""


class Outage(Retryable):
    """A part that Reactor needs does not answer. Never counted in `retry`."""


class Conflict(Retryable):
    """Another writer was first. Never counted in `retry`."""


class RunFailed(Retryable):
    """The script's own work failed (its SQL raised, its program exited other than 0). Counted in `retry`."""


class Quarantine(ReactorError):
    """This record cannot become a row."""

    def __init__(self, reason: str, *, column: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.column = reason, column


class Fatal(ReactorError):
    """It cannot go on without a change."""


class RunBlocked(Fatal):
    """The script cannot run as it is written (a missing column, a table dropped by hand): no retry helps."""


class LakeHalted(Fatal):
    """The lake published rows without its commit trigger: nothing may be written until it is repaired."""


class UsageError(Fatal):
    """The command, the settings or a script are wrong: exit code 2."""


class StateForbids(Fatal):
    """The input is right, but the present state forbids it: exit code 1."""
