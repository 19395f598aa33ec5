"""Where each key of a TOML document stands. `tomllib` keeps no places, and keeping them needs no library: its answer says that the document is
valid, so a scan over strings, brackets and keys is enough, and nothing here has to find a mistake.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

Keys = tuple[str, ...]

_TOKEN: Final = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:'{0,2})|"(?:[^"\\]|\\.)*"|'[^']*'|\#[^\n]*|[\[\]{}=,.\n]|[^\s"'\#\[\]{}=,.]+''', re.DOTALL)
_OPEN, _CLOSE = {"[", "{"}, {"]", "}"}
_VALUE_ENDS: Final = {",", "}", "\n", ""}


def places(text: str) -> Mapping[Keys, tuple[int, int]]:
    """(line, column) of each key of a valid document, both from 1; of a table that is opened twice, the first. Lists are not entered."""
    return _Scan(text).document()


class _Scan:
    def __init__(self, text: str) -> None:
        found = ((m.start(), m[0]) for m in _TOKEN.finditer(text))
        self._tokens = [(start, token) for start, token in found if not token.startswith("#")]
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self._next = 0
        self._places: dict[Keys, tuple[int, int]] = {}

    def document(self) -> Mapping[Keys, tuple[int, int]]:
        table: Keys = ()
        while word := self._peek():
            if word == "\n":
                self._take()
            elif word == "[":
                self._skip("[")
                table = self._key((), "]")
                self._skip("]")
            else:
                self._value(self._key(table, "="))
        return self._places

    def _peek(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        self._next += 1
        return self._tokens[self._next - 1][1]

    def _skip(self, *tokens: str) -> None:
        while self._peek() in tokens:
            self._take()

    def _key(self, table: Keys, end: str) -> Keys:
        path = table
        while self._peek() != end:
            start = self._tokens[self._next][0]
            if (part := self._take()) != ".":
                path = (*path, _plain(part))
                line = bisect_right(self._lines, start)
                self._places.setdefault(path, (line, start - self._lines[line - 1] + 1))
        self._take()
        return path

    def _value(self, path: Keys) -> None:
        if self._peek() == "{":
            self._take()
            self._skip("\n", ",")
            while self._peek() != "}":
                self._value(self._key(path, "="))
                self._skip("\n", ",")
            self._take()
            return
        depth = 0
        while depth or self._peek() not in _VALUE_ENDS:
            word = self._take()
            depth += (word in _OPEN) - (word in _CLOSE)


def _plain(key: str) -> str:
    """A key without its quotes."""
    if key[0] == "'":
        return key[1:-1]
    return str(tomllib.loads(f"key = {key}")["key"]) if key[0] == '"' else key
