"""What a keyword is: one class that reads its line, finishes it with the project's names, and puts it into the header (AN-25)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

from reactor.domain.annotations.line import Line
from reactor.domain.assets import ProjectNames
from reactor.domain.diagnostics import Range
from reactor.domain.scripts import Header

V = TypeVar("V")


class Keyword(ABC, Generic[V]):
    """A word that begins an annotation. An instance has no state; a line that it reads becomes a value of type `V`."""

    word: ClassVar[str]
    form: ClassVar[str]
    """Shown where a line is malformed."""
    many: ClassVar[bool] = False
    """Lines add up (else the first one counts)."""
    refuses: ClassVar[bool] = False
    """It decides what is written or when: a malformed line refuses the script (AN-2)."""
    guessed: ClassVar[bool] = True
    """A word close to it is reported if the rest of the line has this form."""

    @abstractmethod
    def parse(self, line: Line) -> V:
        """Read the words; report what is wrong to `line`. It sees this line only."""

    def resolve(self, value: V, names: ProjectNames, line: Line) -> V:
        """The value with the project's names filled in; report unknown ones to `line`. Called for a line that is not malformed."""
        del names, line
        return value

    def identity(self, value: V) -> Hashable:
        """Two lines of one identity are a repeat (`many` only)."""
        return repr(value)

    def compile(self, header: Header, value: V) -> Header:
        """The header with this line in force."""
        return replace(header, others=(*header.others, (self.word, value)))


@dataclass(frozen=True, slots=True)
class Annotation:
    """A line in force: its keyword, its value, and the line, which knows the place of every part."""

    keyword: str
    value: object
    line: Line

    def place(self, part: str = "keyword") -> Range:
        """Where a part of the line stands; the keyword if the line does not name it."""
        return self.line.place(part)
