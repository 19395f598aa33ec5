"""A paused consumer: its slices gather within a share of the memory, nothing starts, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from reactor.core.effects import Effect, Failed, Load, Pause, RangeRead, ReadRange, Resume, RunSlice
from reactor.core.engine import Engine
from reactor.core.lanes import Limits
from reactor.core.room import PAUSED_SHARE, Room
from reactor.domain.scripts import Materialize, Script, ScriptPath
from reactor.domain.spans import Consumer, Piece, Position, PositionKey, Token
from tests.core.driver import Driver, update
from tests.core.test_engine import KAFKA, TOPIC, on_asset, on_topic, records

ORDERS, A = Consumer("ducklake://main/orders"), Consumer("ducklake://main/a")
TOKEN, KEY = Token(UUID(int=5)), PositionKey(ORDERS, TOPIC)
SHARE_BYTES = 100


def another(name: str) -> Script:
    script = on_topic(f"{name}.sql")
    return replace(script, path=ScriptPath(f"{name}.sql"), header=replace(script.header, materialize=Materialize(f"ducklake://main/{name}", "append")))


def offered(driver: Driver, offsets: int, size_bytes: int) -> None:
    for i in range(offsets):
        driver.at(0.1 * i, lambda i=i: driver.engine.offer(KAFKA, records(driver, i, i + 1, size_bytes), driver.now))  # type: ignore[misc]


def pause_at(driver: Driver, seconds: float, *consumers: Consumer) -> None:
    driver.at(seconds, lambda: driver.engine.pause(consumers))


def test_what_comes_while_paused_is_one_run_after_it() -> None:
    driver = Driver([on_asset("a.sql", makes=A)])
    pause_at(driver, 0.0, A)
    for i in range(1, 6):
        driver.update_at(float(i), update(f"e{i}"))
    pause_at(driver, 1000.0)
    driver.run_until(999.0)
    assert driver.started == []
    driver.run_until(1001.0)
    assert [(s.at, s.events) for s in driver.started] == [(1000.0, {"": ["e1", "e2", "e3", "e4", "e5"]})]


def test_a_run_that_is_in_flight_ends() -> None:
    driver = Driver([on_asset("a.sql", makes=A)], run_seconds=10.0)
    driver.update_at(1.0, update("e1"))
    pause_at(driver, 2.0, A)
    driver.update_at(3.0, update("e2"))
    driver.run_until(100.0)
    assert [s.events for s in driver.started] == [{"": ["e1"]}]
    assert driver.position(A) == 1
    pause_at(driver, 100.0)
    driver.run_until(120.0)
    assert [s.events for s in driver.started] == [{"": ["e1"]}, {"": ["e2"]}]


def test_others_go_on() -> None:
    driver = Driver([on_asset("a.sql", makes=A), on_asset("b.sql", makes="ducklake://main/b")])
    pause_at(driver, 0.0, A)
    driver.update_at(1.0, update("e1"))
    driver.run_until(2.0)
    assert [s.run.consumer for s in driver.started] == ["ducklake://main/b"]


def test_a_script_that_is_loaded_while_its_asset_is_paused_is_paused() -> None:
    engine = Engine(Limits(), "prod")
    engine.pause([A])
    engine.set_scripts([on_asset("a.sql", makes=A), on_asset("b.sql", makes="ducklake://main/b")], {})
    assert {str(c): lane.paused for c, lane in engine.lanes.items()} == {A: True, "ducklake://main/b": False}


def test_beyond_its_share_it_reads_no_more_and_its_source_is_held_until_it_is_resumed() -> None:
    driver = Driver([on_topic()], limits=Limits(open_bytes_max=SHARE_BYTES * PAUSED_SHARE, quiet_seconds=1.0))
    driver.assign(KAFKA)
    pause_at(driver, 0.0, ORDERS)
    offered(driver, 20, 30)
    driver.run_until(100.0)
    ledger = driver.engine.lanes[ORDERS].ledgers[TOPIC]
    assert ledger.detached is not None
    assert ledger.memory_bytes <= SHARE_BYTES + 30
    assert [e for e in driver.effects if isinstance(e, Pause | Resume)] == [Pause(KAFKA)]
    assert not driver.started
    assert not [e for e in driver.effects if isinstance(e, ReadRange)]
    pause_at(driver, 100.0)
    read_own_until_resumed(driver, 30)
    assert driver.position(ORDERS, TOPIC) == 20
    taken = [offset for s in driver.started for piece in pieces(s.run.slices[0]) for offset in range(piece.lo, piece.hi)]
    assert taken == list(range(20))


def pieces(run_slice: RunSlice) -> list[Piece]:
    return [piece for _, _, found in run_slice.parts for piece in found]


def read_own_until_resumed(driver: Driver, size_bytes: int) -> None:
    answered: set[int] = set()
    for _ in range(100):
        driver.run_until(driver.now + 10.0)
        reads = [e for e in driver.effects if isinstance(e, ReadRange) and e.ticket not in answered]
        if not reads and Resume(KAFKA) in driver.effects:
            return
        for read in reads:
            answered.add(read.ticket)
            spans = [records(driver, offset, offset + 1, size_bytes) for offset in range(read.lo, min(read.lo + 2, read.hi))]
            driver.at(driver.now, lambda read=read, spans=spans: driver.engine.range_read(RangeRead(read.ticket, spans), driver.now))  # type: ignore[misc]
    raise AssertionError("it is not resumed")


def test_it_takes_nothing_from_the_room_of_others() -> None:
    """Without a share of its own a paused asset would leave its neighbours no room to catch up."""
    limits = Limits(open_bytes_max=SHARE_BYTES * PAUSED_SHARE, quiet_seconds=50.0, wait_max_seconds=500.0)
    driver = Driver([on_topic(), another("other")], limits=limits)
    driver.assign(KAFKA)
    pause_at(driver, 0.0, ORDERS)
    offered(driver, 20, 30)
    driver.run_until(400.0)
    orders, other = driver.engine.lanes[ORDERS], driver.engine.lanes[Consumer("ducklake://main/other")]
    assert orders.ledgers[TOPIC].memory_bytes <= SHARE_BYTES + 30
    assert other.ledgers[TOPIC].detached is None
    assert other.ledgers[TOPIC].floor == 20
    assert not [e for e in driver.effects if isinstance(e, Pause)]


def test_what_it_holds_too_much_when_it_is_paused_is_read_again_later() -> None:
    driver = Driver([on_topic()], limits=Limits(open_bytes_max=SHARE_BYTES * PAUSED_SHARE, quiet_seconds=50.0))
    driver.assign(KAFKA)
    offered(driver, 10, 30)
    pause_at(driver, 1.0, ORDERS)
    driver.run_until(1.0)
    lane = driver.engine.lanes[ORDERS]
    (load,) = [e for e in driver.effects if isinstance(e, Load) and e.keys[0].source_partition == TOPIC]
    assert lane.memory_bytes == 0
    driver.engine.loaded({load.keys[0]: Position(0, TOKEN, lane.routing)}, driver.now)
    reads = [e for e in driver.engine.tick(driver.now) if isinstance(e, ReadRange)]
    assert [(r.lo, r.hi) for r in reads] == [(0, 10)]


def test_a_blocked_slice_is_not_tried_again_until_it_is_resumed() -> None:
    driver = Driver([on_topic()], ends=lambda s: Failed(s.run.ticket, "no such column", blocking=True))
    driver.assign(KAFKA)
    driver.at(0.0, lambda: driver.engine.offer(KAFKA, records(driver, 0, 5), driver.now))
    pause_at(driver, 100.0, ORDERS)
    driver.run_until(1000.0)
    assert len(driver.started) == 1
    assert not [e for e in driver.effects if isinstance(e, ReadRange)]
    pause_at(driver, 1000.0)
    driver.run_until(1001.0)
    assert [(e.lo, e.hi) for e in driver.effects if isinstance(e, ReadRange)] == [(0, 5)]


@pytest.mark.parametrize("mutant", ["is_over", "is_there_for"])
def test_mutants_of_the_share_are_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def as_if_it_ran(room: Room, lane: object) -> bool:
        paused, room.paused = room.paused, frozenset()
        try:
            return bool(honest(room, lane))
        finally:
            room.paused = paused

    honest = getattr(Room, mutant)
    monkeypatch.setattr(Room, mutant, as_if_it_ran)
    scenario = {
        "is_over": test_beyond_its_share_it_reads_no_more_and_its_source_is_held_until_it_is_resumed,
        "is_there_for": test_it_reads_by_itself_only_within_its_share,
    }[mutant]
    with pytest.raises(AssertionError):
        scenario()


def test_it_reads_by_itself_only_within_its_share() -> None:
    driver = Driver([on_topic()], limits=Limits(open_bytes_max=SHARE_BYTES * PAUSED_SHARE, quiet_seconds=50.0))
    lane = driver.engine.lanes[ORDERS]
    driver.engine.pause([ORDERS])
    effects: list[Effect] = []
    driver.engine.feeds.heads[KAFKA] = 10
    driver.engine.loaded({KEY: Position(0, TOKEN, lane.routing)}, 0.0)
    for _ in range(10):
        reads = [e for e in driver.engine.tick(0.0) if isinstance(e, ReadRange)]
        effects += reads
        for read in reads:
            driver.engine.range_read(RangeRead(read.ticket, [records(driver, read.lo, read.lo + 1, 30)]), 0.0)
    assert len(effects) == 2
    assert lane.memory_bytes == 60

