"""What `check` says about a file: where, how bad, what, and what to write instead.

Lines and columns count from 1 and in characters; an end is the place behind the last character. A byte order mark is no character.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from reactor.errors import UsageError

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """A stretch of text in one file."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def on_line(cls, line: int, column: int, length: int) -> Range:
        """`length` characters of one line."""
        return cls(line, column, line, column + length)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `message` holds the suggestion too; `refuses`: the script is not loaded while this stands (an error only)."""

    range: Range
    severity: Severity
    code: str
    message: str
    suggestion: str | None = None
    refuses: bool = False
    file: str = ""

    def of(self, file: str) -> Diagnostic:
        """The same finding, with the file it is about."""
        return replace(self, file=file)

    def __str__(self) -> str:
        """As an editor's error list reads it."""
        return f"{self.file}:{self.range.line}:{self.range.column}: {self.severity}: {self.message}"


def finding(
    place: Range, severity: Severity, code: str, message: str, suggestion: str | None = None, *, refuses: bool = False,
) -> Diagnostic:
    """A diagnostic whose message names the suggestion."""
    if suggestion is not None:
        message = f"{message}; did you mean `{suggestion}`?"
    return Diagnostic(place, severity, code, message, suggestion, refuses)


class Malformed(UsageError):
    """A value that its reader does not take.

    `offset` and `length` say which characters of the value are wrong (length None: to its end).
    """

    def __init__(
        self, message: str, suggestion: str | None = None, *, offset: int = 0, length: int | None = None, code: str = "bad-value",
        refuses: bool = False,
    ) -> None:
        super().__init__(message)
        self.message, self.suggestion, self.offset, self.length, self.code, self.refuses = message, suggestion, offset, length, code, refuses
