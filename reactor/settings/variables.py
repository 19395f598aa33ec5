"""The layers whose names are environment variables: the environment itself, and the files of a folder of secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from reactor.settings.layers import PREFIX, Given, Layer, Problem, Read, checked, variable
from reactor.settings.shape import Each, Keys, Leaf, Node, fields, meant, step
from reactor.settings.tree import Settings

PROFILE_VARIABLE: Final = "REACTOR_PROFILE"
PROCESS_VARIABLES: Final = re.compile(r"REACTOR_(PROFILE|CI|FAILPOINT|PARTS_CACHE|TEST_.*)")
"""What Reactor's own processes and tests read themselves: no settings."""
KUBERNETES_VARIABLES: Final = re.compile(r"REACTOR_(PORT|SERVICE_).*")
"""What Kubernetes sets in every container beside a service called `reactor`."""
SECRET_BYTES_MAX: Final = 65_536

_SERVICE_LINK = re.compile(r".*_(PORT(_[0-9]+_(TCP|UDP).*)?|SERVICE_(HOST|PORT.*))")


def environment(environ: Mapping[str, str], names: Iterable[Keys], referenced: Collection[str]) -> Read:
    """The variables `REACTOR_<SECTION>__<FIELD>`. `names`: paths that are given, whose names a variable may mean; `referenced`: variables
    that are named by `env:`.
    """
    known = list(names)
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in referenced or PROCESS_VARIABLES.fullmatch(name) or KUBERNETES_VARIABLES.fullmatch(name):
            continue
        origin = f"environment {name}"
        if name != name.upper():
            yield Problem(origin, "", "no such setting", name.upper())
            continue
        yield _read(name, environ[name], known, "environment", origin)


def secrets_folder(folder: Path, names: Iterable[Keys]) -> Read:
    """One file for each value, called as its variable, in any case, with or without `REACTOR_`. No folder: nothing. Kubernetes' own entries
    begin with a dot.
    """
    known = list(names)
    try:
        files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        yield Problem(str(folder), "", f"it cannot be read: {error.strerror}")
        return
    seen: set[str] = set()
    for file in files:
        name = PREFIX + file.name.upper().removeprefix(PREFIX)
        try:
            text = secret_text(file)
        except ValueError as error:
            yield Problem(str(file), "", str(error))
        else:
            yield Problem(str(file), "", "another file here names the same setting") if name in seen else _read(name, text, known, "secrets", str(file))
        seen.add(name)


def secret_text(file: Path) -> str:
    """The text of a file without the line's end. Raises `ValueError` with what is wrong, never with the text."""
    try:
        with file.open("rb") as opened:
            content = opened.read(SECRET_BYTES_MAX + 1)
        text = content.decode("utf-8-sig").rstrip("\r\n")
    except OSError as error:
        message = f"it cannot be read: {error.strerror}"
    except ValueError:  # not UTF-8, or a path that holds a NUL
        message = "it cannot be read as text"
    else:
        if text and len(content) <= SECRET_BYTES_MAX:
            return text
        message = f"it is larger than {SECRET_BYTES_MAX} bytes" if text else "it is empty"
    raise ValueError(message)


def _read(name: str, text: str, known: Collection[Keys], layer: Layer, origin: str) -> Given | Problem:
    words = name.removeprefix(PREFIX).split("__")
    node: Node = Settings
    path: Keys = ()
    for depth, word in enumerate(words):
        key = _key(node, path, word, known)
        child = step(node, key) if word else None
        if child is None:
            return _unknown(origin, name, path, key, words[depth + 1:])
        node, path = child, (*path, key)
    if isinstance(node, Leaf):
        return checked(Given(path, _listed(text) if node.is_list else text, layer, origin, origin), node)
    below = "<NAME>__…" if isinstance(node, Each) else (fields(node) or ["…"])[0].upper()
    return Problem(origin, "", "this is a section: a variable sets one of its fields", f"{name}__{below}")


def _key(node: Node, path: Keys, word: str, known: Collection[Keys]) -> str:
    """The key of a word: a field, or a name of the user's, which may be written with capitals and `-`."""
    if word.lower() in fields(node):
        return word.lower()
    named = sorted({given[len(path)] for given in known if given[:len(path)] == path and len(given) > len(path)})
    return next((name for name in named if name.upper().replace("-", "_") == word), word.lower())


def _unknown(origin: str, name: str, path: Keys, key: str, rest: Iterable[str]) -> Problem:
    close = meant(path, key)
    suggestion = variable((*close, *rest)) if close else None
    if suggestion is None and _SERVICE_LINK.fullmatch(name):
        return Problem(origin, "", "no such setting; if Kubernetes set it, `enableServiceLinks: false` in the pod keeps it away")
    return Problem(origin, "", "no such setting", suggestion)


def _listed(text: str) -> object:
    """A list: JSON, or values with commas between them."""
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return [item.strip() for item in text.split(",")]
