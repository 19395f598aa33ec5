"""SQL by name: a file of `-- name: x` headers, each followed by one statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

_HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def text(name: str) -> str:
    """A file of this package, by its path below it."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def named(source: str) -> Mapping[str, str]:
    """Name → statement."""
    _, *parts = _HEADER.split(source)
    return dict(zip(parts[::2], (statement.strip() for statement in parts[1::2]), strict=True))


QUERIES = named(text("queries.sql"))
