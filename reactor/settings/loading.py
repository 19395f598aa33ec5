"""From layers to `Settings`: lay them over each other, fetch the secrets, validate, and say everything that is wrong at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from reactor.errors import UsageError
from reactor.settings.document import document
from reactor.settings.layers import PREFIX, PROFILES, REFERENCE, Given, Problem
from reactor.settings.layers import flags as flags_layer
from reactor.settings.shape import Keys, Leaf, allowed, at, close, inactive
from reactor.settings.tree import Settings
from reactor.settings.values import TOGETHER, Secret, Url
from reactor.settings.variables import PROFILE_VARIABLE, environment, secret_text, secrets_folder

FILE: Final = "reactor.toml"
SECRETS_FOLDER: Final = Path("/run/secrets/reactor")
"""Where containers find their secrets as files."""
DEFAULT: Final = "default"
SHOWN_CHARACTERS_MAX, SHOWN_BITS_MAX = 60, 64
"""Of a wrong value in a message."""


class SettingsError(UsageError):
    """The settings are wrong. `problems`: all of them, in the order of the layers."""

    slug = "settings"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of `config show`: a dotted name, the value as JSON has it (secrets as `***`), and its origin."""

    name: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with the origin of each value by dotted name: `environment REACTOR_…`, `reactor.toml:12`, a file, `flag …`, `default`."""

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...]

    def is_set(self, name: str) -> bool:
        """Whether somebody has set it; else it is the default. `name`: dotted, `http.port`."""
        return self.origins.get(name, DEFAULT) != DEFAULT

    def shown(self) -> Sequence[Shown]:
        """Every value in force, as it may be printed."""
        return [Shown(".".join(path), value, self.origins[".".join(path)]) for path, value in _values(self.settings)]


def load(
    project: Path, *, flags: Mapping[str, object], environ: Mapping[str, str], profile: str | None = None, secrets_dir: Path = SECRETS_FOLDER,
) -> Loaded:
    """The settings of a project: flag > environment > folder of secrets > profile > `reactor.toml` > default.

    `flags`: by dotted name (`http.port`), None for one that was not used. `profile`: else `REACTOR_PROFILE`. Raises `SettingsError`.
    """
    if not project.is_dir():
        raise SettingsError([Problem(str(project), "", "no such folder")])
    chosen = profile or environ.get(PROFILE_VARIABLE) or None
    stack = _Stack(project, environ, chosen)
    file = project / FILE
    written = list(document(file))
    stack.lay(read for read in written if isinstance(read, Problem) or read.profile in {None, chosen})
    profiles = {read.profile for read in written if isinstance(read, Given)} - {None}
    if chosen is not None and chosen not in profiles and not stack.problems:
        there_are = f"there is {', '.join(f'`{name}`' for name in sorted(filter(None, profiles)))}" if profiles else "there is none"
        stack.problems.append(Problem(str(file), f"profiles.{chosen}", f"no such profile; {there_are}", close(chosen, filter(None, profiles))))
    by_flag = list(flags_layer(flags))
    stack.lay(secrets_folder(secrets_dir, stack.given))
    stack.lay(environment(environ, stack.given, _referenced(written, by_flag, environ)))
    stack.lay(by_flag)
    return stack.loaded()


def _referenced(written: Iterable[Given | Problem], by_flag: Iterable[Given | Problem], environ: Mapping[str, str]) -> set[str]:
    """The variables that some setting names by `env:`, in whatever profile."""
    references = [read.reference for read in (*written, *by_flag) if isinstance(read, Given)]
    references += [REFERENCE.fullmatch(text) for name, text in environ.items() if name.startswith(PREFIX)]
    return {found[1] for found in references if found is not None and found[1]}


class _Stack:
    """The layers so far, one over the other, and what is wrong with them."""

    def __init__(self, project: Path, environ: Mapping[str, str], profile: str | None) -> None:
        self.given: dict[Keys, Given] = {}
        self.problems: list[Problem] = []
        self._project, self._environ, self._profile = project, environ, profile

    def lay(self, layer: Iterable[Given | Problem]) -> None:
        """A layer over those before it."""
        for read in layer:
            if isinstance(read, Problem):
                self.problems.append(read)
            elif read.path:
                self.given[read.path] = read

    def loaded(self) -> Loaded:
        """Everything put together. Raises `SettingsError`."""
        self.given = {path: fetched for path, given in self.given.items() if (fetched := self._fetched(given)) is not None}
        settings, errors = _validated(self._tree(), self._project)
        first: dict[object, ErrorDetails] = {}
        for error in errors:
            first.setdefault(_place(error["loc"]), error)
        for error in first.values():
            self._add(error)
        if settings is None or self.problems:
            raise SettingsError(self.problems)
        names = {".".join(path): path for path, _ in _values(settings)}
        origins = {name: self.given[path].origin if path in self.given else DEFAULT for name, path in names.items()}
        return Loaded(settings, MappingProxyType(origins), tuple(self._warnings()))

    def _fetched(self, given: Given) -> Given | None:
        """With the secret that it is, or names, wrapped; None: it cannot be had."""
        leaf, found = at(given.path), given.reference
        if not isinstance(leaf, Leaf) or leaf.secret is None or not isinstance(given.value, str) or not given.value:
            return given
        if found is None:
            return replace(given, value=_wrapped(leaf, given.value, hidden=given.layer != "file"))
        try:
            text = self._variable(found[1]) if found[1] else secret_text(self._project / found[2])
        except ValueError as error:
            self.problems.append(given.problem(f"`{given.value}`: {error}"))
            return None
        return replace(given, value=_wrapped(leaf, text, hidden=True), origin=f"{given.origin}, {given.value}")

    def _variable(self, name: str) -> str:
        if text := self._environ.get(name, ""):
            return text
        raise ValueError("the environment has no such variable, or it is empty")

    def _tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"lakes": {}}
        for path, given in self.given.items():
            table = tree
            for key in path[:-1]:
                table = table.setdefault(key, {})
            if isinstance(at(path), Leaf):
                table[path[-1]] = given.value
            else:
                table.setdefault(path[-1], {})
        return tree

    def _add(self, error: ErrorDetails) -> None:
        """One of pydantic's errors, unless a value is missing only because it was refused."""
        path = _path(error["loc"])
        given = self.given.get(path)
        if given is None and {path, (PROFILES, self._profile, *path)} & {problem.refused for problem in self.problems}:
            return
        message, suggestion = _said(error, at(path), given.value if given else None, error["loc"][len(path):])
        near = given or self._nearest(path)
        self.problems.append(Problem(near.place if near else FILE, ".".join(given.written if given else path), message, suggestion))

    def _nearest(self, path: Keys) -> Given | None:
        """What was given there, else the section around it, else anything in that section."""
        for depth in range(len(path), 0, -1):
            if (given := self.given.get(path[:depth])) or (given := next((g for p, g in self.given.items() if p[:depth] == path[:depth]), None)):
                return given
        return None

    def _warnings(self) -> Iterator[str]:
        seen = set()
        for path, given in self.given.items():
            part = inactive(path)
            if part is not None and part not in seen:
                seen.add(part)
                section, field = (part[:-1], f" {part[-1]}") if isinstance(at(part), Leaf) else (part, "")
                yield f"[{'.'.join(section)}]{field} is known, not active yet ({given.origin})"


def _validated(tree: Mapping[str, Any], project: Path) -> tuple[Settings | None, Sequence[ErrorDetails]]:
    try:
        return Settings.model_validate(tree, context={"project": project.absolute()}), ()
    except ValidationError as error:
        return None, error.errors(include_url=False, include_input=False)


def _wrapped(leaf: Leaf, text: str, *, hidden: bool) -> Secret:
    return Url(text, hidden=hidden) if leaf.secret is Url else Secret(text)


def _place(location: Sequence[int | str]) -> tuple[Keys, int | None]:
    """One place for all alternatives of a type: the path, and the number in a list."""
    path = _path(location)
    return path, next((number for number in location[len(path):] if isinstance(number, int)), None)


def _path(location: Sequence[int | str]) -> Keys:
    """The path of a setting in pydantic's location, which goes on into lists and the alternatives of a type."""
    path: Keys = ()
    for key in location:
        if not isinstance(key, str) or at((*path, key)) is None:
            break
        path = (*path, key)
    return path


def _said(error: ErrorDetails, leaf: object, value: object, inside: Sequence[int | str]) -> tuple[str, str | None]:
    """What is wrong, in our words, and what was meant."""
    context = error.get("ctx", {})
    if error["type"] == TOGETHER:
        return str(context["said"]), None
    if error["loc"][-1] == "[key]":
        return f"{_shown(error['loc'][-2])} is not allowed: {context.get('error', error['msg'])}", None
    if not isinstance(leaf, Leaf):
        return error["msg"], None
    if error["type"] == "missing":
        return "it is missing, and there is no default", None
    schema = leaf.schema
    if inside and isinstance(inside[0], int) and isinstance(value, list):
        schema, value = schema["items"], value[inside[0]]
    what = "this value" if leaf.secret else _shown(value)
    instead = close(value, schema.get("enum", ())) if isinstance(value, str) else None
    return f"{what} is not allowed: {context.get('error') or allowed(schema)}", instead


def _shown(value: object) -> str:
    """A wrong value, as far as it may be shown."""
    match value:
        case str():
            return f"`{re.sub('://[^/]*@', '://***@', value[:SHOWN_CHARACTERS_MAX])}`"
        case bool():
            return f"`{str(value).lower()}`"
        case int() if value.bit_length() > SHOWN_BITS_MAX:
            return "this number"
        case int() | float():
            return f"`{value}`"
        case _:
            return "this value"


def _values(settings: Settings) -> Iterator[tuple[Keys, object]]:
    """All values in force, as JSON has them."""
    yield from _below(settings.model_dump(mode="json"), ())


def _below(value: object, path: Keys) -> Iterator[tuple[Keys, object]]:
    if isinstance(value, dict) and not isinstance(at(path), Leaf):
        for key, child in value.items():
            yield from _below(child, (*path, key))
    else:
        yield path, value
