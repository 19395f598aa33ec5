"""The layer `reactor.toml`, with its profiles."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from reactor.settings.layers import PROFILES, Given, Problem, Read, checked
from reactor.settings.places import places
from reactor.settings.shape import Each, Keys, Leaf, Node, fields, meant, step
from reactor.settings.tree import Settings

FILE_BYTES_MAX: Final = 1_048_576

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def document(file: Path) -> Read:
    """Everything that stands in a file, its profiles too; nothing if there is no file."""
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Problem(str(file), "", f"it cannot be read: {error.strerror}")
        return
    if len(content) > FILE_BYTES_MAX:
        yield Problem(str(file), "", f"it is larger than {FILE_BYTES_MAX} bytes")
        return
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
        tree = tomllib.loads(text)
    except UnicodeDecodeError as error:
        before = content[:error.start].decode(errors="replace")
        yield Problem(f"{file}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}", "", "it is not UTF-8 here")
    except (ValueError, RecursionError) as error:
        yield _not_toml(file, content, error)
    else:
        yield from _Reader(file, places(text)).document(tree)


def _not_toml(file: Path, content: bytes, error: Exception) -> Problem:
    if isinstance(error, RecursionError):
        return Problem(str(file), "", "it is nested too deeply")
    message = str(error)
    found = _AT.search(message)
    end = content.decode(errors="replace").rstrip("\n").split("\n")
    line, column = (int(found[1]), int(found[2])) if found and found[1] else (len(end), len(end[-1]) + 1)
    return Problem(f"{file}:{line}:{column}", "", f"it is no TOML: {_AT.sub('', message)}")


@dataclass(frozen=True)
class _Reader:
    file: Path
    places: Mapping[Keys, tuple[int, int]]
    profile: str | None = None

    def document(self, tree: dict[str, Any]) -> Read:
        profiles = tree.pop(PROFILES, {})
        yield from self._section(Settings, tree, ())
        if not isinstance(profiles, dict):
            yield Problem(self._place((PROFILES,)), PROFILES, "a section is needed: `[profiles.<name>]`")
            return
        for name, table in profiles.items():
            yield from _Reader(self.file, self.places, name).below(Settings, table, ())

    def below(self, node: Node, value: object, path: Keys) -> Read:
        here = Given(path, value, "file", self._origin(path), self._place(path), self.profile)
        if isinstance(node, Leaf):
            yield checked(here, node)
        elif isinstance(value, dict):
            yield replace(here, value={})
            yield from self._section(node, value, path)
        else:
            yield here.problem(f"a section is needed: `[{'.'.join(here.written)}{'.<name>' if isinstance(node, Each) else ''}]`")

    def _section(self, node: Node, table: Mapping[str, object], path: Keys) -> Read:
        for key, value in table.items():
            below = (*path, key)
            child = step(node, key)
            yield from self.below(child, value, below) if child is not None else iter([self._unknown(node, below)])

    def _unknown(self, node: Node, path: Keys) -> Problem:
        close = meant(path[:-1], path[-1], () if path[:-1] or self.profile else (PROFILES,))
        if close is None:
            message, suggestion = f"no such setting; there is {', '.join(f'`{name}`' for name in fields(node))}", None
        else:
            message, suggestion = "no such setting", close[-1] if close[:-1] == path[:-1] else ".".join(close)
        return Problem(self._place(path), ".".join(self._full(path)), message, suggestion)

    def _full(self, path: Keys) -> Keys:
        return (PROFILES, self.profile, *path) if self.profile is not None else path

    def _place(self, path: Keys) -> str:
        line, column = self.places.get(self._full(path), (1, 1))
        return f"{self.file}:{line}:{column}"

    def _origin(self, path: Keys) -> str:
        line, _ = self.places.get(self._full(path), (1, 1))
        return f"{self.file.name}:{line}" + (f" (profile {self.profile})" if self.profile is not None else "")
