from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from reactor.core.effects import (
    CommitPosition,
    Decided,
    Discard,
    Failed,
    Feed,
    Load,
    Pause,
    RangeRead,
    ReadRange,
    Refused,
    Resume,
    Settle,
    Settled,
    StartRun,
)
from reactor.core.lanes import Limits
from reactor.domain.events import RunRequested
from reactor.domain.scripts import Body, Debounce, Edge, Header, Materialize, Partitioning, Retry, Script, ScriptPath
from reactor.domain.spans import Consumer, Piece, Position, PositionKey, SourcePartition, Span, Token, inbox_of
from tests.core.driver import OUTBOX, Driver, end_badly, end_well, in_turn, update

SRC = "ducklake://main/src"
TOPIC = SourcePartition("kafka://main/orders", "0")
KAFKA = Feed("", TOPIC)


def on_asset(name: str, *, asset: str = SRC, header: Header | None = None, makes: str | None = None) -> Script:
    edge = Edge("asset", asset)
    header = header or Header()
    if makes:
        header = replace(header, materialize=Materialize(makes, "replace"))
    return Script(ScriptPath(name), "sql" if makes else "python", name, replace(header, edges=(edge,)), Body(select="SELECT 1" if makes else ""), (edge,))


def on_topic(name: str = "orders.sql", *, strategy: str = "append", header: Header | None = None) -> Script:
    edge = Edge("kafka", TOPIC.source)
    header = replace(header or Header(), edges=(edge,), materialize=Materialize("ducklake://main/orders", "append" if strategy == "append" else "merge"))
    return Script(ScriptPath(name), "sql", name, header, Body(select="SELECT * FROM batch", reads_batch=True), (edge,))


def on_all(driver: Driver) -> str:
    return next(iter(driver.engine.lanes.values())).routing


def records(driver: Driver, lo: int, hi: int, size_bytes: int = 10, partition: str = "") -> Span:
    piece = Piece(lo, hi, hi - lo, size_bytes, "arrow")
    return Span(TOPIC, lo, hi, driver.now, size_bytes, {on_all(driver): {partition: piece}})


def test_an_update_fires_its_subscriber_once_at_once() -> None:
    driver = Driver([on_asset("a.sql", makes="ducklake://main/a")])
    driver.update_at(1.0, update("e1"), update("e2", asset="ducklake://main/other"))
    driver.run_until(2.0)
    assert [(s.at, s.events) for s in driver.started] == [(1.0, {"": ["e1"]})]


def test_two_updates_of_one_commit_are_one_run() -> None:
    script = on_asset("a.sql", makes="ducklake://main/a")
    both = replace(script, edges=(*script.edges, Edge("asset", "ducklake://main/other")))
    driver = Driver([both])
    driver.update_at(1.0, update("e1"), update("e2", asset="ducklake://main/other"))
    driver.run_until(2.0)
    assert [s.events for s in driver.started] == [{"": ["e1", "e2"]}]


def test_what_comes_during_a_run_is_one_run_after_it() -> None:
    driver = Driver([on_asset("a.py")], run_seconds=10.0)
    driver.update_at(0.0, update("e0"))
    for i in range(1, 6):
        driver.update_at(float(i), update(f"e{i}"))
    driver.run_until(30.0)
    assert [(s.at, s.events[""]) for s in driver.started] == [(0.0, ["e0"]), (10.0, ["e1", "e2", "e3", "e4", "e5"])]


@pytest.mark.parametrize(("event", "reason"), [
    (update("e", cascade=False), "no_cascade"), (update("e", changed=False), "unchanged"), (update("e", chain=("a.py",)), "cycle"), (update("e", chain=tuple(f"{i}.sql" for i in range(64))), "chain"),
])  # fmt: skip
def test_a_skipped_event_moves_the_position(event: object, reason: str) -> None:
    driver = Driver([on_asset("a.py")])
    driver.update_at(1.0, event)  # type: ignore[arg-type]
    driver.run_until(25.0)
    assert driver.started == []
    assert [d.reason for e in driver.effects if isinstance(e, Decided) for d in e.decisions] == [reason]
    assert driver.position("a.py") == 1


def test_retries_keep_the_slice_and_end_with_success() -> None:
    driver = Driver([on_asset("a.py", header=Header(retry=Retry(2, 3.0)))], ends=in_turn(end_badly, end_badly, end_well))
    driver.update_at(1.0, update("e1"))
    driver.run_until(60.0)
    assert [(s.at, s.run.attempt, s.run.last_attempt, s.events) for s in driver.started] == [
        (1.0, 1, False, {"": ["e1"]}), (4.0, 2, False, {"": ["e1"]}), (7.0, 3, True, {"": ["e1"]}),
    ]
    assert driver.position("a.py") == 1


def test_exponential_delays_double_within_ten_percent() -> None:
    driver = Driver([on_asset("a.py", header=Header(retry=Retry(3, 1.0, exponential=True)))], ends=end_badly)
    driver.update_at(0.0, update("e1"))
    driver.run_until(60.0)
    gaps = [b.at - a.at for a, b in zip(driver.started, driver.started[1:], strict=False)]
    assert [g / 2**i for i, g in enumerate(gaps)] == pytest.approx([1.0, 1.0, 1.0], abs=0.101)


def test_a_failed_slice_blocks_and_folds_into_the_next_event() -> None:
    driver = Driver([on_asset("a.py")], ends=in_turn(end_badly, end_well))
    driver.update_at(1.0, update("e1"))
    driver.run_until(30.0)
    assert len(driver.started) == 1
    driver.update_at(31.0, update("e2"))
    driver.run_until(31.5)
    read = next(e for e in driver.effects if isinstance(e, ReadRange))
    assert (read.lo, read.hi) == (0, 2)
    again = Span(OUTBOX.source_partition, 0, 2, driver.now, events=(replace(update("e1"), offset=0), replace(update("e2"), offset=1)))
    driver.at(32.0, lambda: driver.engine.range_read(RangeRead(read.ticket, [again]), driver.now))
    driver.run_until(60.0)
    assert [s.events for s in driver.started] == [{"": ["e1"]}, {"": ["e1", "e2"]}]
    assert driver.position("a.py") == 2


def test_a_request_by_hand_runs_once_without_retry_and_is_given_up() -> None:
    driver = Driver([on_asset("a.py", header=Header(retry=Retry(5)))], ends=end_badly)
    inbox = Feed("", inbox_of("prod"))
    driver.assign(inbox)
    asked = RunRequested(0, "r1", "a.py", "", 0.0)
    driver.at(1.0, lambda: driver.engine.offer(inbox, Span(inbox.source_partition, 0, 1, driver.now, events=(asked,)), driver.now))
    driver.run_until(60.0)
    assert len(driver.started) == 1
    assert driver.started[0].run.last_attempt
    assert driver.position("a.py", inbox.source_partition) == 1


def test_an_append_takes_all_due_slices_and_tries_each_alone_when_it_fails() -> None:
    header = Header(partitioned=Partitioning("daily"), debounce=Debounce(1.0))
    driver = Driver([on_topic(header=header)], ends=in_turn(end_badly, end_well, end_well))
    driver.assign(KAFKA)
    lane = next(iter(driver.engine.lanes.values()))
    pieces = {d: Piece(i, i + 1, 1, 10, "arrow") for i, d in enumerate(("2026-03-01", "2026-03-02"))}
    driver.at(0.0, lambda: driver.engine.offer(KAFKA, Span(TOPIC, 0, 2, driver.now, 20, {lane.routing: pieces}), driver.now))
    driver.run_until(20.0)
    assert [[s.asset_partition for s in started.run.slices] for started in driver.started] == [["2026-03-01", "2026-03-02"], ["2026-03-01"], ["2026-03-02"]]
    assert driver.position("ducklake://main/orders", TOPIC) == 2


def test_over_the_limit_the_oldest_slice_is_due_and_a_stuck_lane_is_detached() -> None:
    limits = Limits(open_bytes_max=100, quiet_seconds=50.0, wait_max_seconds=500.0)
    driver = Driver([on_topic()], limits=limits, run_seconds=1000.0)
    driver.assign(KAFKA)
    for i in range(6):
        driver.at(float(i), lambda i=i: driver.engine.offer(KAFKA, records(driver, i, i + 1, 60), driver.now))  # type: ignore[misc]
    driver.run_until(6.0)
    assert [s.at for s in driver.started] == [1.0]
    assert [e for e in driver.effects if isinstance(e, Pause)] == [Pause(KAFKA)]
    ledger = driver.engine.lanes[Consumer("ducklake://main/orders")].ledgers[TOPIC]
    assert ledger.detached is not None
    assert ledger.memory_bytes <= 240


@pytest.mark.parametrize(("size_bytes", "beside_bytes"), [(60, 0), (10, 50)], ids=["records", "what was read from them"])
def test_what_is_held_is_limited_whatever_it_is(size_bytes: int, beside_bytes: int) -> None:
    driver = Driver([on_topic()], limits=Limits(open_bytes_max=100, quiet_seconds=50.0, wait_max_seconds=500.0), run_seconds=1000.0)
    driver.assign(KAFKA)
    for i in range(6):
        piece = Piece(i, i + 1, 1, size_bytes, "arrow", beside_bytes=beside_bytes)
        driver.at(float(i), lambda i=i, p=piece: driver.engine.offer(KAFKA, Span(TOPIC, i, i + 1, driver.now, 0, {on_all(driver): {"": p}}), driver.now))  # type: ignore[misc]
    driver.run_until(6.0)
    assert [s.at for s in driver.started] == [1.0]
    assert [e for e in driver.effects if isinstance(e, Pause)] == [Pause(KAFKA)]


def test_a_run_and_a_debounce_are_limited_by_records_alone() -> None:
    driver = Driver([on_topic()], limits=Limits(run_bytes_max=100, bytes_max=100, quiet_seconds=5.0))
    driver.assign(KAFKA)
    for i in range(4):
        piece = Piece(i, i + 1, 1, 20, "arrow", beside_bytes=1000)
        driver.at(0.0, lambda i=i, p=piece: driver.engine.offer(KAFKA, Span(TOPIC, i, i + 1, driver.now, 0, {on_all(driver): {"": p}}), driver.now))  # type: ignore[misc]
    driver.run_until(9.0)
    assert [(s.at, len(s.run.slices[0].parts[0][2])) for s in driver.started] == [(5.0, 4)]


@pytest.mark.parametrize("strategy", ["append", "merge"])
def test_what_is_too_much_for_one_run_goes_into_the_next(strategy: str) -> None:
    driver = Driver([on_topic(strategy=strategy)], limits=Limits(run_bytes_max=100, quiet_seconds=1.0), run_seconds=2.0)
    driver.assign(KAFKA)
    for lo, size_bytes in ((0, 60), (10, 40), (20, 1), (30, 300), (40, 100)):
        driver.at(0.0, lambda lo=lo, size=size_bytes: driver.engine.offer(KAFKA, records(driver, lo, lo + 10, size), driver.now))  # type: ignore[misc]
    driver.at(4.0, lambda: driver.engine.offer(KAFKA, records(driver, 50, 60, 10), driver.now))
    driver.run_until(20.0)
    taken = [(s.at, [(to, [piece.lo for piece in pieces]) for one in s.run.slices for _, to, pieces in one.parts]) for s in driver.started]
    assert taken == [(1.0, [(20, [0, 10])]), (3.0, [(30, [20])]), (5.0, [(40, [30])]), (7.0, [(50, [40])]), (9.0, [(60, [50])])]
    assert driver.position("ducklake://main/orders", TOPIC) == 60


def test_a_large_slice_leaves_the_small_ones_of_a_run_whole() -> None:
    driver = Driver([on_topic()], limits=Limits(run_bytes_max=100, quiet_seconds=1.0))
    driver.assign(KAFKA)
    sizes = {"a": (30, 30, 30, 30), "b": (10, 10, 10, 10), "c": (20,)}
    for n in range(4):
        pieces = {d: Piece(n, n + 1, 1, size[n], "arrow") for d, size in sizes.items() if n < len(size)}
        driver.at(0.0, lambda n=n, p=pieces: driver.engine.offer(KAFKA, Span(TOPIC, n, n + 1, driver.now, 70, {on_all(driver): p}), driver.now))  # type: ignore[misc]
    driver.run_until(5.0)
    taken = [{s.asset_partition: len(s.parts[0][2]) for s in started.run.slices} for started in driver.started]
    assert taken == [{"a": 1, "b": 4, "c": 1}, {"a": 3}]


def test_what_was_left_waits_behind_a_run_that_fails() -> None:
    driver = Driver([on_topic(header=Header(retry=Retry(1, 1.0)))], limits=Limits(run_bytes_max=10, quiet_seconds=1.0), ends=in_turn(end_badly, end_well, end_well))
    driver.assign(KAFKA)
    for lo in (0, 1):
        driver.at(0.0, lambda lo=lo: driver.engine.offer(KAFKA, records(driver, lo, lo + 1), driver.now))  # type: ignore[misc]
    driver.run_until(20.0)
    assert [[piece.lo for s in started.run.slices for _, _, pieces in s.parts for piece in pieces] for started in driver.started] == [[0], [0], [1]]
    assert driver.position("ducklake://main/orders", TOPIC) == 2


def test_a_detached_lane_reads_by_itself_until_it_meets_the_shared_reader() -> None:
    driver = Driver([on_topic()])
    lane = driver.engine.lanes[Consumer("ducklake://main/orders")]
    far = Limits().attach_distance_offsets * 2
    other = on_topic("other.sql")
    other = replace(other, header=replace(other.header, materialize=Materialize("ducklake://main/other", "append")))
    driver.engine.set_scripts([lane.script, other], {})
    ahead = Position(far, Token(UUID(int=7)), lane.routing)
    behind = Position(0, Token(UUID(int=8)), lane.routing)
    start = driver.engine.assigned(KAFKA, {lane.consumer: behind, Consumer("ducklake://main/other"): ahead}, 0.0)
    assert start == far
    reads = [e for e in driver.engine.tick(0.0) if isinstance(e, ReadRange)]
    assert [(r.lo, r.hi) for r in reads] == [(0, far)]
    driver.engine.offer(KAFKA, records(driver, far, far + 5), 1.0)
    driver.engine.range_read(RangeRead(reads[0].ticket, [replace(records(driver, 0, far), hi=far)]), 1.0)
    ledger = lane.ledgers[TOPIC]
    assert ledger.detached is None
    assert ledger.head == far + 5
    assert [(p.lo, p.hi) for p in ledger.open[""]] == [(0, far), (far, far + 5)]


def test_parked_comes_straight_back_and_keeps_its_spans() -> None:
    driver = Driver([on_topic()])
    driver.assign(KAFKA)
    driver.engine.offer(KAFKA, records(driver, 0, 5), 0.0)
    ledger = driver.engine.lanes[Consumer("ducklake://main/orders")].ledgers[TOPIC]
    driver.engine.park([KAFKA])
    driver.run_until(5.0)
    assert driver.started == []
    same = Position(ledger.floor, ledger.token, ledger.routing)
    assert driver.engine.assigned(KAFKA, {Consumer("ducklake://main/orders"): same}, 5.0) == 5
    assert driver.engine.lanes[Consumer("ducklake://main/orders")].ledgers[TOPIC] is ledger
    driver.run_until(9.0)
    assert len(driver.started) == 1


def test_what_comes_straight_back_later_than_its_neighbour_is_still_due() -> None:
    """The neighbour's run takes the slice, and must not take for done what of it is still parked."""
    driver, other = Driver([on_topic()]), Feed("", SourcePartition(TOPIC.source, "1"))
    for feed in (KAFKA, other):
        driver.assign(feed)
        driver.engine.offer(feed, replace(records(driver, 0, 5), source_partition=feed.source_partition), 0.0)
    (lane,) = driver.engine.lanes.values()
    driver.engine.park([KAFKA, other])
    driver.run_until(5.0)
    for feed, at in ((KAFKA, 5.0), (other, 8.0)):
        ledger = lane.ledgers[feed.source_partition]
        driver.engine.assigned(feed, {lane.consumer: Position(ledger.floor, ledger.token, ledger.routing)}, at)
        driver.run_until(at + 1.0)
    assert [[source for s in started.run.slices for source, _, _ in s.parts] for started in driver.started] == [[TOPIC], [other.source_partition]]
    assert (driver.position(lane.consumer, TOPIC), driver.position(lane.consumer, other.source_partition)) == (5, 5)


def test_no_group_commit_after_revoke() -> None:
    """The mutant `commit after revoke`: without the look at `parked` this yields a CommitPosition."""
    driver = Driver([on_topic()], run_seconds=3.0)
    driver.assign(KAFKA)
    driver.engine.offer(KAFKA, records(driver, 0, 5), 0.0)
    driver.run_until(2.5)
    driver.engine.park([KAFKA])
    driver.run_until(9.0)
    assert driver.position("ducklake://main/orders", TOPIC) == 5
    assert not [e for e in driver.effects if isinstance(e, CommitPosition) and e.feed == KAFKA]


def test_what_is_loaded_anew_while_it_is_revoked_stays_parked() -> None:
    """Its run was refused after the revoke: the new load starts nothing, and tells the group nothing."""
    driver = Driver([on_topic()])
    driver.assign(KAFKA)
    driver.engine.offer(KAFKA, records(driver, 0, 5), 0.0)
    (run,) = [e for e in driver.engine.tick(2.0) if isinstance(e, StartRun)]
    driver.engine.park([KAFKA])
    key = PositionKey(Consumer("ducklake://main/orders"), TOPIC)
    lane = driver.engine.lanes[key.consumer]
    behind = Position(0, Token(UUID(int=77)), lane.routing, "another topic")
    driver.engine.outcome(Refused(run.ticket, {key: behind}), 2.0)
    driver.engine.loaded({key: replace(behind, topic_id=None)}, 2.0)
    assert lane.ledgers[TOPIC].parked
    assert not [e for e in driver.engine.tick(60.0) if isinstance(e, StartRun | ReadRange | CommitPosition)]
    driver.engine.assigned(KAFKA, {key.consumer: replace(behind, topic_id=None)}, 60.0)
    assert not lane.ledgers[TOPIC].parked


def test_nothing_is_told_to_the_group_while_nobody_has_read() -> None:
    """A settle that is refused leaves no ledger until it is loaded anew: 0 would set the group back to the beginning."""
    driver = Driver([on_topic()])
    driver.assign(KAFKA)
    driver.engine.offer(KAFKA, replace(records(driver, 0, 5), pieces={next(iter(driver.engine.lanes.values())).routing: {}}), 0.0)
    (settle,) = driver.engine.settle(driver.engine.lanes.values())
    assert isinstance(settle, Settle)
    found = driver.engine.settled(Settled(settle.ticket, Token(UUID(int=8)), {settle.claims[0].key: None}))
    assert found == [Load((settle.claims[0].key,))]


def test_a_refused_run_goes_on_from_what_is_stored() -> None:
    driver = Driver([on_topic()])
    driver.assign(KAFKA)
    driver.engine.offer(KAFKA, records(driver, 0, 5), 0.0)
    (run,) = [e for e in driver.engine.tick(2.0) if isinstance(e, StartRun)]
    key = PositionKey(Consumer("ducklake://main/orders"), TOPIC)
    lane = driver.engine.lanes[key.consumer]
    ahead = Position(3, Token(UUID(int=77)), lane.routing)
    driver.engine.outcome(Refused(run.ticket, {key: ahead}), 2.0)
    assert [(p.lo, p.hi) for p in lane.ledgers[TOPIC].open[""]] == [(3, 5)]


def test_a_refused_run_is_not_written_again_by_a_service_that_stops() -> None:
    driver = Driver([on_topic()])
    driver.assign(KAFKA)
    driver.engine.offer(KAFKA, records(driver, 0, 5), 0.0)
    (run,) = [e for e in driver.engine.tick(2.0) if isinstance(e, StartRun)]
    key = PositionKey(Consumer("ducklake://main/orders"), TOPIC)
    ledger = driver.engine.lanes[key.consumer].ledgers[TOPIC]
    driver.engine.draining = True
    effects = driver.engine.outcome(Refused(run.ticket, {key: Position(0, ledger.token, ledger.routing)}), 2.0)
    assert effects == [Discard(run.ticket)]
    assert not driver.engine.running
    assert [(p.lo, p.hi) for p in ledger.open[""]] == [(0, 5)]


def test_a_blocked_slice_of_a_stream_is_tried_again_after_five_minutes() -> None:
    driver = Driver([on_topic()], ends=lambda s: Failed(s.run.ticket, "no such column", blocking=True))
    driver.assign(KAFKA)
    driver.at(0.0, lambda: driver.engine.offer(KAFKA, records(driver, 0, 5), driver.now))
    driver.run_until(301.0)
    assert not [e for e in driver.effects if isinstance(e, ReadRange)]
    driver.run_until(303.0)
    reads = [e for e in driver.effects if isinstance(e, ReadRange)]
    assert [(r.lo, r.hi) for r in reads] == [(0, 5)]


def test_a_paused_feed_is_released_when_somebody_reads_again() -> None:
    limits = Limits(open_bytes_max=100, quiet_seconds=1.0)
    driver = Driver([on_topic()], limits=limits, run_seconds=20.0)
    driver.assign(KAFKA)
    for i in range(4):
        driver.at(float(i), lambda i=i: driver.engine.offer(KAFKA, records(driver, i, i + 1, 70), driver.now))  # type: ignore[misc]
    driver.run_until(10.0)
    assert Pause(KAFKA) in driver.effects
    driver.run_until(60.0)
    while reads := [e for e in driver.effects if isinstance(e, ReadRange)]:
        driver.effects.clear()
        read = reads[-1]
        driver.at(driver.now, lambda read=read: driver.engine.range_read(  # type: ignore[misc]
            RangeRead(read.ticket, [records(driver, read.lo, read.hi, 10)]), driver.now))
        driver.run_until(driver.now + 30.0)
        if Resume(KAFKA) in driver.effects:
            break
    assert Resume(KAFKA) in driver.effects
    driver.run_until(driver.now + 60.0)
    assert driver.position("ducklake://main/orders", TOPIC) == 4
