"""Every exit code of the command line, each produced by a process, with its problem on stderr and nothing on stdout."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reactor.cli.call import Call, Flags
from reactor.cli.failures import TimedOut
from tests.cli.conftest import NUMBERS

Online = Callable[[Mapping[str, str]], Path]
LONG = "SELECT count(*) FROM range(100000000000) a, range(100) b"


def command(folder: Path, *argv: str) -> list[str]:
    return [sys.executable, "-m", "reactor", "--project", str(folder), "--json", *argv]


def ended(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *argv), capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def folder(online: Online) -> Path:
    """A project whose database is there and whose lake has been made."""
    made = online({"numbers.sql": NUMBERS})
    done = ended(made, "run", "numbers.sql")
    assert (done.returncode, json.loads(done.stdout)["schema"]) == (0, "reactor.cli.run.v1")
    return made


def problem(said: str) -> tuple[int, str]:
    found = json.loads(said.splitlines()[-1])
    assert found.keys() >= {"type", "title", "detail", "exit_code", "errors"}
    return found["exit_code"], found["type"].rpartition(":")[2]


def test_each_code_is_produced(folder: Path, offline: Online) -> None:
    for argv, expected in (
        (["explain", "0" * 32], (1, "failed")), (["explain", "nothing"], (2, "usage")), (["query", LONG, "--timeout", "1"], (4, "timeout")),
    ):  # fmt: skip
        done = ended(folder, *argv)
        assert (done.returncode, done.stdout, problem(done.stderr)) == (expected[0], "", expected)
    away = ended(offline({"numbers.sql": NUMBERS}), "explain", "numbers")
    assert (away.returncode, problem(away.stderr)) == (3, (3, "unreachable"))


def test_ctrl_c_is_130(folder: Path) -> None:
    with subprocess.Popen(command(folder, "events", "tail", "--from-start"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["data"]["subject"] == "ducklake://main/numbers"
        tail.send_signal(signal.SIGINT)
        _, said = tail.communicate(timeout=60)
    assert (tail.returncode, problem(said)) == (130, (130, "interrupted"))


def test_the_end_of_the_time_is_told_as_that_whatever_a_library_has_made_of_it() -> None:
    """pydantic calls us back from Rust, and makes an error of its own of what comes out."""

    def works(*, rings: bool) -> None:
        try:
            if rings:
                signal.raise_signal(signal.SIGALRM)
        finally:
            raise ValueError("an error of its own")

    for rings, error in ((True, TimedOut), (False, ValueError)):
        with pytest.raises(error), Call("explain", Flags(timeout=60.0)).limited():
            works(rings=rings)
