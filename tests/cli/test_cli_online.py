"""`reactor check --online`: what would block a run is found before it, and nothing is executed or written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import DAILY, KEYED, NUMBERS, READS_BATCH, Reactor

Online = Callable[[Mapping[str, str]], Path]
WRONG = "-- materialize ducklake://main/wrong\nSELECT nothing\nFROM numbers\n"
LATER = "-- on ducklake://main/daily\n-- materialize ducklake://main/later\nSELECT day FROM daily\n"
NO_KEY = "-- materialize ducklake://main/no_key key=nothing\nSELECT 1 AS id\n"
UNFIT = "-- materialize ducklake://main/unfit\nSELECT 1::HUGEINT AS n\n"
SETUP = "-- materialize ducklake://main/set_up\nCREATE TEMP TABLE few AS SELECT range AS n FROM range(3);\nSELECT few.n, error('it is executed') AS x FROM few\n"


@pytest.fixture
def folder(online: Online, reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose lake holds the table of numbers; it is the current folder."""
    made = online({"numbers.sql": NUMBERS})
    monkeypatch.chdir(made)
    assert reactor("run", "numbers.sql").exit_code == 0
    return made


def found(reactor: Reactor, folder: Path, files: Mapping[str, str], exit_code: int) -> Mapping[str, Mapping[str, Any]]:
    for path, text in files.items():
        (folder / path).write_text(text)
    said = reactor("check", "--online", "--json")
    assert said.exit_code == exit_code
    return {d["file"]: d for d in said.data if d["code"] in {"does-not-bind", "not-made-yet", "no-topic", "no-table"}}


def test_what_fits_says_nothing(reactor: Reactor, folder: Path) -> None:
    assert found(reactor, folder, {"daily.sql": DAILY, "keyed.sql": KEYED, "set_up.sql": SETUP}, 0) == {}, "no SELECT is executed"


def test_what_would_block_a_run_is_an_error_with_the_same_words(reactor: Reactor, folder: Path) -> None:
    said = found(reactor, folder, {"wrong.sql": WRONG, "unfit.sql": UNFIT, "later.sql": LATER, "daily.sql": DAILY, "no_key.sql": NO_KEY}, 2)
    assert said.keys() == {"wrong.sql", "unfit.sql", "later.sql", "no_key.sql"}
    assert "key column nothing is not in the SELECT" in said["no_key.sql"]["message"]
    assert (said["wrong.sql"]["severity"], said["wrong.sql"]["code"]) == ("error", "does-not-bind")
    assert said["wrong.sql"]["range"] == {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 14}}
    assert '"nothing" not found' in said["wrong.sql"]["message"]
    assert "which a lake cannot keep" in said["unfit.sql"]["message"]
    assert (said["later.sql"]["severity"], said["later.sql"]["code"]) == ("note", "not-made-yet")
    run = reactor("run", "wrong.sql", "--json")
    assert run.exit_code == 1
    assert str(run.data["error"]).split("LINE")[0].split(":")[0] in said["wrong.sql"]["message"]
    assert reactor("check", "--json").data == [], "offline nobody knows"
    assert reactor("check", "--online", "numbers.sql").exit_code == 0


def test_tables_that_fire_a_script_are_looked_for(reactor: Reactor, folder: Path) -> None:
    fired = "# pipeline\n# on ducklake://main/{table}\ndef main(trigger, partition): ...\n"
    said = found(reactor, folder, {"good.py": fired.format(table="numbers"), "wrong.py": fired.format(table="numbrs"), "later.sql": LATER, "daily.sql": DAILY}, 0)
    assert (said["wrong.py"]["severity"], said["wrong.py"]["range"]["start"]["line"]) == ("warning", 1)
    assert said["wrong.py"]["message"] == (
        "no script makes ducklake://main/numbrs, and there is no such table: nothing fires wrong.py by it; did you mean `ducklake://main/numbers`?")
    assert said.keys() == {"wrong.py", "later.sql"}


def test_topics_are_looked_for(reactor: Reactor, folder: Path, embedded_broker: str) -> None:
    settings = folder / "reactor.toml"
    settings.write_text(settings.read_text().replace("127.0.0.1:1", embedded_broker))
    said = found(reactor, folder, {"orders.sql": READS_BATCH.replace("kafka://orders", "kafka://never-made")}, 0)
    assert (said["orders.sql"]["severity"], said["orders.sql"]["code"], said["orders.sql"]["range"]["start"]["line"]) == ("warning", "no-topic", 0)
    assert "kafka://main/never-made" in said["orders.sql"]["message"]
    assert reactor("check", "--online").err.count("\n") == 1, "the library's own words are not shown"
    assert reactor("check", "--online", "orders.sql", "--fail-on", "warn").exit_code == 1


def test_what_does_not_answer_is_its_own_exit_code(reactor: Reactor, folder: Path) -> None:
    (folder / "orders.sql").write_text(READS_BATCH)
    said = reactor("check", "--online", "--json")
    assert (said.exit_code, said.problem["type"]) == (3, "urn:reactor:problem:unreachable")


def test_before_the_first_start_there_is_nothing_to_fit(reactor: Reactor, online: Online) -> None:
    said = reactor("check", "--online", "--json", "--project", online({"numbers.sql": NUMBERS}))
    assert (said.exit_code, said.data, len(said.answer["warnings"])) == (0, [], 1)
