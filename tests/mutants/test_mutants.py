"""Every mutant falls to the test that it names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.campaign import Fate, fate_of, fates
from tests.mutants.catalogue import CATALOGUE, MUTANTS
from tests.mutants.mutant import Mutant


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Fate]:
    """What became of those that this session asks for; all together take two minutes."""
    mine = [item for item in request.session.items if item.nodeid.partition("::")[0] == request.node.nodeid]
    asked = [item.callspec.params["mutant"] for item in mine if hasattr(item, "callspec") and "mutant" in item.callspec.params]
    return {fate.name: fate for fate in fates(asked, postgres_server, tmp_path_factory.mktemp("mutants"))}


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_mutant_falls(mutant: str, found: Mapping[str, Fate]) -> None:
    assert found[mutant].outcome == "killed", found[mutant].said


def test_names_are_one_mutant_s() -> None:
    assert len(MUTANTS) == len(CATALOGUE)


def test_every_owner_of_an_invariant_has_a_mutant() -> None:
    owners = ["domain", "router", "debouncer", "ledger", "joins", "lanes", "engine", "lake + state", "outbox", "sources", "runtime", "publishers"]
    assert {*owners, "architecture", "protocol"} == {mutant.shows for mutant in CATALOGUE}


@pytest.mark.parametrize(("killer", "outcome"), [
    ("tests/core/test_router.py::test_fan_out_has_a_limit", "survived"),
    ("tests/core/test_router.py::test_that_is_not_there", "error"),
    ("tests/core/test_nothing.py", "error"),
])  # fmt: skip
def test_what_does_not_fall_is_told(killer: str, outcome: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(MUTANTS, "harmless", Mutant("harmless", "nothing", "campaign", killer, lambda _patch: None))
    assert fate_of("harmless", "", tmp_path).outcome == outcome


def test_an_end_of_pytest_that_fails_is_the_mutant_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_options: object, **_plugins: object) -> int:
        raise pytest.PytestUnraisableExceptionWarning("left open")

    monkeypatch.setattr(pytest, "main", fail)
    fate = fate_of(CATALOGUE[0].name, "", tmp_path)
    assert fate.outcome == "error"
    assert "left open" in fate.said


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_rule"]) == 2
    assert "there is no mutant no_such_rule" in capsys.readouterr().err
