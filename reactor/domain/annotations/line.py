"""One annotation line while it is read: its words are taken one by one, and what is wrong is kept, so that one look finds all mistakes.

A line keeps the place of everything that was taken (`place`), for rules that compare several lines later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import takewhile
from typing import TypeVar

from reactor.domain.annotations.scan import HeaderLine, Word, words
from reactor.domain.diagnostics import Diagnostic, Malformed, Range, Severity, finding
from reactor.domain.spelling import nearest

T = TypeVar("T")
W = TypeVar("W", bound=str)
Reader = Callable[[Word], T]
"""Makes a value of a word, or raises `Malformed` with an offset into `word.text`."""

_ENDS_IN_NUMBER = re.compile(r"(?:.*=)?[0-9]+")
_OTHER_NAMES = {"zone": "tz", "timezone": "tz", "time_zone": "tz", "since": "start", "from": "start", "unique_key": "key", "ceiling": "max"}
_STRAY_QUOTES = str.maketrans(dict.fromkeys("\"'“”„‟″`", ""))
_UNITS = {"s": "s", "sec": "s", "second": "s", "seconds": "s", "m": "m", "min": "m", "minute": "m", "minutes": "m",
          "h": "h", "hour": "h", "hours": "h", "d": "d", "day": "d", "days": "d"}


class Stop(Exception):
    """The rest of the line cannot be read."""


class Line:
    """The words behind a keyword."""

    def __init__(self, line: HeaderLine, keyword: str, form: str) -> None:
        self.number, self.keyword, self.form = line.number, keyword, form
        end = len(line.text.split(" ", 1)[0].split("\t", 1)[0])
        self.keyword_range = line.range(0, end)
        self.rest = line.text[end:].strip(" \t")
        self.rest_column = line.column + len(line.text) - len(self.rest)
        self.findings: list[Diagnostic] = []
        self._words = list(words(line, end))
        self._left = list(self._words)
        self._asked: dict[str, tuple[str, ...] | None] = {}
        self._places: dict[str, Range] = {"keyword": self.keyword_range}

    @property
    def first_range(self) -> Range:
        """The first word behind the keyword, or the keyword."""
        return self._words[0].range if self._words else self.keyword_range

    @property
    def begins_with_uri(self) -> bool:
        """Whether a URI stands right behind the keyword."""
        return bool(self._words) and "://" in self._words[0].raw

    def place(self, name: str) -> Range:
        """Where an option, a flag or a taken word stands; the keyword's place if the line does not name it."""
        return self._places.get(name, self.keyword_range)

    def remember(self, name: str, place: Range) -> None:
        """Keep the place of a part that is no word of its own."""
        self._places[name] = place

    def names(self, name: str) -> bool:
        """Whether the line has it."""
        return name in self._places

    def error(self, place: Range, message: str, suggestion: str | None = None, *, code: str = "malformed", refuses: bool = False) -> None:
        """This line is malformed; go on reading, there may be more."""
        self.findings.append(finding(place, "error", code, message, suggestion, refuses=refuses))

    def tell(self, place: Range, code: str, message: str, severity: Severity = "warning") -> None:
        """Something to know; the line holds."""
        self.findings.append(finding(place, severity, code, message))

    @property
    def malformed(self) -> bool:
        """Whether the line is treated as not written."""
        return any(f.severity == "error" for f in self.findings)

    def read(self, word: Word, reader: Reader[T], otherwise: T) -> T:
        """The value of a word; `otherwise` stands in for one that is wrong, so that the rest of the line can be read."""
        if word.flaw:
            self.error(word.part(0), word.flaw, code="unclosed-quote")
            return otherwise
        try:
            return reader(word)
        except Malformed as wrong:
            self.error(word.part(wrong.offset, wrong.length), wrong.message, wrong.suggestion, code=wrong.code, refuses=wrong.refuses)
            return otherwise

    def peek(self, skip: int = 0) -> Word | None:
        """The next word that is no option, or one of those behind it."""
        plain = [word for word in self._left if word.name is None]
        return plain[skip] if skip < len(plain) else None

    def take(self, what: str, reader: Reader[T], otherwise: T) -> T:
        """The next word that is no option: it must be there."""
        word = self.peek()
        if word is None:
            at = self._left[0].range if self._left else self.keyword_range
            self.error(at, f"`{self.keyword}` needs {what}: `{self.form}`", code="missing")
            raise Stop
        self._left.remove(word)
        self._places[what] = word.range
        return self.read(word, reader, otherwise)

    def reject(self, word: Word, message: str, suggestion: str) -> None:
        """Take a word that stands in the wrong way."""
        self._left.remove(word)
        self.error(word.range, message, suggestion, code="stray-word")

    def take_all(self) -> list[Word]:
        """All words that are no options."""
        found = [w for w in self._left if w.name is None]
        self._left = [w for w in self._left if w.name is not None]
        return found

    def left_text(self) -> str:
        """The rest of the line with blanks for all that was taken: places in it count from `rest_column`."""
        text = " " * len(self.rest)
        for word in self._left:
            at = word.column - self.rest_column
            text = text[:at] + word.raw + text[at + len(word.raw):]
        return text

    def at(self, offset: int, length: int) -> Range:
        """A stretch of the rest of the line."""
        return Range.on_line(self.number, self.rest_column + offset, length)

    def text_at(self, place: Range) -> str:
        """What stands at a place of the rest of the line."""
        return self.rest[place.column - self.rest_column:place.end_column - self.rest_column]

    def flag(self, name: str) -> bool:
        """Whether this bare word stands on the line."""
        self._asked[name] = None
        found = [w for w in self._left if w.raw == name]
        for again in found[1:]:
            self.error(again.range, f"`{name}` stands here twice", code="repeated")
        self._left = [w for w in self._left if w.raw != name]
        if found:
            self._places[name] = found[0].range
        return bool(found)

    def option(self, name: str, reader: Reader[T], choices: tuple[str, ...] = ()) -> T | None:
        """The value of `name=`, None if it is not there or wrong."""
        self._asked[name] = choices
        found = [w for w in self._left if w.name == name]
        for again in found[1:]:
            self.error(again.name_range, f"`{name}=` stands here twice", code="repeated")
            self._left.remove(again)
        if not found:
            return None
        word = found[0]
        self._places[name] = word.name_range
        if not self._value_given(word):
            return None
        self._left.remove(word)
        self._places[f"{name}="] = word.part(0)
        return self.read(word, reader, None)

    def spaced_option(self, name: str, reader: Reader[T]) -> T | None:
        """The value of an option that holds blanks, so that it must stand in quotes: several words without them are one mistake."""
        word = next((w for w in self._left if w.name == name), None)
        stray = [w for w in self._words[self._words.index(word) + 1:] if w in self._left] if word else []
        behind = list(takewhile(lambda w: w.name is None, stray))
        if word is None or word.quoted or word.flaw or not behind:
            return self.option(name, reader)
        self._asked[name] = ()
        self._places[name] = word.name_range
        self._left = [w for w in self._left if w is not word and w not in behind]
        text = unquoted_words([word.text, *(w.raw for w in behind)])
        self.error(replace(word.part(0), end_column=behind[-1].range.end_column), "a value with blanks stands in quotes", f'{name}="{text}"',
                   code="unquoted")
        return None

    def choice(self, name: str, *choices: W) -> W | None:
        """The value of `name=`, one of these words."""
        return self.option(name, one_of(*choices), choices)

    def rest_options(self, *names: str) -> list[Word]:
        """Options of these names (all, if none is given) that nobody asked for, as they are."""
        found = [w for w in self._left if w.name is not None and w.name not in self._asked and (not names or w.name in names)]
        self._left = [w for w in self._left if w not in found]
        return found

    def close(self) -> None:
        """Report what nobody took."""
        for word in [w for w in self._left if w.name is not None]:
            self._unknown_option(word)
        if (stray := self.peek()) is not None:
            message, suggestion = self._stray(stray)
            self.error(stray.range, message, suggestion, code="stray-word")

    def _value_given(self, word: Word) -> bool:
        """Report an empty value or a blank in a list, and take away the words that belonged to it."""
        place = self._words.index(word)
        behind = self._words[place + 1] if place + 1 < len(self._words) else None
        stray = behind if behind is not None and behind in self._left and behind.name is None else None
        if word.flaw or (word.text and not (stray and (word.raw.endswith(",") or stray.raw.startswith(",")))):
            return True
        chain = self._chain(place) if stray else [word]
        self._left = [w for w in self._left if w not in chain]
        suggestion = "".join(w.raw for w in chain) if stray else None
        if word.text and stray:
            self.error(stray.range, f"a blank inside the list of `{word.name}=`", suggestion, code="stray-word")
        else:
            at = Range.on_line(word.line, word.column, len(word.name or "") + 1)
            self.error(at, f"`{word.name}=` has no value", suggestion, code="missing")
        return False

    def _chain(self, place: int) -> list[Word]:
        """The word there and those that blanks cut from it."""
        chain = [self._words[place], self._words[place + 1]]
        for word in self._words[place + 2:]:
            if not (chain[-1].raw.endswith(",") or word.raw.startswith(",")) or word.name is not None:
                break
            chain.append(word)
        return chain

    def _unknown_option(self, word: Word) -> None:
        name, options = word.name or "", list(self._asked)
        has = f"; it has {', '.join(f'`{option}`' for option in options)}" if options else ""
        close = nearest(name, options) or next((o for o in options if name.startswith(o) or o.startswith(name)), None)
        close = close or next((today for other, today in _OTHER_NAMES.items() if other == name and today in options), None)
        self.error(word.name_range, f"`{self.keyword}` has no option `{name}`{has}", close, code="unknown-option")

    def _stray(self, word: Word) -> tuple[str, str | None]:
        """Why a word is too many, and what was meant."""
        if word.flaw:
            return word.flaw, None
        place = self._words.index(word)
        before = self._words[place - 1].raw if place else ""
        behind = [w.raw for w in self._words[place + 1:place + 3]]
        if word.raw in _UNITS and _ENDS_IN_NUMBER.fullmatch(before):
            return "a blank inside a duration", before + _UNITS[word.raw]
        if word.raw in self._asked and (self._asked[word.raw] is not None):
            value = "".join(behind[:2] if behind[:1] == ["="] else behind[:1]).removeprefix("=")
            return "an option is written with `=` and without blanks", f"{word.raw}={value or '…'}"
        for name, choices in self._asked.items():
            if close := nearest(word.raw, choices or (), edits_max=0 if len(word.raw) < 4 else 2):
                return f"`{word.raw}` is the value of an option", f"{name}={close}"
        close = nearest(word.raw, self._asked)
        return f"`{word.raw}` has no place here: `{self.form}`", close


def unquoted_words(words: Iterable[str]) -> str:
    """Words with one blank between them, and without the quotes that do not quote."""
    return " ".join(words).translate(_STRAY_QUOTES).strip()


def one_of(*choices: W) -> Reader[W]:
    """A reader of one of these words."""
    def read(word: Word) -> W:
        for choice in choices:
            if word.text == choice:
                return choice
        allowed = ", ".join(f"`{choice}`" for choice in choices)
        raise Malformed(f"`{word.text}` is not allowed here, only {allowed}", nearest(word.text, choices), code="unknown-value")
    return read
