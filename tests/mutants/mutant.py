"""What a mutant is, and the ways to break a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from reactor.state import migrations
from reactor.state.queries import text
from tests.properties.store import Store

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Mutant:
    """`shows`: the owner of the invariant in the house, or the list that it comes from. `killer`: the node id of a test."""

    name: str
    breaks: str
    shows: str
    killer: str
    install: Callable[[Patch], None]


def in_sql(*replacements: tuple[str, str]) -> Callable[[Patch], None]:
    """Other functions in every database that is made from now on. Each old text stands exactly once in `commit.sql`."""

    def install(patch: Patch) -> None:
        sql = text("commit.sql")
        for old, new in replacements:
            assert sql.count(old) == 1, f"not once in commit.sql: {old}"
            sql = sql.replace(old, new)
        patch.setattr(migrations, "text", lambda name: sql if name == "commit.sql" else text(name))

    return install


def in_store(rule: str) -> Callable[[Patch], None]:
    """The fake lake of the world machine without this rule."""

    def install(patch: Patch) -> None:
        patch.setattr(Store, "broken", rule)

    return install
