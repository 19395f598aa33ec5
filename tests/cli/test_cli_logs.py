"""`reactor runs logs` and `reactor tail`, while things happen."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import NUMBERS, Reactor
from tests.parts.waiting import wait_until

Online = Callable[[Mapping[str, str]], Path]
TALKS = """\
# on ducklake://main/numbers
import pathlib, time

def main():
    print("one\\twith a tab")
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    print("two")
    print("no end", end="")
"""
BREAKS = "# on ducklake://main/numbers\nimport sys\nprint('x' * 2_000_000)\nsys.exit('why it broke')\n"
NULL_KEYS = "-- materialize ducklake://main/keyed key=id\nSELECT NULL::INTEGER AS id, 1 AS n\n"
WAIT_SECONDS = 120.0


@contextmanager
def started(*argv: str | Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "reactor", *map(str, argv)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run_id(reactor: Reactor, folder: Path, script: str) -> str:
    found: list[str] = []

    def there() -> bool:
        said = reactor("runs", "list", "--script", script, "--project", folder, "--json")
        found[:] = [run["run_id"] for run in said.data["items"]] if said.exit_code == 0 else []
        return bool(found)

    wait_until(there, f"a run of {script}", WAIT_SECONDS)
    return found[0]


def test_a_program_is_heard_while_it_runs(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS, "talks.py": TALKS})
    with started("run", "talks.py", "--project", folder) as running:
        run = run_id(reactor, folder, "talks.py")
        with started("runs", "logs", run, "--follow", "--json", "--project", folder) as following:
            assert following.stdout is not None
            first = json.loads(following.stdout.readline())
            assert (first["schema"], first["data"]["line"]) == ("reactor.cli.runs.logs.v1", "one\twith a tab")
            assert running.poll() is None
            (folder / "go").touch()
            rest = [json.loads(line)["data"]["line"] for line in following.stdout]
            assert rest == ["two", "no end"]
            assert following.wait(WAIT_SECONDS) == 0
        assert running.wait(WAIT_SECONDS) == 0
    assert reactor("runs", "logs", run, "--project", folder).out.splitlines() == ["one     with a tab", "two", "no end"]
    data = reactor("runs", "logs", run, "--project", folder, "--json").data
    assert [line["line"] for line in data["lines"]] == ["one\twith a tab", "two", "no end"]
    assert data["whole"] is True
    assert reactor("runs", "logs", run, "--follow", "--project", folder).out.splitlines() == ["one     with a tab", "two", "no end"]


def test_the_end_of_much_is_kept(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS, "breaks.py": BREAKS})
    assert reactor("run", "breaks.py", "--project", folder).exit_code == 1
    run = run_id(reactor, folder, "breaks.py")
    said = reactor("runs", "logs", run, "--project", folder, "--json")
    assert said.data["lines"][-1]["line"] == "why it broke"
    assert sum(len(line["line"]) for line in said.data["lines"]) <= 1024 * 1024


def test_warnings_of_a_script_are_its_log(reactor: Reactor, online: Online) -> None:
    folder = online({"keyed.sql": NULL_KEYS})
    assert reactor("run", "keyed.sql", "--project", folder).exit_code == 0
    (line,) = reactor("runs", "logs", run_id(reactor, folder, "keyed.sql"), "--project", folder).out.splitlines()
    assert line.startswith("warning: ")


def test_a_run_that_is_not_there(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS})
    assert reactor("run", "numbers.sql", "--project", folder).exit_code == 0
    assert reactor("runs", "logs", "019ed0a4-7b1c-7c1e-8f1a-0d5b2a9c4e11", "--project", folder).exit_code == 1
    assert reactor("runs", "logs", run_id(reactor, folder, "numbers.sql"), "--project", folder).out == ""


def test_the_beginning_of_an_id_names_a_run(reactor: Reactor, online: Online, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(online({"numbers.sql": NUMBERS}))
    ids = [reactor("run", "numbers.sql", "--json").data["run_id"] for _ in range(2)]
    for run in ids:
        assert reactor("runs", "show", run[:-1].upper(), "--json").data["run_id"] == run
        assert reactor("runs", "logs", run.replace("-", "")[:-1]).exit_code == 0
    several = reactor("runs", "show", ids[0][:6])  # they begin with the time
    assert (several.exit_code, all(run in several.err for run in ids)) == (2, True)
    assert reactor("runs", "show", "ffffff").exit_code == 1
    assert [reactor("runs", "logs", said).exit_code for said in (ids[0][:5], ids[0] + "0", "no run")] == [2, 2, 2]


def test_events_are_shown_as_they_commit_until_ctrl_c(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS, "other.sql": NUMBERS.replace("numbers", "other")})
    assert reactor("run", "numbers.sql", "--project", folder).exit_code == 0
    with started("tail", "numbers.sql", "--from-start", "--json", "--project", folder) as tailing:
        assert tailing.stdout is not None
        first = json.loads(tailing.stdout.readline())
        assert (first["schema"], first["data"]["subject"]) == ("reactor.cli.tail.v1", "ducklake://main/numbers")
        assert reactor("run", "other.sql", "--project", folder).exit_code == 0
        (folder / "numbers.sql").write_text(NUMBERS.replace("10", "11"))
        assert reactor("run", "numbers.sql", "--project", folder).exit_code == 0
        second = json.loads(tailing.stdout.readline())
        assert second["data"]["subject"] == "ducklake://main/numbers"
        assert second["data"]["data"]["snapshot_id"] > first["data"]["data"]["snapshot_id"]
        tailing.send_signal(signal.SIGINT)
        assert tailing.wait(WAIT_SECONDS) == 130


@pytest.mark.parametrize("argv", [("--timeout", "0.6"), ("--timeout", "0.6", "--json")])
def test_tail_ends_with_its_time(reactor: Reactor, online: Online, argv: tuple[str, ...]) -> None:
    folder = online({"numbers.sql": NUMBERS})
    assert reactor("run", "numbers.sql", "--project", folder).exit_code == 0
    assert reactor("tail", "ducklake://main/numbers", "--project", folder, *argv).exit_code == 4
    assert reactor("tail", "ducklake://main/numbers", "--from-start", "--limit", "1", "--project", folder).exit_code == 0


def test_what_has_no_events(reactor: Reactor, online: Online) -> None:
    folder = online({"talks.py": TALKS})
    assert reactor("tail", "talks.py", "--project", folder).exit_code == 2
