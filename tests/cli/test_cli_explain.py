"""`reactor explain` and `reactor show` on a real state."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reactor.domain.decisions import Decision
from reactor.domain.scripts import ScriptPath
from reactor.domain.spans import Consumer, PositionKey, SourcePartition, outbox_of
from reactor.state import PostgresState
from tests.cli.conftest import DAILY, FAILING, NUMBERS, PROGRAM, READS_BATCH, REFUSED, Reactor
from tests.cli.test_cli_positions import ORDERS, Work, block, in_state, start

Online = Callable[[Mapping[str, str]], Path]
NUMBERS_URI = "ducklake://main/numbers"
EVENT = "0123456789abcdef0123456789abcdef"
FILES = {"numbers.sql": NUMBERS, "orders.sql": READS_BATCH, "tell.py": PROGRAM, "daily.sql": DAILY, "refused.sql": REFUSED, "failing.sql": FAILING}
TOPIC = SourcePartition("kafka://main/orders", "0")


def decided(*decisions: Decision) -> Work:
    async def work(state: PostgresState) -> None:
        await state.write_decisions(decisions)

    return work


def of_event(outcome: str = "skipped", reason: str = "cycle", consumer: str = "tell.py") -> Decision:
    made = Decision(Consumer(consumer), ScriptPath("tell.py"), outbox_of("prod"), 3, 4, "", "skipped", reason, EVENT, NUMBERS_URI)
    return made._replace(outcome="dispatched") if outcome == "dispatched" else made


@pytest.fixture
def folder(online: Online, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with scripts of all kinds, which is the current folder; its state is there, and empty."""
    made = online(FILES)
    monkeypatch.chdir(made)
    in_state(made, decided())
    return made


def words(reactor: Reactor, *argv: str) -> Mapping[str, Mapping[str, str]]:
    return {reason["word"]: reason for reason in reactor("explain", *argv, "--json").data["reasons"]}


@pytest.mark.usefixtures("folder")
def test_a_run_by_hand_is_explained_from_all_sides(reactor: Reactor) -> None:
    assert words(reactor, "numbers").keys() == {"by_hand", "not_served", "never"}
    assert reactor("run", "numbers.sql").exit_code == 0
    said = reactor("explain", NUMBERS_URI, "--json")
    assert (said.exit_code, said.answer["schema"]) == (0, "reactor.cli.explain.v1")
    assert said.data["about"] == {"name": NUMBERS_URI, "kind": "asset", "script": "numbers.sql", "partition": None}
    assert {r["word"] for r in said.data["reasons"]} == {"by_hand", "not_served", "run_completed"}
    (decision,) = said.data["decisions"]
    assert (decision["outcome"], decision["run_state"], decision["consumer"]) == ("dispatched", "completed", NUMBERS_URI)
    (of_request,) = reactor("explain", decision["event_id"], "--json").data["reasons"]
    assert (of_request["word"], decision["run_id"] in of_request["sentence"]) == ("dispatched", True)
    for_eyes = reactor("explain", "numbers.sql").out
    assert "run_completed" in for_eyes
    assert f"by hand, event {decision['event_id']}" in for_eyes

    shown = reactor("show", "numbers", "--json")
    assert (shown.exit_code, shown.answer["schema"]) == (0, "reactor.cli.show.v1")
    found = shown.data
    assert (found["asset"], found["rows"], found["snapshot_id"], found["slices"]) == (NUMBERS_URI, 10, found["runs"][0]["snapshot_id"], {"materialized": 1})
    assert found["script"]["header"].keys() == {"materialize"}, "what is not written is not shown"
    assert (found["script"]["state"], found["fires"], found["made_by"]) == ("active", ["tell.py"], ["numbers.sql"])
    assert found["schema"]["columns"] == [["n", "BIGINT"], ["rest", "BIGINT"]]
    eyes = reactor("show", "numbers.sql").out
    assert "-- materialize ducklake://main/numbers" in eyes
    assert "SELECT" not in eyes


@pytest.mark.usefixtures("folder")
def test_a_run_that_failed_says_what_to_look_at(reactor: Reactor) -> None:
    assert reactor("run", "failing.sql").exit_code == 1
    failed = words(reactor, "failing.sql")["run_failed"]
    assert "Conversion" in failed["sentence"]
    assert "reactor runs show" in failed["next_step"]


def test_what_waits_and_what_is_blocked(reactor: Reactor, folder: Path) -> None:
    key = PositionKey(Consumer(ORDERS), TOPIC)
    in_state(folder, start((ORDERS, TOPIC.source, "0", 10)))
    in_state(folder, block(key, "2026-06-18", 3))
    gathers = Decision(Consumer(ORDERS), ScriptPath("orders.sql"), TOPIC, 10, 30, "2026-06-19", "dispatched", due_at=4e9)
    settled = gathers._replace(lo=2, hi=9, partition="2026-06-20")
    in_state(folder, decided(gathers, settled))
    found = words(reactor, ORDERS)
    assert found.keys() == {"not_served", "blocked", "gathers"}
    assert (found["gathers"]["about"], "20 offsets" in found["gathers"]["sentence"]) == ("2026-06-19", True)
    assert found["blocked"]["about"] == "2026-06-18"
    shown = reactor("show", ORDERS, "--json").data
    assert [(w["partition"], w["records"], w["due_at"]) for w in shown["waiting"]] == [("2026-06-19", 20, "2096-10-02T07:06:40.000Z")]
    assert (shown["blocked"], [p["floor"] for p in shown["positions"]]) == (["2026-06-18"], [10])
    eyes = reactor("show", "orders.sql").out
    assert "20 offsets" in eyes
    assert reactor("show", "kafka://orders", "--json").data["positions"] == shown["positions"]


def test_a_skipped_event_and_one_that_nobody_has_decided(reactor: Reactor, folder: Path) -> None:
    in_state(folder, decided(of_event()))
    assert words(reactor, EVENT).keys() == {"cycle"}
    assert "reactor graph" in words(reactor, "tell.py")["cycle"]["next_step"]
    in_state(folder, decided(of_event(consumer="other.py")._replace(event_id=EVENT[::-1])))
    found = words(reactor, EVENT[::-1])
    assert found.keys() == {"cycle", "undecided"}
    assert found["undecided"]["about"] == "tell.py"
    in_state(folder, decided(of_event("dispatched")._replace(event_id="f" * 32, lo=9, hi=10)))
    assert words(reactor, "f" * 32).keys() == {"waits"}
    assert "skipped(cycle)" in reactor("explain", "tell.py").out


@pytest.mark.usefixtures("folder")
def test_a_slice_is_named_by_its_key(reactor: Reactor) -> None:
    assert reactor("run", "daily.sql", "--partition", "2026-06-19").exit_code == 0
    for named in (["ducklake://main/daily#2026-06-19"], ["daily", "--partition", "2026-06-19"]):
        assert words(reactor, *named)["run_completed"]["sentence"].startswith("The last run of 2026-06-19")
    assert words(reactor, "daily#2026-06-20").keys() == {"by_hand", "not_served", "never"}


@pytest.mark.parametrize(("argv", "hint"), [
    (["explain", "daily#2026-6-1"], "2026-06-01"), (["explain", "daily#2026-06-01", "--partition", "2026-06-01"], "either"),
    (["explain", "kafka://orders"], "reactor explain orders.sql"), (["explain", "nubmers"], "did you mean numbers?"),
    (["explain", "numbers#x"], ""), (["explain", EVENT, "--partition", "x"], "leave --partition out"), (["show", "daly.sql"], "did you mean daily.sql?"),
    (["show", "ducklake://other/numbers"], ""),
])  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_what_is_not_understood_is_a_usage_error(reactor: Reactor, argv: list[str], hint: str) -> None:
    said = reactor(*argv, "--json")
    assert (said.exit_code, said.out) == (2, "")
    assert hint in said.err


@pytest.mark.usefixtures("folder")
def test_an_event_that_nobody_knows_is_no_mistake_in_the_command(reactor: Reactor) -> None:
    said = reactor("explain", "0" * 32, "--json")
    assert (said.exit_code, said.problem["type"]) == (1, "urn:reactor:problem:failed")


@pytest.mark.usefixtures("folder")
def test_too_little_time_is_its_own_exit_code(reactor: Reactor) -> None:
    said = reactor("explain", "numbers", "--timeout", "0.001", "--json")
    assert (said.exit_code, said.problem["type"]) == (4, "urn:reactor:problem:timeout")


def test_without_a_database_the_text_is_still_shown(reactor: Reactor, offline: Online, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(offline(FILES))
    shown = reactor("show", "numbers", "--json")
    assert (shown.exit_code, shown.data["script"]["path"], len(shown.answer["warnings"])) == (0, "numbers.sql", 1)
    assert words(reactor, "refused.sql").keys() == {"refused"}
    assert words(reactor, "ducklake://main/unheard").keys() == {"not_made"}
    away = reactor("explain", "numbers", "--json")
    assert (away.exit_code, away.problem["type"]) == (3, "urn:reactor:problem:unreachable")
    assert reactor("show", "refused.sql", "--json").data["script"]["state"] == "refused"
