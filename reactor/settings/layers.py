"""What a layer gives: values at their paths, each with its origin, and problems where something has no place in the tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from reactor.settings.shape import Keys, Leaf, Node, allowed, meant, step
from reactor.settings.tree import Settings
from reactor.settings.values import Url

PREFIX: Final = "REACTOR_"
PROFILES: Final = "profiles"
REFERENCE: Final = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)|file:(?!//)(.+)", re.DOTALL)
"""How a secret is named where it must not stand."""

Layer = Literal["file", "secrets", "environment", "flag"]
_SPOKEN: Final = {"file": "in the file", "flag": "on the command line"}


@dataclass(frozen=True)
class Problem:
    """What is wrong with one setting. `place`: `reactor.toml:3:1`, a variable, a file; `name`: the setting, empty if the place says it all.

    `refused`: the setting whose value is not used for it.
    """

    place: str
    name: str
    message: str
    suggestion: str | None = None
    refused: Keys = ()

    def __str__(self) -> str:
        """One line, whatever the user wrote."""
        instead = f"; did you mean `{self.suggestion}`?" if self.suggestion else ""
        line = f"{': '.join(part for part in (self.place, self.name, self.message) if part)}{instead}"
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


@dataclass(frozen=True)
class Given:
    """A value at its path, or a section that is opened (`value` is then `{}`). `profile`: the one that it stands in."""

    path: Keys
    value: object = field(repr=False)
    layer: Layer
    origin: str
    place: str
    profile: str | None = None

    @property
    def written(self) -> Keys:
        """The path in its layer."""
        return (PROFILES, self.profile, *self.path) if self.profile is not None else self.path

    def problem(self, message: str, suggestion: str | None = None) -> Problem:
        """Something is wrong with it."""
        return Problem(self.place, ".".join(self.written), message, suggestion, self.written)

    @property
    def reference(self) -> re.Match[str] | None:
        """Where the secret is, if the value only names that."""
        return REFERENCE.fullmatch(self.value) if isinstance(self.value, str) and self.layer != "secrets" else None


Read = Iterator[Given | Problem]
"""What a layer is read into."""


def checked(given: Given, leaf: Leaf) -> Given | Problem:
    """A value, unless it is a secret that must not stand there, or names a secret where none is asked for, or is `true` where a number belongs
    (which Python would take for 1).
    """
    if isinstance(given.value, bool) and not leaf.takes("boolean"):
        message: str | None = f"`{str(given.value).lower()}` is not allowed: {allowed(leaf.schema)}"
    else:
        message = _misplaced(given, leaf)
    return given.problem(message) if message else given


def _misplaced(given: Given, leaf: Leaf) -> str | None:
    if leaf.secret is None:
        instead = f"write the value itself, or set {variable(given.path)}"
        return f"only secrets and addresses are named by `env:` or `file:`: {instead}" if given.reference else None
    if given.reference or given.layer not in _SPOKEN or not isinstance(given.value, str):
        return None
    what = Url(given.value).tells if leaf.secret is Url else "a secret"
    return f"{what} must not stand {_SPOKEN[given.layer]}: name it by `env:NAME` or `file:/path`" if what else None


def variable(path: Keys) -> str:
    """The environment variable of a setting."""
    return PREFIX + "__".join(path).upper().replace("-", "_")


def flags(given: Mapping[str, object]) -> Read:
    """Values of the command line by dotted name; None: the flag was not used."""
    for name, value in given.items():
        if value is None:
            continue
        path, place = tuple(name.split(".")), f"flag {name}"
        node: Node | None = Settings
        for depth, key in enumerate(path):
            node, above = step(node, key) if node is not None else None, path[:depth]
            if node is None:
                close = meant(above, key)
                yield Problem(place, "", "no such setting", ".".join((*close, *path[depth + 1:])) if close else None)
                break
        else:
            here = Given(path, value, "flag", place, place)
            yield checked(here, node) if isinstance(node, Leaf) else Problem(place, "", "this is a section: set one of its fields")
