"""Each event, and each open slice of a stream, is decided once for each who listens; the run that takes it names the same decision."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor.core import reading
from reactor.core.decisions import Waiting, of_run
from reactor.core.effects import Decided, Feed
from reactor.core.lanes import Lane
from reactor.core.ledger import Ledger
from reactor.domain.decisions import ROUTER_SKIPS, SKIP_REASONS, Decision
from reactor.domain.events import AssetUpdated, RunRequested
from reactor.domain.scripts import Body, Debounce, Edge, Header, Materialize, Partitioning, Retry, Script, ScriptPath
from reactor.domain.spans import Piece, SourcePartition, Span, inbox_of
from tests.core.driver import OUTBOX, Driver, end_badly, end_well, update

SRC, READ = "ducklake://main/src", "ducklake://main/read"
TOPIC = SourcePartition("kafka://main/orders", "0")
KAFKA = Feed("", TOPIC)
DAILY, HOURLY = Partitioning("daily"), Partitioning("hourly")


def fired(path: str, header: Header | None = None) -> Script:
    edge = Edge("asset", SRC)
    return Script(ScriptPath(path), "python", path, replace(header or Header(), edges=(edge,)), Body(), (edge,))


def append() -> Script:
    edge = Edge("kafka", TOPIC.source)
    header = Header(edges=(edge,), materialize=Materialize("ducklake://main/orders", "append"))
    return Script(ScriptPath("orders.sql"), "sql", "orders", header, Body(select="SELECT * FROM batch", reads_batch=True), (edge,))


def decisions(driver: Driver) -> list[Decision]:
    return [d for e in driver.effects if isinstance(e, Decided) for d in e.decisions]


def test_an_event_is_decided_for_each_who_listens_and_runs_name_it() -> None:
    driver = Driver([fired("a.py"), fired("b.py", Header(debounce=Debounce(5.0)))])
    driver.update_at(1.0, update("e1"), update("e2", asset="ducklake://main/other"))
    driver.run_until(2.0)
    found = decisions(driver)
    assert [(d.consumer, d.event_id, d.asset, d.outcome, d.due_at) for d in found] == [("a.py", "e1", SRC, "dispatched", 1.0), ("b.py", "e1", SRC, "dispatched", 6.0)]
    driver.run_until(10.0)
    taken = [d for s in driver.started for d in of_run(s.run)]
    assert [(d.key, d.due_at) for d in taken] == [(d.key, d.due_at) for d in found]


def test_an_event_that_folds_into_an_open_slice_is_dispatched_too() -> None:
    driver = Driver([fired("a.py", Header(debounce=Debounce(5.0)))])
    for n in range(3):
        driver.update_at(float(n), update(f"e{n}"))
    driver.run_until(20.0)
    assert [(d.event_id, d.due_at) for d in decisions(driver)] == [("e0", 5.0), ("e1", 6.0), ("e2", 7.0)]
    assert [[d.event_id for d in of_run(s.run)] for s in driver.started] == [["e0", "e1", "e2"]]


def test_an_event_that_opens_several_slices_is_told_for_each() -> None:
    driver = Driver([fired("a.py", Header(partitioned=HOURLY))], {SRC: DAILY})
    driver.update_at(1.0, update("e", partition="2026-03-01"))
    driver.run_until(2.0)
    found = decisions(driver)
    assert (len(found), found[0].partition, found[-1].partition) == (24, "2026-03-01T00", "2026-03-01T23")
    assert sorted(d.key for s in driver.started for d in of_run(s.run)) == sorted(d.key for d in found)


@pytest.mark.parametrize(("header", "event", "reason"), [
    (Header(), update("e", cascade=False), "no_cascade"),
    (Header(), update("e", chain=("a.py",)), "cycle"),
    (Header(), update("e", chain=tuple(f"{n}.sql" for n in range(64))), "chain"),
    (Header(), update("e", changed=False), "unchanged"),
    (Header(partitioned=Partitioning("dynamic", key=("k",))), update("e"), "fan_out"),
    (Header(partitioned=Partitioning("daily", start=date(2026, 4, 1))), update("e"), "before_start"),
    (Header(partitioned=DAILY), update("e", partition="no day"), "expired"),
    (Header(pipeline=True, mute=(READ,)), update("e", asset=READ), "muted"),
    (Header(pipeline=True, mute=("all",)), update("e", asset=READ), "muted"),
])  # fmt: skip
def test_a_skipped_event_says_why(header: Header, event: AssetUpdated, reason: str) -> None:
    driver = Driver([replace(fired("a.py", header), body=Body(reads=(READ, SRC)))], {SRC: DAILY})
    driver.update_at(1.0, event)
    driver.run_until(2.0)
    assert [(d.event_id, d.outcome, d.reason, d.partition) for d in decisions(driver)] == [("e", "skipped", reason, event.partition)]
    assert driver.started == []
    assert reason in ROUTER_SKIPS


def test_every_word_has_a_meaning() -> None:
    assert set(ROUTER_SKIPS) <= SKIP_REASONS.keys()
    assert all(meaning.sentence.endswith(".") and meaning.next_step for meaning in SKIP_REASONS.values())


def records(driver: Driver, lo: int, hi: int, *asset_partitions: str) -> Span:
    pieces = {d: Piece(lo, hi, hi - lo, 10, "arrow") for d in asset_partitions}
    return Span(TOPIC, lo, hi, driver.now, 10, {next(iter(driver.engine.lanes.values())).routing: pieces})


def test_spans_of_one_open_slice_are_one_decision() -> None:
    driver = Driver([append()])
    driver.assign(KAFKA)
    for n in range(3):
        driver.at(float(n), lambda n=n: driver.engine.offer(KAFKA, records(driver, n * 10, n * 10 + 10, "a", "b"), driver.now))  # type: ignore[misc]
    driver.run_until(10.0)
    found = [d for d in decisions(driver) if d.partition == "a"]
    assert [(d.lo, d.hi, d.due_at, d.event_id) for d in found] == [(0, 10, 2.0, None), (0, 20, 3.0, None), (0, 30, 4.0, None)]
    (run,) = driver.started
    assert [(d.partition, d.lo, d.hi, d.due_at) for d in of_run(run.run)] == [("a", 0, 30, 4.0), ("b", 0, 30, 4.0)]
    driver.at(11.0, lambda: driver.engine.offer(KAFKA, records(driver, 30, 40, "a"), driver.now))
    driver.run_until(11.5)
    assert decisions(driver)[-1].lo == 30, "what comes after the run is another decision"


def test_a_retry_names_the_same_decision() -> None:
    driver = Driver([append()], ends=end_badly)
    driver.assign(KAFKA)
    driver.at(0.0, lambda: driver.engine.offer(KAFKA, records(driver, 0, 10, "a", "b"), driver.now))
    driver.run_until(10.0)
    both, first, second = (tuple(d.key for d in of_run(s.run)) for s in driver.started)
    assert set(both) == {*first, *second}


def test_what_was_decided_during_a_run_that_fails_is_named_by_the_next() -> None:
    """Found by Hypothesis: the retry takes both."""
    driver = lived([(0.25, "a", False), (0.25, "b", False), (2.5, "a", False)], [False], run_seconds=0.5)
    decided, taken = decided_and_taken(driver)
    assert decided == taken
    assert len(decided) == 3


def test_a_run_by_hand_is_an_event_like_any() -> None:
    driver = Driver([fired("a.py")])
    inbox = Feed("", inbox_of("prod"))
    driver.assign(inbox)
    asked = RunRequested(0, "r", "a.py", "", 0.0)
    driver.at(1.0, lambda: driver.engine.offer(inbox, Span(inbox.source_partition, 0, 1, driver.now, events=(asked,)), driver.now))
    driver.run_until(2.0)
    assert [(d.event_id, d.asset, d.outcome) for d in decisions(driver)] == [("r", None, "dispatched")]
    assert OUTBOX.source_partition not in {d.source_partition for d in decisions(driver)}


# ---------------------------------------------------------------------------------------------------------------- whatever comes

SECONDS = st.integers(0, 40).map(lambda n: n / 4)
STEPS = st.lists(st.tuples(SECONDS, st.sampled_from("abc"), st.booleans()), min_size=1, max_size=25)
ENDS = st.lists(st.booleans(), max_size=6)


def lived(steps: Sequence[tuple[float, str, bool]], ends: Sequence[bool], run_seconds: float) -> Driver:
    """Records and events for several slices, runs that fail now and then, until nothing waits any more."""
    left = iter(ends)
    driver = Driver(
        [append(), fired("a.py", Header(partitioned=Partitioning("dynamic", key=("k",)), retry=Retry(9)))], {SRC: Partitioning("dynamic", key=("k",))},
        run_seconds=run_seconds, ends=lambda started: (end_well if next(left, True) or started.run.last_attempt else end_badly)(started))
    driver.assign(KAFKA)
    lo = 0
    for n, (at, slice_, is_event) in enumerate(sorted(steps)):
        if is_event:
            driver.update_at(at, update(f"e{n}", partition=slice_))
        else:
            driver.at(at, lambda lo=lo, slice_=slice_: driver.engine.offer(KAFKA, records(driver, lo, lo + 10, slice_), driver.now))  # type: ignore[misc]
            lo += 10
    driver.run_until(200.0)
    return driver


def decided_and_taken(driver: Driver) -> tuple[set[object], set[object]]:
    return {d.key for d in decisions(driver)}, {d.key for s in driver.started for d in of_run(s.run)}


@given(STEPS, ENDS, st.sampled_from([0.0, 0.5, 3.0]))
def test_runs_take_what_was_decided_and_all_of_it(steps: Sequence[tuple[float, str, bool]], ends: Sequence[bool], run_seconds: float) -> None:
    driver = lived(steps, ends, run_seconds)
    decided, taken = decided_and_taken(driver)
    assert decided == taken
    assert {d.event_id for d in decisions(driver)} - {None} == {f"e{n}" for n, (_, _, is_event) in enumerate(sorted(steps)) if is_event}


def told_apart(lane: Lane, ledger: Ledger, d: str) -> Waiting:
    return Waiting(lane.consumer, lane.script.path, ledger.key.source_partition, d, ledger.open[d][-1].lo, lane.debouncer.due_at(d))


def test_a_log_that_tells_each_span_apart_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a decision begins at its own span, so what folds into an open slice is never found again with its run."""
    monkeypatch.setattr(reading, "_waiting", told_apart)
    with pytest.raises(AssertionError):
        test_runs_take_what_was_decided_and_all_of_it()
