"""Finding the verb, the flags of every verb, and exit codes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest
import typer.main

from reactor import __version__
from reactor.cli import entry
from reactor.cli.failures import FAILED, INTERRUPTED, STOPPED, UNREACHABLE, USAGE, TimedOut, failure_of
from reactor.errors import Conflict, LakeHalted, Outage, RunBlocked, RunFailed, StateForbids, UsageError
from tests.cli.conftest import NUMBERS, Reactor


def all_verbs() -> Iterator[str]:
    """Every verb there is, `runs list` for one of several."""
    for name, found in entry.VERBS.items():
        command = typer.main.get_command(getattr(import_module(found.module), found.app))
        below: Mapping[str, object] = getattr(command, "commands", {})
        yield from (f"{name} {one}" for one in below) if below else (name,)


VERBS = list(all_verbs())


def test_help_lists_the_verbs(reactor: Reactor) -> None:
    said = reactor("--help")
    assert said.exit_code == 0
    assert "Example: reactor init" in said.out
    assert [line.split()[0] for line in said.out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()] == list(entry.VERBS)
    assert reactor().out == said.out


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_has_help_with_an_example_and_the_flags_of_all(reactor: Reactor, name: str) -> None:
    said = reactor(*name.split(), "--help")
    assert said.exit_code == 0
    assert f"Example: reactor {name}" in said.out
    for flag in ("--project", "--profile", "--workspace", "--json", "--quiet", "--no-color", "--timeout"):
        assert flag in said.out


@pytest.mark.parametrize("name", sorted({name.partition(" ")[0] for name in VERBS if " " in name}))
def test_several_verbs_of_one_kind_have_an_example_too(reactor: Reactor, name: str) -> None:
    said = reactor(name, "--help")
    assert f"Example: reactor {name} " in said.out
    assert reactor(name).exit_code == USAGE


@pytest.mark.parametrize("name", entry.VERBS)
def test_the_list_of_verbs_says_what_the_verb_says(reactor: Reactor, name: str) -> None:
    assert entry.VERBS[name].says.rstrip(".") in " ".join(reactor(name, "--help").out.split())


def test_version(reactor: Reactor) -> None:
    assert reactor("--version").out == f"reactor {__version__}\n"


@pytest.mark.parametrize("argv", [["chek"], ["check", "--jsn"], ["compile"], ["runs"], ["runs", "lst"], ["query", "select 1", "--limit", "0"]])
def test_a_line_that_cannot_be_understood_is_a_usage_error(reactor: Reactor, argv: list[str]) -> None:
    said = reactor(*argv)
    assert (said.exit_code, said.out) == (USAGE, "")
    assert "--help" in said.err
    problem = reactor("--json", *argv).problem
    assert problem["type"] == "urn:reactor:problem:usage"
    assert problem["detail"]


def test_flags_stand_before_the_verb_or_behind_it(reactor: Reactor, offline: Callable[[Mapping[str, str]], Path]) -> None:
    folder = offline({"numbers.sql": NUMBERS})
    before = reactor("--project", folder, "--json", "check")
    behind = reactor("check", "--json", "--project", folder)
    assert before == behind
    assert before.answer["schema"] == "reactor.cli.check.v1"
    assert reactor("config", "--json", "--project", folder, "show") == reactor("config", "show", "--json", "--project", folder)


def test_the_project_is_the_folder_above_that_has_settings(
    reactor: Reactor, offline: Callable[[Mapping[str, str]], Path], monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = offline({"raw/numbers.sql": NUMBERS})
    monkeypatch.chdir(folder / "raw")
    assert "1 script" in reactor("check").err
    assert "1 script" in reactor("check", "numbers.sql").err


@pytest.mark.parametrize("verb", ["check", "list"])
def test_a_folder_that_is_taken_for_a_project_is_named(reactor: Reactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.chdir(tmp_path)
    said = reactor(verb)
    assert said.exit_code == 0
    assert f"no reactor.toml here or above: {tmp_path} is taken as the project; `reactor init` makes one" in " ".join(said.err.split())
    assert "taken" not in reactor(verb, "--project", tmp_path).err


def test_quiet_keeps_the_result(reactor: Reactor, offline: Callable[[Mapping[str, str]], Path]) -> None:
    said = reactor("check", "--quiet", "--project", offline({"numbers.sql": NUMBERS}))
    assert (said.exit_code, said.err) == (0, "")


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (StateForbids("x"), FAILED), (RunFailed("x"), FAILED), (RunBlocked("x"), FAILED), (LakeHalted("x"), FAILED), (Conflict("x"), FAILED),
        (UsageError("x"), USAGE), (Outage("x"), UNREACHABLE), (TimedOut("x"), STOPPED), (asyncio.CancelledError(), STOPPED),
        (KeyboardInterrupt(), INTERRUPTED), (ZeroDivisionError("x"), FAILED),
    ],
)  # fmt: skip
def test_each_error_has_its_exit_code(error: BaseException, exit_code: int) -> None:
    failure = failure_of(error)
    assert failure.exit_code == exit_code
    assert json.loads(failure.problem)["exit_code"] == exit_code
    assert failure_of(BaseExceptionGroup("tasks", [BaseExceptionGroup("more", [error])])).exit_code == exit_code


def test_an_interrupted_query_is_an_interrupt() -> None:
    """DuckDB wraps what a signal handler has raised."""
    error = RuntimeError("Query interrupted")
    error.__cause__ = KeyboardInterrupt()
    assert failure_of(error).exit_code == INTERRUPTED


def test_a_mistake_of_reactor_shows_its_trace(monkeypatch: pytest.MonkeyPatch, reactor: Reactor) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(entry, "command", broken)
    said = reactor("check")
    assert said.exit_code == FAILED
    assert "ZeroDivisionError: oops" in said.err
    assert "in broken" in said.err
    assert "report" in said.err


def test_the_settings_say_where_they_are_wrong(reactor: Reactor, tmp_path: Path) -> None:
    (tmp_path / "reactor.toml").write_text("[stat]\nurl = 'embedded'\n")
    said = reactor("check", "--project", tmp_path)
    assert said.exit_code == USAGE
    assert "reactor.toml:1:" in said.err
    problem = reactor("check", "--json", "--project", tmp_path).problem
    assert problem["type"] == "urn:reactor:problem:settings"
    assert problem["errors"][0]["suggestion"] == "state"


def test_a_verb_that_only_looks_at_scripts_imports_no_driver() -> None:
    """An editor asks `check` at every keystroke."""
    code = "import sys; from reactor.cli import main; main(['check', '--help']); sys.exit(bool({'duckdb', 'aiokafka', 'asyncpg'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_whoever_reads_may_stop_reading(offline: Callable[[Mapping[str, str]], Path]) -> None:
    folder = offline({f"s{n}.sql": NUMBERS for n in range(200)})
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "reactor", "check", "--project", str(folder)], stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "mistake in Reactor" not in done.stderr


@pytest.mark.parametrize(("typed", "word", "offered"), [
    (["gr"], 1, {"graph"}), (["positions", ""], 2, {"list", "reset", "acknowledge"}), (["graph", "--f"], 2, {"--format"}),
    (["graph", "--format", ""], 3, {"tree", "mermaid", "dot"}),
])  # fmt: skip
def test_the_shell_is_offered_what_fits(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch, typed: list[str], word: int, offered: set[str],
) -> None:
    monkeypatch.setenv("_REACTOR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(["reactor", *typed]))
    monkeypatch.setenv("COMP_CWORD", str(word))
    said = reactor()
    assert (said.exit_code, set(said.out.split())) == (0, offered)


def test_the_completion_of_bash_is_printed() -> None:
    command = f"{sys.executable} -m reactor --show-completion; exit $?"  # with a second command it stays a shell, which is looked for
    said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    assert "complete -o default -F _reactor_completion reactor" in said.stdout


def test_ctrl_c_of_a_look_is_130(online: Callable[[Mapping[str, str]], Path]) -> None:
    folder = online({"numbers.sql": NUMBERS})
    command = [sys.executable, "-m", "reactor", "--project", str(folder)]
    assert subprocess.run([*command, "run", "numbers.sql"], capture_output=True, check=False).returncode == 0
    with subprocess.Popen([*command, "events", "tail", "--from-start"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        assert "ducklake://main/numbers" in tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == INTERRUPTED
