"""Words that once meant something, or mean something elsewhere: they are answered, never taken for prose (AN-24, AN-31)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from reactor.domain.annotations.keyword import Keyword
from reactor.domain.annotations.line import Line
from reactor.domain.annotations.promises import BUILT_IN
from reactor.domain.annotations.scan import HeaderLine
from reactor.domain.diagnostics import Diagnostic
from reactor.domain.scripts import Header
from reactor.domain.spelling import near


class _Unused(Keyword[None]):
    guessed = False

    def parse(self, line: Line) -> None:
        """Anything may follow."""
        line.tell(line.keyword_range, "unused", f"`{self.word}` is known and unused: a metrics layer reads the lake from outside")

    def identity(self, value: None) -> object:
        """No two are a repeat."""
        del value
        return object()

    def compile(self, header: Header, value: None) -> Header:
        """Nothing."""
        del value
        return header


class Measure(_Unused):
    """`measure …`: read and left alone; it belongs to a metrics layer that Reactor does not have."""

    word, form, many = "measure", "measure …", True


class Dimension(_Unused):
    """`dimension …`: read and left alone; it belongs to a metrics layer that Reactor does not have."""

    word, form, many = "dimension", "dimension …", True


class OldWord(NamedTuple):
    """A former keyword, the lines that are meant by it (not prose), and what is written today."""

    word: str
    pattern: str
    today: str
    keyword: str
    """Whose line it is in today's words: that one counts as malformed."""
    refuses: bool = True


_TESTED = r"(?P<head>[\w./-]+)(?:[ \t]+(?P<rest>.*))?"
OLD_WORDS: Final = (
    OldWord("snapshot", r"(?:\w+://\S+.*|.*\b(?:unique_)?key=.*|)", "materialize scd2 ducklake://lake/table key=…", "materialize"),
    OldWord("unique_key", r"[=:]?[ \t]*(?P<list>[^\s,]*(?:[ \t]*,[ \t]*[^\s,]+)*)", "materialize ducklake://lake/table key={list}", "materialize"),
    OldWord("append", r"(?:\w+://\S+.*|)", "materialize ducklake://lake/table append", "materialize"),
    OldWord("materialized", r".*\bwrap=.*", "materialize ducklake://lake/table", "materialize"),
    OldWord("test", _TESTED, "data_test {all}", "data_test", refuses=False),
)


def old_word(line: HeaderLine) -> tuple[OldWord, Diagnostic] | None:
    """The old annotation that a line is, with what to say about it."""
    for old in OLD_WORDS:
        if not line.text.startswith(old.word):
            continue
        found = re.fullmatch(rf"{old.word}\b[ \t]*(?P<all>{old.pattern})", line.text)
        if found is None or (old.word == "test" and not _is_test(found["head"], found["rest"])):
            continue
        groups = {name: re.sub(r"[ \t]+", "" if name == "list" else " ", value or "…") for name, value in found.groupdict().items()}
        today = old.today.format(**groups)
        message = f"`{old.word}` is an old word: today it is written `{today}`"
        return old, Diagnostic(line.range(0, len(old.word)), "error", "old-word", message, today, refuses=old.refuses)
    return None


def _is_test(head: str, rest: str | None) -> bool:
    """Whether what follows is a test: a built-in with a column, or a path."""
    built_in = bool(rest) and any(near(head, name) for name in BUILT_IN)
    return built_in or (("/" in head or head.endswith(".sql")) and all("=" in word for word in (rest or "").split()))
