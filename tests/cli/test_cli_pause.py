"""`reactor pause`, `reactor resume`, and what `list` and `run` say of it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from reactor.state import PostgresState
from tests.cli.conftest import NUMBERS, PROGRAM, Reactor
from tests.cli.test_cli_positions import in_state

Online = Callable[[Mapping[str, str]], Path]
NUMBERS_URI = "ducklake://main/numbers"


async def migrated(_state: PostgresState) -> None:
    """The state is there."""


def test_paused_listed_refused_and_resumed(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS, "after.py": PROGRAM})
    in_state(folder, migrated)
    said = reactor("pause", NUMBERS_URI, "--reason", "upstream is being repaired", "--project", folder, "--json")
    assert (said.exit_code, said.answer["schema"]) == (0, "reactor.cli.pause.v1")
    assert {name: said.data[name] for name in ("asset", "paused", "changed", "reason")} == {
        "asset": NUMBERS_URI, "paused": True, "changed": True, "reason": "upstream is being repaired"}
    again = reactor("pause", "numbers.sql", "--reason", "another", "--project", folder, "--json").data
    assert (again["changed"], again["reason"]) == (False, "upstream is being repaired")

    listed = reactor("list", "--project", folder, "--json").data
    assert {line["script"]: line["state"] for line in listed["scripts"]} == {"after.py": "active", "numbers.sql": "paused"}
    assert [line["paused"] for line in listed["assets"]] == [True]
    assert "upstream is being repaired" in reactor("list", "--project", folder).out

    refused = reactor("run", "numbers.sql", "--project", folder, "--json")
    assert refused.exit_code == 1
    assert refused.problem["hint"] == f"reactor resume {NUMBERS_URI}"

    assert reactor("resume", NUMBERS_URI, "--project", folder, "--json").data["changed"] is True
    assert reactor("resume", NUMBERS_URI, "--project", folder, "--json").data["changed"] is False
    assert reactor("run", "numbers.sql", "--project", folder).exit_code == 0


def test_a_program_is_paused_by_its_path(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS, "after.py": PROGRAM})
    in_state(folder, migrated)
    assert reactor("pause", "after.py", "--project", folder, "--json").data["asset"] == "after.py"
    assert "already paused" in reactor("pause", "after.py", "--project", folder).out
    assert "running" in reactor("resume", "after.py", "--project", folder).out


def test_what_no_script_makes_is_refused(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS})
    in_state(folder, migrated)
    said = reactor("pause", "ducklake://main/nubmers", "--project", folder, "--json")
    assert said.exit_code == 2
    assert said.problem["hint"] == f"did you mean {NUMBERS_URI}?"
    assert reactor("resume", "ducklake://main/nubmers", "--project", folder).exit_code == 2


def test_what_is_gone_from_the_project_can_be_resumed(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS})
    in_state(folder, migrated)
    assert reactor("pause", NUMBERS_URI, "--project", folder).exit_code == 0
    (folder / "numbers.sql").unlink()
    assert reactor("resume", NUMBERS_URI, "--project", folder, "--json").data["changed"] is True


def test_without_a_database_it_is_unreachable(reactor: Reactor, offline: Online) -> None:
    said = reactor("pause", NUMBERS_URI, "--project", offline({"numbers.sql": NUMBERS}), "--json")
    assert said.exit_code == 3
