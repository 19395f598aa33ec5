"""A script while it is judged: its header and body as read, before anything is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from reactor.domain.annotations import HeaderReading
from reactor.domain.assets import ProjectNames
from reactor.domain.bodies import BodyReading
from reactor.domain.diagnostics import Diagnostic, Range, finding
from reactor.domain.scripts import Body, Edge, Header, Language, ScriptPath

OBJECT_KINDS = ("s3", "file")
"""Edges that bring objects."""
SILENT_KINDS = ("asset", "schedule")
"""Edges that bring no rows of their own; all others feed `batch`."""


@dataclass(frozen=True)
class Draft:
    """One file with annotations. `files`: every file of the project, by path. `undecodable`: see `check_project`."""

    path: ScriptPath
    language: Language
    text: str
    names: ProjectNames
    reading: HeaderReading
    body: BodyReading | None
    files: Mapping[str, bytes]
    undecodable: Callable[[str], str | None]

    @property
    def header(self) -> Header:
        """The annotations that the lines alone allow."""
        return self.reading.header

    @property
    def sql(self) -> Body:
        """What the body says; empty for programs."""
        return self.body.body if self.body else Body()

    @cached_property
    def derived(self) -> tuple[Edge, ...]:
        """Edges of the body (DP-4): what it reads and does not write, unless muted or named by an `on` line."""
        if not self.header.pipeline or "all" in self.header.mute:
            return ()
        named = {edge.uri for edge in self.header.edges} | set(self.header.mute)
        return tuple(Edge(_kind(uri), uri, derived=True) for uri in self.sql.reads if uri not in named)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All that fires it."""
        return (*self.header.edges, *self.derived)

    def kinds(self, *kinds: str) -> bool:
        """Whether an input is of one of these kinds."""
        return any(edge.kind in kinds for edge in self.edges)

    def has(self, keyword: str) -> bool:
        """Whether such a line is written, well formed or not: a malformed one is told already."""
        return self.reading.first(keyword) is not None or keyword in self.reading.malformed

    def place(self, keyword: str, part: str = "keyword") -> Range:
        """Where a part of the first line of a keyword stands."""
        found = self.reading.first(keyword)
        return found.place(part) if found else Range(1, 1, 1, 1)

    def in_body(self, name: str) -> Range | None:
        """Where the body first names something."""
        return self.body.places.get(name) if self.body else None


def refusal(place: Range, code: str, message: str, suggestion: str | None = None) -> Diagnostic:
    """An error that keeps the script from being loaded."""
    return finding(place, "error", code, message, suggestion, refuses=True)


def _kind(uri: str) -> str:
    scheme = uri.partition("://")[0]
    return "asset" if scheme == "ducklake" else scheme
