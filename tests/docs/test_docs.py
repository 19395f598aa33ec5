"""The documentation is whole, builds without a warning, and its examples are accepted by what they are examples of."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.first_hour import PAGES, steps
from docs.reference import PAGES as REFERENCE
from docs.reference import command_of, commands, documented, help_of, measured
from reactor.cli.entry import VERBS
from reactor.domain.annotations import KEYWORDS, read_header
from reactor.domain.assets import ProjectNames
from reactor.domain.project import check_project
from reactor.lake.connecting import CATALOG_VERSION, READERS
from reactor.settings import load
from reactor.settings.shape import leaves
from reactor.telemetry import EVENTS

ROOT = Path(__file__).parents[2]
NAMES = ProjectNames(clusters=("main",))
HAND_WRITTEN = sorted(PAGES.glob("*.md"))


def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", ROOT / "docs/mkdocs.yml", "--site-dir", tmp_path],
        check=False, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}, timeout=300)
    assert (build.returncode, build.stdout, build.stderr) == (0, "", "")
    assert {page.stem for page in tmp_path.glob("reference/*")} == REFERENCE.keys()


def test_every_verb_setting_metric_and_annotation_is_in_the_reference() -> None:
    pages = {name: page() for name, page in REFERENCE.items()}
    assert [verb for verb in VERBS if f"## `reactor {verb}" not in pages["verbs"]] == []
    assert [word for word in KEYWORDS if f"## `{word}`" not in pages["annotations"]] == []
    settings = pages["settings"].split("\n## ")
    for path in leaves():
        section = ".".join("<name>" if key == "*" else key for key in path[:-1])
        (part,) = (one for one in settings if one.startswith(f"`[{section}]`" if section else "Above"))
        assert f"### `{'<name>' if path[-1] == '*' else path[-1]}`" in part, path
    assert all(f"`{name}`" in pages["metrics"] for name, *_ in measured())
    assert len(list(measured())) > 15
    assert all(f"| `{event}` |" in pages["logs"] for event in EVENTS)


def test_every_event_schema_is_in_the_reference() -> None:
    shipped = {path.stem for path in (ROOT / "reactor/schemas").glob("*.json")}
    assert [name for name in shipped if f"urn:reactor:schema:{name.replace('.', ':')}" not in REFERENCE["events"]()] == []


def test_who_may_read_is_what_connect_says() -> None:
    text = (PAGES / "readers.md").read_text()
    assert READERS in " ".join(text.split())
    assert f"version {CATALOG_VERSION} of DuckLake's format" in text


@pytest.mark.parametrize("word", KEYWORDS)
def test_the_examples_of_an_annotation_are_read(word: str) -> None:
    _, examples = documented(KEYWORDS[word])
    assert examples or word in {"measure", "dimension"}
    for example in examples:
        reading = read_header(f"{example}\nSELECT 1", NAMES)
        assert [a.keyword for a in reading.annotations] == [word], example
        assert [found.message for found in reading.findings if found.severity in {"error", "warning"}] == [], example




@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.stem)
def test_the_scripts_and_settings_of_a_page_are_accepted(page: Path, tmp_path: Path) -> None:
    for step in steps(page):
        if step.language == "sql" and step.text.startswith("-- pipeline") and "materialise" not in step.text:
            checked = check_project({"one.sql": step.text.encode()}, NAMES)
            assert [found.message for found in checked.diagnostics if found.severity == "error"] == []
        if step.language == "python":
            compile(step.text, step.title, "exec")
        if step.language == "toml":
            (tmp_path / "reactor.toml").write_text(step.text)
            load(tmp_path, flags={}, environ=dict.fromkeys(re.findall(r"env:(\w+)", step.text), "postgresql://reactor@db:5432/reactor"))


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.stem)
def test_the_verbs_and_options_of_a_page_exist(page: Path) -> None:
    lines = re.findall(r"`(reactor [^`\n]+)`", page.read_text()) + [
        line for step in steps(page) if step.language == "sh" for line in step.text.splitlines() if line.startswith("reactor ")]
    helps = {path: help_of(path, command) for name, verb in VERBS.items() for path, command in commands(name, command_of(verb))}
    for line in lines:
        words = line.removeprefix("reactor ").split()
        path = next((path for path in (" ".join(words[:2]), words[0]) if path in helps), None)
        assert path is not None or any(known.startswith(f"{words[0]} ") for known in helps), line
        assert [option for option in re.findall(r"--[a-z-]+", line) if path and option not in helps[path]] == [], line


def test_no_secret_of_the_environment_is_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACTOR_STATE__URL", "postgresql://reactor:planted-secret@127.0.0.1:1/nowhere")
    assert [name for name, page in REFERENCE.items() if "planted-secret" in page()] == []
