"""The header of a file: which lines are annotations, what holds of them, and what is wrong with the others."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from reactor.domain.annotations.inputs import Mute, On, Pipeline, Read
from reactor.domain.annotations.keyword import Annotation, Keyword
from reactor.domain.annotations.line import Line, Stop
from reactor.domain.annotations.links import Macros, OnFailure, PreRun, Use
from reactor.domain.annotations.promises import ColumnKeyword, DataTestKeyword
from reactor.domain.annotations.retired import Dimension, Measure, old_word
from reactor.domain.annotations.scan import HeaderLine, first_invisible, header_lines, visible
from reactor.domain.annotations.slices import Batch, Partitioned
from reactor.domain.annotations.tables import IncrementalKeyword, MaterializeKeyword
from reactor.domain.annotations.timing import DebounceKeyword, FreshnessKeyword, RetryKeyword, Tag, Trigger
from reactor.domain.assets import ProjectNames
from reactor.domain.diagnostics import Diagnostic, finding
from reactor.domain.scripts import Header
from reactor.domain.spelling import distance, near

INPUTS_MAX: Final = 100
"""`on` lines of one script."""
SHORT_WORD_LETTERS: Final = 3
"""A keyword this short is misspelt by one edit; by two only if its letters are all still there, else `the` would be `tag`."""

Keywords = Mapping[str, Keyword[Any]]

_ALL: Final[Sequence[Keyword[Any]]] = (
    Pipeline(), On(), Batch(), Partitioned(), MaterializeKeyword(), Trigger(), DebounceKeyword(), FreshnessKeyword(), RetryKeyword(), Tag(),
    DataTestKeyword(), ColumnKeyword(), Mute(), IncrementalKeyword(), Macros(), Use(), OnFailure(), PreRun(), Read(), Measure(), Dimension(),
)
KEYWORDS: Final[Keywords] = {keyword.word: keyword for keyword in _ALL}
_FIRST_WORD = re.compile(r"[^ \t]*")


@dataclass(frozen=True, slots=True)
class HeaderReading:
    """What a header says. `malformed`: the keyword of each line that is treated as not written; `body_at`: offset of the first other line."""

    header: Header
    annotations: tuple[Annotation, ...]
    malformed: tuple[str, ...]
    findings: tuple[Diagnostic, ...]
    body_at: int

    @property
    def annotated(self) -> bool:
        """Whether a line is an annotation, well formed or not."""
        return bool(self.annotations or self.malformed)

    @property
    def refused(self) -> bool:
        """Whether the script must not be loaded."""
        return any(found.refuses for found in self.findings)

    @property
    def absent(self) -> frozenset[str]:
        """Keywords that are written and do not hold."""
        return frozenset(self.malformed) - {a.keyword for a in self.annotations}

    def of(self, keyword: str) -> tuple[Annotation, ...]:
        """Its lines in force."""
        return tuple(a for a in self.annotations if a.keyword == keyword)

    def first(self, keyword: str) -> Annotation | None:
        """Its first line in force."""
        return next((a for a in self.annotations if a.keyword == keyword), None)


def read_header(text: str, names: ProjectNames, keywords: Keywords = KEYWORDS) -> HeaderReading:
    """Read the leading comment block of a file (a byte order mark already taken away)."""
    lines, body_at = header_lines(text)
    reader = _Reader(names, keywords)
    for line in lines:
        reader.read(line)
    return HeaderReading(reader.header, tuple(reader.annotations), tuple(reader.malformed), tuple(reader.findings), body_at)


@dataclass(slots=True)
class _Reader:
    names: ProjectNames
    keywords: Keywords
    header: Header = field(default_factory=Header)
    annotations: list[Annotation] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    findings: list[Diagnostic] = field(default_factory=list)
    seen: set[tuple[str, Hashable]] = field(default_factory=set)

    def read(self, line: HeaderLine) -> None:
        """One comment line: an annotation, a mistake, or prose."""
        if hidden := first_invisible(line.text):
            self._invisible(line, *hidden)
        elif keyword := self.keywords.get(_first_word(line.text)):
            self._annotation(line, keyword)
        elif old := old_word(line):
            self._reject(old[0].keyword, [old[1]])
        elif meant := self._misspelt(line):
            place = line.range(0, len(_first_word(line.text)))
            message = f"`{_first_word(line.text)}` is no keyword"
            self._reject(meant.word, [finding(place, "error", "misspelt", message, meant.word, refuses=meant.refuses)])

    def _annotation(self, line: HeaderLine, keyword: Keyword[Any]) -> None:
        words = Line(line, keyword.word, keyword.form)
        value = _parsed(keyword, words)
        if not words.malformed:
            value = keyword.resolve(value, self.names, words)
        if keyword.word == On.word and self.malformed.count(On.word) + len(self.header.edges) >= INPUTS_MAX:
            words.error(words.keyword_range, f"a script has at most {INPUTS_MAX} `on` lines", code="too-many", refuses=True)
        if words.malformed:
            self._reject(keyword.word, [_graded(found, keyword) for found in sorted(words.findings, key=lambda f: f.range)])
            return
        self.findings += sorted(words.findings, key=lambda found: found.range)
        self._in_force(keyword, value, words)

    def _in_force(self, keyword: Keyword[Any], value: object, words: Line) -> None:
        """Add the line, or warn that one before it holds (AN-3)."""
        identity = (keyword.word, keyword.identity(value) if keyword.many else None)
        if identity in self.seen:
            place = words.first_range if keyword.many else words.keyword_range
            what = "stands here before" if keyword.many else f"`{keyword.word}` stands here before; the first line counts"
            self.findings.append(finding(place, "warning", "repeated", f"the same {what}" if keyword.many else what))
            return
        self.seen.add(identity)
        self.annotations.append(Annotation(keyword.word, value, words))
        self.header = keyword.compile(self.header, value)

    def _reject(self, keyword: str, findings: Sequence[Diagnostic]) -> None:
        self.malformed.append(keyword)
        self.findings += findings

    def _invisible(self, line: HeaderLine, at: int, name: str) -> None:
        """An annotation that only looks right; prose may hold what it likes."""
        seen = HeaderLine(line.number, visible(line.text), line.column)
        old = old_word(seen)
        keyword = self.keywords.get(_first_word(seen.text)) or (self.keywords.get(old[0].keyword) if old else None) or self._misspelt(seen)
        if keyword is not None:
            place = line.range(at, at + 1)
            message = f"{name} in column {place.column}: only blanks and tabs separate words"
            self._reject(keyword.word, [finding(place, "error", "invisible-character", message, refuses=keyword.refuses)])

    def _misspelt(self, line: HeaderLine) -> Keyword[Any] | None:
        """The keyword that was meant: at most two edits away, and the rest of the line has its form (AN-2).

        A table right behind what looks like `materialize` is no prose either, whatever follows.
        """
        for word in _close(_first_word(line.text), tuple(self.keywords)):
            keyword = self.keywords[word]
            words = Line(line, word, keyword.form)
            _parsed(keyword, words)
            if keyword.guessed and (not words.malformed or (keyword.refuses and words.begins_with_uri)):
                return keyword
        return None


def _parsed(keyword: Keyword[Any], words: Line) -> object:
    try:
        return keyword.parse(words)
    except Stop:
        return None


def _graded(found: Diagnostic, keyword: Keyword[Any]) -> Diagnostic:
    """An error of a keyword that decides what is written or when refuses the script."""
    return replace(found, refuses=found.severity == "error" and (found.refuses or keyword.refuses))


def _first_word(text: str) -> str:
    found = _FIRST_WORD.match(text)
    return found[0] if found else ""


@lru_cache(maxsize=8192)
def _close(word: str, keywords: tuple[str, ...]) -> tuple[str, ...]:
    """Keywords that a word may be a slip for, the nearest first."""
    close = [keyword for keyword in keywords if keyword != word and near(word, keyword) and _likely(word, keyword)]
    return tuple(sorted(close, key=lambda keyword: distance(word, keyword)))


def _likely(word: str, keyword: str) -> bool:
    letters = iter(word.casefold())
    return len(keyword) > SHORT_WORD_LETTERS or near(word, keyword, 1) or all(letter in letters for letter in keyword)
