"""From a file to the comment lines of its header, and from such a line to words (AN-1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reactor.domain.diagnostics import Range

BLANKS = " \t"
"""What separates words. Any other white space only looks like it, and is reported where an annotation holds it."""

_ZERO_WIDTH = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_NAMES = {"\u00a0": "no-break space", "\u202f": "narrow no-break space", "\u200b": "zero-width space"}
_INVISIBLE = re.compile(rf"[^\S{BLANKS}]|[{_ZERO_WIDTH}]")
_LINE = re.compile(rf"(?:(?![\r\n])[\s{_ZERO_WIDTH}])*(?P<prefix>--|\#|//|)(?P<text>[^\r\n]*)(?:\r\n|\r|\n|\Z)")
_QUOTED = r"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*')"""
_ITEM = rf"""(?:{_QUOTED}|[^ \t,"'][^ \t,]*)?"""
_WORD = re.compile(rf"(?:(?P<name>[A-Za-z_][\w-]*)=)?(?P<value>{_ITEM}(?:,{_ITEM})*)(?P<rest>[^ \t]*)", re.ASCII)
_LIST_ITEM = re.compile(rf"[ \t]*(?P<raw>{_QUOTED}|[^,]*?)[ \t]*(?P<end>,|\Z)")
_ONE_QUOTED = re.compile(_QUOTED)


@dataclass(frozen=True, slots=True)
class HeaderLine:
    """What stands behind a comment's prefix, without blanks around it. `column` is that of its first character."""

    number: int
    text: str
    column: int

    def range(self, start: int, end: int) -> Range:
        """The place of `text[start:end]`."""
        return Range.on_line(self.number, self.column + start, end - start)


def header_lines(text: str) -> tuple[list[HeaderLine], int]:
    """The comment lines before the first other line, and the offset at which that line begins."""
    found: list[HeaderLine] = []
    for number, line in enumerate(_LINE.finditer(text), 1):
        if not line["prefix"] and line["text"]:
            return found, line.start()
        if line["prefix"]:
            stripped = line["text"].lstrip(BLANKS)
            column = line.end("text") - line.start() - len(stripped) + 1
            found.append(HeaderLine(number, stripped.rstrip(BLANKS), column))
    return found, len(text)


def first_invisible(text: str) -> tuple[int, str] | None:
    """Offset and name of the first character outside quotes that only looks like a blank, or like nothing."""
    if text.isascii() and text.isprintable():
        return None
    for found in _INVISIBLE.finditer(text):
        if text.count('"', 0, found.start()) % 2 == 0:
            kind = "white space" if found[0].isspace() else "invisible character"
            return found.start(), _NAMES.get(found[0], f"{kind} U+{ord(found[0]):04X}")
    return None


def visible(text: str) -> str:
    """The text as it looks: other white space as blanks, and nothing where nothing is seen."""
    return _INVISIBLE.sub(lambda found: "" if found[0] in _ZERO_WIDTH else " ", text).strip(BLANKS)


@dataclass(frozen=True, slots=True)
class Word:
    """A blank-separated word of a header line, or an item of a list in one.

    `raw` is as written; `name` stands before the `=` of an option; `text` is the value without quotes around it, and `text_column` that of
    its first character. `flaw` says why the word cannot be read.
    """

    raw: str
    line: int
    column: int
    text: str
    text_column: int
    name: str | None = None
    quoted: bool = False
    flaw: str = ""

    @property
    def range(self) -> Range:
        """The whole word."""
        return Range.on_line(self.line, self.column, len(self.raw))

    @property
    def name_range(self) -> Range:
        """An option's name, else the word."""
        return Range.on_line(self.line, self.column, len(self.name or self.raw))

    def part(self, offset: int, length: int | None = None) -> Range:
        """A stretch of the value, to its end by default."""
        return Range.on_line(self.line, self.text_column + offset, len(self.text) - offset if length is None else length)

    def items(self, *, whole: bool = False) -> list[Word]:
        """The comma-separated items. A list in quotes (`"a, b"`) is split too, unless `whole`: then it is one item."""
        if self.quoted and whole:
            return [self]
        found: list[Word] = []
        for item in _LIST_ITEM.finditer(self.text):
            column = self.text_column + item.start("raw")
            text, quoted = _unquoted(item["raw"])
            found.append(Word(item["raw"], self.line, column, text, column + quoted, quoted=quoted))
            if not item["end"]:
                break
        return found


def _unquoted(raw: str) -> tuple[str, bool]:
    if not _ONE_QUOTED.fullmatch(raw):
        return raw, False
    return raw[1:-1].replace(raw[0] * 2, raw[0]), True


def words(line: HeaderLine, start: int = 0) -> Iterator[Word]:
    """The words of a line from offset `start` on."""
    end = start
    for found in _WORD.finditer(line.text, start):
        if found.end() > max(end, found.start()):
            word = _word(line, found)
            end = found.start() + len(word.raw)
            yield word
            if end == len(line.text):
                return


def _word(line: HeaderLine, found: re.Match[str]) -> Word:
    raw, value, rest, at = found[0], found["value"], found["rest"], found.start("value")
    flaw = ""
    if rest[:1] in ('"', "'") and value[-1:] in ("", ","):
        flaw, raw = "the quote is not closed", line.text[found.start():]
    elif rest:
        flaw = "a quoted value ends with its quote"
    text, quoted = (value + rest, False) if flaw else _unquoted(value)
    return Word(raw, line.number, line.column + found.start(), text, line.column + at + quoted, found["name"], quoted, flaw)
