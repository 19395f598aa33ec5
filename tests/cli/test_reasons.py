"""What follows from what is known: one word for each fact, and none for what is not so."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from reactor.cli.answers import printable_lines
from reactor.cli.positions import PositionLine
from reactor.cli.reasons import Facts, Reason, of_decision, of_script, of_subject
from reactor.cli.subject import subject_of
from reactor.domain.decisions import SKIP_REASONS, DecisionOutcome
from reactor.domain.runs import Reason as Cause
from reactor.domain.runs import RunState
from reactor.project import open_project
from reactor.state.decisions import DecisionRecord, WaitingSlice
from reactor.state.listing import Gap, MaterializedPartition, RunRecord
from reactor.state.pauses import PauseRecord
from tests.cli.conftest import NUMBERS, PROGRAM, READS_BATCH, REFUSED, WAITING, project_at

NOW = datetime(2026, 6, 20, 10, 0, tzinfo=UTC)
ORDERS, RUN = "ducklake://main/orders", UUID(int=7)
DERIVED = "-- pipeline\n-- mute ducklake://main/numbers\n-- materialize ducklake://main/derived\nSELECT n FROM numbers\n"
FILES = {
    "numbers.sql": NUMBERS, "orders.sql": READS_BATCH, "tell.py": PROGRAM, "refused.sql": REFUSED, "waiting.sql": WAITING, "derived.sql": DERIVED,
    "external.sql": "-- on ducklake://main/theirs\n-- materialize ducklake://main/mine\nSELECT 1 AS n\n",
}  # fmt: skip
POSITION = PositionLine(ORDERS, "kafka://main/orders", "0", 40, 40, [], 40, 0, "earliest", None)


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    """Of an append that is served, and has nothing to say."""
    opened = open_project(project_at(tmp_path / "project", None, FILES), flags={}, environ={})
    return Facts(subject_of(opened, ORDERS), NOW, served=True, last=run())


def run(state: RunState = "completed", cause: Cause = "kafka", **facts: object) -> RunRecord:
    trigger: Mapping[str, object] = {
        "events": [{"event_id": "e", "asset": "ducklake://main/up", "snapshot_id": 41}],
        "positions": [{"source": "kafka://main/orders", "source_partition": str(n), "from": 30, "to": 40} for n in range(5)]}
    made = RunRecord(
        RUN, RUN, "orders.sql", ORDERS, "main", "", state, cause, 1, "ada", "r", 42, 10, 0, None, NOW, NOW, NOW, "v", ORDERS, "append", True, trigger,
        {}, {}, {}, "")
    return replace(made, **facts)  # type: ignore[arg-type]


def waiting(**facts: object) -> WaitingSlice:
    made = WaitingSlice("", "dispatched", NOW, 0, 40, NOW - timedelta(seconds=1), None, None, None)
    return replace(made, **facts)  # type: ignore[arg-type]


def decision(outcome: DecisionOutcome = "dispatched", reason: str = "", **facts: object) -> DecisionRecord:
    made = DecisionRecord(
        ORDERS, "orders.sql", "outbox://prod", "", 3, 4, "", outcome, reason, "e", "ducklake://main/up", None, None, None, NOW, None, None, None, None)
    return replace(made, **facts)  # type: ignore[arg-type]


def words(facts: Facts) -> dict[str, Reason]:
    return {reason.word: reason for reason in of_subject(facts)}


def test_what_is_well_says_only_why_it_ran(facts: Facts) -> None:
    (said,) = of_subject(replace(facts, positions=[POSITION], decisions=[decision()]))
    assert said.word == "run_completed"
    assert "offsets 30 to 40 of kafka://main/orders/0" in said.sentence
    assert said.sentence.count("30 to 40") == 3
    assert "snapshot 42 (+10 -0 rows)" in said.sentence


@pytest.mark.parametrize(("record", "word", "part"), [
    (run(cause="asset"), "run_completed", "new version of ducklake://main/up (snapshot 41, event e; 1 event)"),
    (run(cause="external"), "run_completed", "another tool changed ducklake://main/up"),
    (run(cause="manual"), "run_completed", "ada asked for it"),
    (run(cause="freshness"), "run_completed", "because of: freshness"),
    (run(snapshot_id=None), "run_completed", "changed nothing"),
    (run("failed", error="no column n"), "run_failed", "failed: no column n"),
    (run("aborted"), "run_aborted", "no reason is kept"),
    (run("running"), "run_running", "is running"),
])  # fmt: skip
def test_why_it_ran_and_how_it_ended(facts: Facts, record: RunRecord, word: str, part: str) -> None:
    assert part in words(replace(facts, last=record))[word].sentence


@pytest.mark.parametrize("word", SKIP_REASONS)
def test_each_reason_of_a_skip_is_explained(facts: Facts, word: str) -> None:
    skipped = [decision("skipped", word, event_id=event_id) for event_id in ("newest", "older")]
    said = words(replace(facts, decisions=skipped))[word]
    assert said.sentence.startswith(SKIP_REASONS[word].sentence)
    assert "2 events, the newest newest" in said.sentence
    assert (said.about, said.next_step) == ("ducklake://main/up", SKIP_REASONS[word].next_step)
    assert of_decision(skipped[0], NOW).word == word


def test_a_word_of_a_newer_version_is_said_as_it_is(facts: Facts) -> None:
    assert "skipped: eclipse." in words(replace(facts, decisions=[decision("skipped", "eclipse")]))["eclipse"].sentence


@pytest.mark.parametrize(("slice_", "word", "part"), [
    (waiting(due_at=NOW + timedelta(seconds=3)), "gathers", "(40 offsets) until 2026-06-20T10:00:03Z"),
    (waiting(), "due", "due since 2026-06-20T09:59:59Z (40 offsets)"),
    (waiting(events=2), "due", "(2 events)"),
    (waiting(run_id=UUID(int=9)), "again", "did not complete"),
    (waiting(outcome="joined", inputs_in=1, inputs_needed=3), "joined", "1 of 3 are in"),
])  # fmt: skip
def test_what_it_waits_for(facts: Facts, slice_: WaitingSlice, word: str, part: str) -> None:
    assert part in words(replace(facts, waiting=[slice_]))[word].sentence


def test_an_error_of_many_lines_keeps_them_and_moves_no_cursor() -> None:
    assert printable_lines("Traceback:\n\tx = 1\r\n\x1b[31mE: 1", "  ") == "Traceback:\n          x = 1\n  \\x1b[31mE: 1"


def test_a_run_under_way_is_no_wait(facts: Facts) -> None:
    found = words(replace(facts, waiting=[waiting(run_id=RUN)], runs=[run("running")], last=run("running")))
    assert found.keys() == {"running", "run_running"}


def test_a_blocked_slice_is_said_with_its_error_and_not_as_waiting(facts: Facts) -> None:
    blocked = replace(POSITION, blocked=["2026-06-19"], low=30, lag_events=0)
    broken = MaterializedPartition("2026-06-19", "failed", "no column n", None, None, None, None, None, None, None, NOW)
    asked = replace(facts, positions=[blocked], waiting=[waiting(partition="2026-06-19"), waiting(partition="!")], slices=[broken])
    found = words(asked)
    assert "no column n" in found["blocked"].sentence
    assert "every 5 minutes" in found["blocked"].next_step
    assert found["due"].about == "records without a slice"
    assert "no reason" not in words(replace(asked, partition="2026-06-20", waiting=[])), "another slice is not blocked"
    assert "the run's" in words(replace(asked, slices=[], runs=[run("failed", error="the run's")]))["blocked"].sentence
    others = [run("failed", error="another's", partition="2026-06-18"), run("failed", error="its own", partition="2026-06-19")]
    assert "its own" in words(replace(asked, slices=[], runs=others))["blocked"].sentence


def test_what_keeps_it_from_running_comes_first(facts: Facts) -> None:
    paused = PauseRecord(ORDERS, "repair", "ada", NOW)
    halted = replace(POSITION, halted="kafka://main/orders/0 is another topic")
    gap = Gap(1, ORDERS, "kafka://main/orders", "0", 3, 9, "retention", NOW, None, None)
    found = list(of_subject(replace(facts, served=False, paused=paused, positions=[halted], gaps=[gap])))
    assert [reason.word for reason in found] == ["paused", "not_served", "halted", "lost_range", "run_completed"]
    assert "by ada since 2026-06-20T10:00:00Z: repair" in found[0].sentence
    assert found[0].next_step == f"`reactor resume {ORDERS}`."
    assert "3 to 9" in found[3].sentence


def test_a_paused_asset_waits_for_nobody_but_who_resumes_it(facts: Facts) -> None:
    paused = replace(facts, paused=PauseRecord(ORDERS, "", "ada", NOW))
    for slice_ in (waiting(), waiting(due_at=NOW + timedelta(seconds=3)), waiting(run_id=UUID(int=9))):
        found = words(replace(paused, waiting=[slice_]))
        assert found.keys() == {"paused", "gathers", "run_completed"}
        assert found["gathers"].sentence == "It gathers (40 offsets) until the asset is resumed."


def test_what_was_is_told_newest_first_and_that_nothing_was_new_last(facts: Facts) -> None:
    later, earlier = NOW + timedelta(seconds=1), NOW - timedelta(seconds=1)
    skips = [decision("skipped", word, decided_at=at) for word, at in (("unchanged", later), ("cycle", later), ("no_cascade", earlier))]
    found = of_subject(replace(facts, decisions=skips))
    assert [reason.word for reason in found] == ["cycle", "run_completed", "no_cascade", "unchanged"]


def test_what_is_not_settled_yet_is_behind(facts: Facts) -> None:
    assert "5 offsets" in words(replace(facts, positions=[replace(POSITION, lag_events=5)]))["behind"].sentence
    outbox = replace(POSITION, source="outbox://prod", lag_events=5)
    assert "behind" not in words(replace(facts, positions=[outbox]))


def test_nothing_has_come_yet(facts: Facts) -> None:
    found = words(replace(facts, last=None, partition="2026-06-19"))
    assert found.keys() == {"never"}
    assert "A record on kafka://main/orders" in found["never"].next_step


def test_what_reads_no_records_can_be_run_by_hand(facts: Facts, tmp_path: Path) -> None:
    subject = subject_of(open_project(tmp_path / "project", flags={}, environ={}), "external.sql")
    found = words(replace(facts, subject=subject, last=None, partition="2026-06-19"))
    assert "reactor run external.sql --partition 2026-06-19" in found["never"].next_step


@pytest.mark.parametrize(("name", "word", "part"), [
    ("refused.sql", "refused", "partitoned"), ("waiting.sql", "inactive", "freshness"), ("ducklake://main/theirs", "not_made", "another tool"),
    ("numbers.sql", "by_hand", "no `on` line"), ("derived.sql", "muted", "mute"),
])  # fmt: skip
def test_what_the_text_alone_says(facts: Facts, tmp_path: Path, name: str, word: str, part: str) -> None:
    subject = subject_of(open_project(tmp_path / "project", flags={}, environ={}), name)
    said = {reason.word: reason for reason in of_script(subject)}
    assert part in said[word].sentence
    asked = replace(facts, subject=subject, last=None)
    assert word in words(asked)
    assert ("never" in words(asked)) == (word in {"by_hand", "muted"}), "what cannot run is not said to wait"


@pytest.mark.parametrize(("record", "word", "part"), [
    (decision(due_at=NOW + timedelta(hours=1)), "waits", "waits until 2026-06-20T11:00:00Z"),
    (decision(), "waits", "for a run since 2026-06-20T10:00:00Z"),
    (decision("joined", inputs_in=2, inputs_needed=3), "joined", "2 of 3"),
    (decision(run_id=RUN, run_state="completed", snapshot_id=42), "dispatched", f"Run {RUN} took it: completed, snapshot 42."),
    (decision(run_id=RUN, run_state="failed", run_error="no column n"), "dispatched", "failed: no column n"),
    (decision(run_id=RUN), "dispatched", "no longer kept"),
])  # fmt: skip
def test_what_became_of_an_event(record: DecisionRecord, word: str, part: str) -> None:
    said = of_decision(record, NOW)
    assert said.word == word
    assert part in said.sentence
