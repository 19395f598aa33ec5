"""The tree of settings as a shape: what may stand at a path, what was meant by one that does not exist, and what a field allows, in words."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from reactor.domain.spelling import EDITS_MAX, nearest
from reactor.settings.sections import Section
from reactor.settings.tree import Settings
from reactor.settings.values import Secret

Keys = tuple[str, ...]
ANY_NAME: Final = "*"
"""Stands in a path for a name that the user chooses."""
LONG_CHARACTERS_MIN: Final = 5


@dataclass(frozen=True)
class Leaf:
    """A single value. `schema`: its JSON Schema; `secret`: the class of a secret or an address."""

    schema: Mapping[str, Any]
    secret: type[Secret] | None = None

    @property
    def is_list(self) -> bool:
        """Whether several values may stand there."""
        return self.schema.get("type") == "array"

    def takes(self, kind: str) -> bool:
        """Whether a value of this JSON type may stand there."""
        return any(option.get("type") == kind for option in self.schema.get("anyOf", [self.schema]))


@dataclass(frozen=True)
class Each:
    """Values or sections that the user names."""

    of: type[Section] | Leaf


Node = type[Section] | Each | Leaf


def step(node: Node, key: str) -> Node | None:
    """What stands below a key; None: nothing may."""
    if isinstance(node, Leaf):
        return None
    if isinstance(node, Each):
        return node.of
    return _children(node).get(key) or node.entry


def at(path: Sequence[str]) -> Node | None:
    """What stands at a path."""
    node: Node | None = Settings
    for key in path:
        node = step(node, key) if node is not None else None
    return node


def fields(node: Node) -> Sequence[str]:
    """The keys that have a meaning of their own."""
    return list(node.model_fields) if isinstance(node, type) else []


def inactive(path: Keys) -> Keys | None:
    """The part of a path, from its top, that is known but not active yet."""
    node: Node | None = Settings
    for depth, key in enumerate(path, 1):
        field = node.model_fields.get(key) if isinstance(node, type) else None
        extra = field.json_schema_extra if field else None
        if isinstance(extra, dict) and extra.get("x-active") is False:
            return path[:depth]
        node = step(node, key) if node is not None else None
    return None


@cache
def _children(section: type[Section]) -> Mapping[str, Node]:
    schema = section.model_json_schema()["properties"]
    return {name: _node(field, schema[name]) for name, field in section.model_fields.items()}


def _node(field: FieldInfo, schema: Mapping[str, Any]) -> Node:
    for option in _options(field.annotation):
        if get_origin(option) in {Mapping, dict} or option is Mapping:
            return _each(get_args(option)[1], schema)
        if isinstance(option, type) and issubclass(option, Section):
            return option
        if isinstance(option, type) and issubclass(option, Secret):
            return Leaf(schema, option)
    return Leaf(schema)


def _each(value: object, schema: Mapping[str, Any]) -> Each:
    if isinstance(value, type) and issubclass(value, Section):
        return Each(value)
    return Each(Leaf(next(iter(schema["patternProperties"].values()))))


def _options(annotation: object) -> Iterator[object]:
    """The alternatives of a union, without what is annotated."""
    if get_origin(annotation) is Annotated:
        yield from _options(get_args(annotation)[0])
    elif get_origin(annotation) in {Union, types.UnionType}:
        for option in get_args(annotation):
            yield from _options(option)
    else:
        yield annotation


def close(word: str, choices: Iterable[str]) -> str | None:
    """What was probably meant. A short word is near to too many others."""
    return nearest(word, choices, edits_max=1 if len(word) < LONG_CHARACTERS_MIN else EDITS_MAX)


def meant(path: Keys, key: str, also: Sequence[str] = ()) -> Keys | None:
    """The path that was probably meant by a key that does not exist below `path`."""
    if (node := at(path)) is None:
        return None
    if found := close(key, [*fields(node), *also]):
        return (*path, found)
    whole = "_".join((*path, key))
    for leaf in leaves():
        parts = re.fullmatch("_".join(part.replace(ANY_NAME, "([a-z0-9-]+)") for part in leaf), whole)
        if parts:
            names = iter(parts.groups())
            return tuple(next(names) if part == ANY_NAME else part for part in leaf)
    elsewhere = [leaf for leaf in leaves() if leaf[-1] == key and ANY_NAME not in leaf]
    return elsewhere[0] if len(elsewhere) == 1 else None


@cache
def leaves() -> Sequence[Keys]:
    """The paths of all values, with `*` for names."""
    return tuple(_leaves(Settings, ()))


def _leaves(node: Node, path: Keys) -> Iterator[Keys]:
    if isinstance(node, Leaf):
        yield path
    elif isinstance(node, Each):
        yield from _leaves(node.of, (*path, ANY_NAME))
    else:
        for key, child in _children(node).items():
            yield from _leaves(child, (*path, key))
        if node.entry is not None:
            yield from _leaves(node.entry, (*path, ANY_NAME))


def allowed(schema: Mapping[str, Any]) -> str:
    """What a JSON Schema allows, in words."""
    match schema:
        case {"anyOf": options}:
            return " or ".join(allowed(option) for option in options if option.get("type") != "null")
        case {"enum": choices}:
            words = "one of " + ", ".join(f"`{choice}`" for choice in choices)
        case {"const": choice}:
            words = f"`{choice}`"
        case {"type": "array", "items": item}:
            words = f"a list, of {allowed(item)} each"
        case {"type": "boolean"}:
            words = "`true` or `false`"
        case {"type": "integer"}:
            words = f"a whole number{_bounds(schema)}"
        case {"type": "number"}:
            words = f"a number{_bounds(schema)}"
        case _:
            words = "a text"
    return words


def _bounds(schema: Mapping[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']:g} to {schema['maximum']:.15g}"
    above = f" above {schema['exclusiveMinimum']:g}" if "exclusiveMinimum" in schema else ""
    return f"{above} up to {schema['maximum']:.15g}" if "maximum" in schema else above
