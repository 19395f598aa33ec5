"""SQL text as tokens and statements, with exact places: just enough of DuckDB's lexer to know what is code, what is text and what ends where."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from reactor.domain.assets import PLACEHOLDER
from reactor.domain.diagnostics import Malformed, Range

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<comment>--[^\r\n]*|/\*)
    |(?P<placeholder>\{partition\})
    |(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*')
    |(?P<dollar>\$(?:[^\W\d]\w*)?\$)
    |(?P<name>"(?:[^"]|"")*")
    |(?P<parameter>\$\w+)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<number>\d[\w.]*)
    |(?P<open>['"\0])
    |(?P<mark>.)|(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_LINE_END = re.compile(r"\r\n|\r|\n")
_STAND_IN: Final = "'" + "_" * (len(PLACEHOLDER) - 2) + "'"


class Token(NamedTuple):
    """A piece of code; `kind`: comment, placeholder (bare), text, name (quoted), parameter, word, number or mark. `text[start:end]` of the file."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """In capitals, if it is a bare word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def identifier(self) -> str | None:
        """The name that it means as an identifier, in lower case; None if it is none."""
        if self.kind == "name":
            return self.text[1:-1].replace('""', '"').lower()
        return self.text.lower() if self.kind == "word" else None

    @property
    def literal(self) -> str | None:
        """The value of a text literal without escapes of its own."""
        return self.text[1:-1].replace("''", "'") if self.kind == "text" and self.text[0] == "'" else None


class Places:
    """Offsets of a text as lines and columns."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def range(self, start: int, end: int) -> Range:
        """The place of `text[start:end]`."""
        return Range(*self._place(start), *self._place(end))

    def offset(self, start: int, line: int, column: int) -> int:
        """The offset of a line and column that are counted from offset `start`; never outside the text."""
        if line == 1:
            return min(start + column - 1, self._length - 1)
        row = min(bisect_right(self._starts, start) + line - 1, len(self._starts))
        return min(self._starts[row - 1] + column - 1, self._length - 1)

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


class Statement(NamedTuple):
    """Tokens between two semicolons, comments left out; at least one."""

    tokens: Sequence[Token]

    @property
    def first(self) -> Token:
        """Where it begins."""
        return self.tokens[0]

    def slice(self, text: str) -> str:
        """The statement as it is written, from its first token to its last: no comment can reach beyond it."""
        return text[self.tokens[0].start:self.tokens[-1].end]

    def filled(self, text: str) -> str:
        """The same with a text literal of the same length for each bare placeholder."""
        start, written = self.tokens[0].start, self.slice(text)
        for token in self.tokens:
            if token.kind == "placeholder":
                written = written[: token.start - start] + _STAND_IN + written[token.end - start:]
        return written


def tokens_of(text: str, start: int) -> Iterator[Token]:
    """The tokens from an offset on, comments included. Raises `Malformed` at what is not closed."""
    at = start
    while (found := _TOKEN.match(text, at)) and (kind := str(found.lastgroup)) != "end":
        at, end = found.start(kind), found.end()
        if kind == "comment" and text[at] == "/":
            end = _comment_end(text, at)
        elif kind == "dollar":
            kind, end = "text", _dollar_end(text, at, found[kind])
        elif kind == "open":
            what = "a NUL character" if text[at] == "\0" else f"the quote `{text[at]}` is not closed"
            raise Malformed(what, offset=at, length=1, code="unclosed-quote")
        yield Token(kind, text[at:end], at, end)
        at = end


def statements_of(tokens: Iterable[Token]) -> list[Statement]:
    """The statements between semicolons; empty ones are none."""
    found: list[Statement] = []
    code: list[Token] = []
    for token in tokens:
        if token.kind == "mark" and token.text == ";":
            found += [Statement(code)] if code else []
            code = []
        elif token.kind != "comment":
            code.append(token)
    return [*found, Statement(code)] if code else found


def _comment_end(text: str, start: int) -> int:
    """Comments nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise Malformed("the comment is not closed", offset=start, length=2, code="unclosed-quote")


def _dollar_end(text: str, start: int, mark: str) -> int:
    end = text.find(mark, start + len(mark))
    if end < 0:
        raise Malformed(f"the text that begins with `{mark}` is not closed", offset=start, length=len(mark), code="unclosed-quote")
    return end + len(mark)
