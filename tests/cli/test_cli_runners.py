"""FH-8: programs run in another environment by `[runners.python]`; a module that is missing names the fix."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import NUMBERS, Reactor

Online = Callable[[Mapping[str, str]], Path]
TELLS = """\
# on ducklake://main/numbers
import json, pathlib, sys
import beside, only_there

def main(trigger, partition):
    said = {"prefix": sys.prefix, "there": only_there.WORD, "beside": beside.WORD, "reason": trigger["reason"], "partition": partition}
    pathlib.Path("told.json").write_text(json.dumps(said))
"""
NEEDS = "# on ducklake://main/numbers\nimport nonesuch.inner\n"
OWN_NAMES = "# on ducklake://main/numbers\nimport errors\nprint(errors.WORD)\n"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment that has a module of its own, and no Reactor."""
    folder = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "only_there.py").write_text("WORD = 'there'\n")
    return folder


def named(folder: Path, interpreter: str) -> None:
    with (folder / "reactor.toml").open("a") as settings:
        settings.write(f'[runners.python]\ninterpreter = "{interpreter}"\n')


@pytest.mark.parametrize("relative", [False, True])
def test_a_program_runs_in_the_environment_that_is_named(
    reactor: Reactor, online: Online, venv: Path, monkeypatch: pytest.MonkeyPatch, *, relative: bool,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # it would lend the other environment what is here
    folder = online({"numbers.sql": NUMBERS, "lib/tells.py": TELLS, "lib/beside.py": "WORD = 'beside'\n"})
    named(folder, f"../{venv.name}/bin/python" if relative else f"{venv}/bin/python")
    said = reactor("run", "lib/tells.py", "--project", folder)
    assert said.exit_code == 0, said.err
    assert json.loads((folder / "told.json").read_text()) == {
        "prefix": str(venv), "there": "there", "beside": "beside", "reason": "manual", "partition": ""}


def test_a_missing_module_names_the_fix(reactor: Reactor, online: Online, venv: Path) -> None:
    folder = online({"numbers.sql": NUMBERS, "needs.py": NEEDS})
    for python in (sys.executable, f"{venv}/bin/python"):
        if python != sys.executable:
            named(folder, python)
        said = reactor("run", "needs.py", "--project", folder, "--json")
        assert said.exit_code == 1
        assert "no module `nonesuch`" in said.data["error"]
        assert f"{python} -m pip install nonesuch" in said.data["error"]
        assert "[runners.python] interpreter" in said.data["error"]


def test_modules_of_reactor_are_no_modules_of_a_program(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS, "own.py": OWN_NAMES, "errors.py": "WORD = 'my own'\n"})
    said = reactor("run", "own.py", "--project", folder)
    assert said.exit_code == 0, said.err
    run = reactor("runs", "list", "--script", "own.py", "--project", folder, "--json").data["items"][0]["run_id"]
    assert reactor("runs", "logs", run, "--project", folder).out == "my own\n"


def test_an_interpreter_that_is_not_there_is_said(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS, "needs.py": NEEDS})
    named(folder, "no/such/python")
    said = reactor("run", "needs.py", "--project", folder, "--json")
    assert said.exit_code == 1
    assert "[runners.python]" in said.data["error"]
