"""Every key of a document is found where it stands, however the document is written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.settings.places import places

DOCUMENT = '''\
# [not.a] table
title = """one
[two]
three = 3""" # key = 1
"quoted key".'literal "key"' = 'a = b'
dates = 1979-05-27 07:32:00.5Z

  [ a . "b.c" ]   # comment = 1
x = [ 1, { y = "]" }, [ "[" ],
      # z = 2
      """ ] """ ]
inline = { p = 1, q.r = "}", s = { t = [ 1, 2 ] } }
[[list]]
name = 1
[[list]]
name = 2
other = 3
[a]
w = \'\'\'
'' ' a = 1'\'\'\'\'
last = +inf'''


def test_a_document_with_everything() -> None:
    tomllib.loads(DOCUMENT)
    assert places(DOCUMENT) == {
        ("title",): (2, 1), ("quoted key",): (5, 1), ("quoted key", 'literal "key"'): (5, 14), ("dates",): (6, 1),
        ("a",): (8, 5), ("a", "b.c"): (8, 9), ("a", "b.c", "x"): (9, 1), ("a", "b.c", "inline"): (12, 1), ("a", "b.c", "inline", "p"): (12, 12),
        ("a", "b.c", "inline", "q"): (12, 19), ("a", "b.c", "inline", "q", "r"): (12, 21), ("a", "b.c", "inline", "s"): (12, 30),
        ("a", "b.c", "inline", "s", "t"): (12, 36), ("list",): (13, 3), ("list", "name"): (14, 1), ("list", "other"): (17, 1),
        ("a", "w"): (19, 1), ("a", "last"): (21, 1),
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "\n\n", "# only", "a=1", "a.b.c=1\n", '"\\u00e9" = 1', '"" = 1', "a = '''\n'''", 'a = """x\\""""""'])
def test_small_documents(text: str) -> None:
    assert set(places(text)) == set(paths(tomllib.loads(text)))


def paths(tree: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from paths(value, (*above, key))


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=["Cs", "Cc"]), max_size=5) | st.sampled_from(["a", "b", "a.b", "]", "=", '"'])
SCALARS = st.one_of(
    st.integers(-5, 5).map(str), st.booleans().map(lambda b: str(b).lower()), st.text("ab[]{}=,.# '\n", max_size=8).map(json.dumps),
    st.text('ab[]{}=,.# "', max_size=8).map(lambda s: f"'{s}'"), st.text("ab[]{}=,.#\n ", max_size=8).map(lambda s: f"'''{s}'''"),
    st.sampled_from(["1979-05-27 07:32:00", "1e5", "-inf", '"""a""b"""', '""""quoted""""', "0x1f"]),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[ {', '.join(items)} ]"), max_leaves=4)


def written(key: str) -> str:
    return key if key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key) else json.dumps(key, ensure_ascii=False)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A tree, and one of the many ways to write it."""
    below: st.SearchStrategy[Any] = st.recursive(VALUES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8)
    tree: dict[str, Any] = draw(st.dictionaries(KEYS, below, max_size=4))
    lines: list[str] = []

    def inline(value: Any) -> str:
        return value if isinstance(value, str) else "{ " + ", ".join(f"{written(k)} = {inline(v)}" for k, v in value.items()) + " }"

    def table(value: dict[str, Any], path: tuple[str, ...]) -> None:
        later = []
        for key, child in value.items():
            if isinstance(child, dict) and draw(st.booleans()):
                later.append(key)
            elif isinstance(child, dict) and len(child) == 1 and draw(st.booleans()):
                ((below, leaf),) = child.items()
                lines.append(f"{written(key)} . {written(below)}={inline(leaf)}")
            else:
                lines.append(f"{draw(st.sampled_from(['', '  ']))}{written(key)} = {inline(child)}{draw(st.sampled_from(['', ' # a = 1']))}")
        for key in later:
            lines.append(f"[{'.'.join(map(written, (*path, key)))}]")
            table(value[key], (*path, key))

    table(tree, ())
    return "\n".join(lines), tree


@settings(max_examples=150, deadline=None)
@given(documents())
def test_every_key_is_found_and_nothing_else(document: tuple[str, dict[str, Any]]) -> None:
    text, tree = document
    found, lines = places(text), text.split("\n")
    assert set(found) == set(paths(tree)) == set(paths(tomllib.loads(text)))
    for path, (line, column) in found.items():
        assert lines[line - 1][column - 1:].startswith(written(path[-1]))
