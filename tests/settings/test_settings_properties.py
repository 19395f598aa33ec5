"""Whatever stands in the file, the environment and the secrets: settings, or one error that says so and repeats no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactor.settings import SettingsError, load
from reactor.settings.layers import variable
from reactor.settings.shape import leaves
from tests.settings.projects import Project
from tests.settings.test_settings_problems import BOUNDS

PLANTED = "hunter2"
WORDS = sorted({part for path in leaves() for part in path} | {"profiles", "dev", "main", "k", "prt", "x-y", "a b", "", "ä"} - {"*"})
TEXTS = ["", "x", "5", "true", "env:X", "env:ABSENT", "file:none", "embedded", "kafka", "postgresql://u@h/d", "s3://b/p", "~", "a:1", "[1", "\x00", "\udc80"]
KEYS = st.sampled_from(WORDS) | st.text(max_size=4)
LEAVES: st.SearchStrategy[object] = st.one_of(
    st.sampled_from(TEXTS), st.integers(-2, 2**70), st.floats(), st.booleans(), st.text(max_size=8), st.just([]), st.just([1, "x", {"a": [2]}]))
TREES: st.SearchStrategy[Any] = st.dictionaries(KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=12), max_size=5)


def toml(value: object) -> str:
    """A value as TOML, in one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{text(key)} = {toml(child)}" for key, child in value.items()) + "}"
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case float():
            return repr(value) if "e" not in repr(value) else f"{value:e}"
        case str():
            return text(value)
        case _:
            return json.dumps(value)


def text(value: str) -> str:
    return json.dumps(value.encode(errors="replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings")


def loads(folder: Path, environ: dict[str, str], profile: str | None = None, **flags: object) -> None:
    """Either it is loaded, or refused as a user should be told."""
    refused: SettingsError | None = None
    try:
        loaded = load(folder, flags=flags, environ=environ, profile=profile, secrets_dir=folder / "secrets")
    except SettingsError as error:
        refused = error
    if refused is not None:
        assert refused.problems
        assert all(line.isprintable() for line in str(refused).split("\n"))
        assert PLANTED not in str(refused)
        return
    assert [line.name for line in loaded.shown()] == list(loaded.origins)
    assert PLANTED not in repr(loaded)


CALM = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@CALM
@given(tree=TREES, profile=st.sampled_from([None, "dev"]))
def test_any_tree(folder: Path, tree: dict[str, Any], profile: str | None) -> None:
    tree.setdefault("kafka", {"k": {"sasl_password": PLANTED}})
    (folder / "reactor.toml").write_text("\n".join(f"{text(key)} = {toml(value)}" for key, value in tree.items()))
    loads(folder, {"X": "y"}, profile)


@CALM
@given(content=st.binary(max_size=40) | st.text('[]{}="\'#.,ab1\n', max_size=30).map(str.encode))
def test_any_bytes(folder: Path, content: bytes) -> None:
    (folder / "reactor.toml").write_bytes(content)
    loads(folder, {})


@CALM
@given(st.dictionaries(
    st.lists(st.sampled_from([word.upper() for word in WORDS]) | st.text("AB_a", max_size=3), min_size=1, max_size=4).map(lambda w: "REACTOR_" + "__".join(w)),
    st.sampled_from(TEXTS) | st.text(max_size=8), max_size=6))
def test_any_environment(folder: Path, environ: dict[str, str]) -> None:
    (folder / "reactor.toml").write_text("[lakes.main]\n[kafka.k]\n")
    loads(folder, environ)


@CALM
@given(st.dictionaries(st.lists(KEYS, min_size=1, max_size=4).map(".".join), LEAVES | st.none(), max_size=4))
def test_any_flags(folder: Path, flags: dict[str, object]) -> None:
    (folder / "reactor.toml").write_text("[kafka.k]\n")
    loads(folder, {"X": "y"}, None, **flags)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, inside, _ in BOUNDS for value in inside])
def test_a_value_means_the_same_in_every_layer(project: Project, name: str, value: object) -> None:
    path = tuple(name.split("."))
    needed = '[stores.x]\nbucket = "abc"\n' if path[0] == "stores" and path[-1] != "bucket" else ""
    plain = json.loads(value) if isinstance(value, str) else value
    as_text = value.strip('"') if isinstance(value, str) else str(value)
    project.file(needed)
    by_flag = project.load(None, None, **{name: plain}).settings
    by_environment = project.load({variable(path): as_text}).settings
    by_secret = project.secret("__".join(path), f"{as_text}\n").load().settings
    (project.secrets / "__".join(path)).unlink()
    section = f"[{'.'.join(path[:-1])}]\n" if path[:-1] and not needed else ""
    by_file = project.file(f"{needed}{section}{path[-1]} = {toml(plain)}\n").load().settings
    if name == "variables.x":
        assert by_flag == by_file
    elif name == "state.url":
        assert by_flag.state.url.reveal() == by_environment.state.url.reveal() == by_secret.state.url.reveal() == by_file.state.url.reveal()
    else:
        assert by_flag == by_environment == by_secret == by_file
