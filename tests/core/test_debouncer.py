from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reactor.core.debouncer import AT_ONCE, Debouncer, Window

FIVE = Window(5.0, 20.0)


def test_due_is_the_trailing_edge_under_the_ceiling() -> None:
    d = Debouncer()
    for t in (0.0, 4.0, 8.0, 12.0, 16.0):
        d.add("a", FIVE, t, 1, 1)
    assert d.take_due(19.9) == {}
    assert d.take_due(20.0) == {"a": 20.0}


def test_the_earliest_window_wins_and_each_counts_its_own_arrivals() -> None:
    d = Debouncer()
    d.add("a", Window(2.0, 20.0), 0.0, 1, 1)
    d.add("a", Window(10.0, 20.0), 1.0, 1, 1)
    assert d.take_due(2.0) == {"a": 2.0}


def test_what_is_due_waits_and_gathers() -> None:
    d = Debouncer()
    d.add("a", AT_ONCE, 1.0, 1, 1)
    assert d.take_due(1.0) == {"a": 1.0}
    d.add("a", FIVE, 2.0, 1, 1)
    assert d.take_due(2.0) == {"a": 1.0}
    d.remove("a")
    assert d.take_due(100.0) == {}


@pytest.mark.parametrize(("rows", "size"), [(100, 0), (0, 1000)])
def test_reached_means_at_least(rows: int, size: int) -> None:
    d = Debouncer()
    d.add("a", Window(5.0, 20.0, rows_max=100, bytes_max=1000), 3.0, rows, size)
    assert d.take_due(3.0) == {"a": 3.0}


def test_an_arrival_from_before_now_is_due_at_once() -> None:
    d = Debouncer()
    d.add("a", FIVE, 100.0, 1, 1)
    d.add("a", FIVE, 10.0, 1, 1)
    assert d.take_due(100.0) == {"a": 30.0}


WINDOWS = [Window(3.0, 10.0, rows_max=20), Window(0.5, 30.0), Window(0.0, 0.0), Window(7.0, 7.0, bytes_max=300)]


class Slices(RuleBasedStateMachine):
    """Against a plain list of arrivals: each slice is due exactly when its definition says, and nothing starves.

    Time is the machine's own: it stands still, creeps, leaps, and records arrive from before now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.d, self.now = Debouncer(), 1_000.0
        self.arrivals: dict[str, list[tuple[Window, float]]] = {}
        self.rows: dict[str, int] = {}
        self.due: set[str] = set()

    def expected(self, key: str) -> float:
        times = {window: [at for other, at in self.arrivals[key] if other == window] for window, _ in self.arrivals[key]}
        return min(min(max(at) + window.quiet_seconds, min(at) + window.wait_max_seconds) for window, at in times.items())

    @rule(key=st.sampled_from("abc"), window=st.sampled_from(WINDOWS), ago=st.one_of(st.just(0.0), st.floats(0.0, 40.0)), rows=st.integers(1, 7))
    def arrive(self, key: str, window: Window, ago: float, rows: int) -> None:
        self.d.add(key, window, self.now - ago, rows, 10 * rows)
        if key in self.due:
            return
        self.arrivals.setdefault(key, []).append((window, self.now - ago))
        self.rows[key] = self.rows.get(key, 0) + rows
        over = (window.rows_max or 1_000_000) <= self.rows[key] or (window.bytes_max or 1_000_000) <= 10 * self.rows[key]
        if over or self.expected(key) <= self.now:
            self.due.add(key)

    @rule(seconds=st.one_of(st.floats(0.0, 4.0), st.floats(0.0, 1e-6), st.just(100.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.due |= {key for key in self.arrivals if self.expected(key) <= self.now}
        assert set(self.d.take_due(self.now)) == self.due

    @precondition(lambda self: self.due)
    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.due)))
        self.d.remove(key)
        self.due.discard(key)
        self.arrivals.pop(key, None)
        self.rows.pop(key, None)

    @invariant()
    def each_is_in_one_slice(self) -> None:
        assert self.d.asset_partitions() == self.arrivals.keys()
        assert len(self.d) == len(self.arrivals)

    @invariant()
    def deadline_is_later_than_now(self) -> None:
        self.wait(0.0)
        deadline = self.d.next_deadline()
        waiting = [self.expected(k) for k in self.arrivals if k not in self.due]
        assert (deadline is None) == (not waiting)
        assert deadline is None or self.now < deadline <= min(waiting)


TestSlices = Slices.TestCase


@given(st.lists(st.floats(0.0, 2.9), min_size=1, max_size=60))
def test_a_busy_source_cannot_postpone_past_the_ceiling(gaps: list[float]) -> None:
    d, now = Debouncer(), 0.0
    first: float | None = None
    for gap in gaps:
        now += gap
        if first is None:
            first = now
        if d.take_due(now):
            assert now >= first + 10.0
            d.remove("a")
            first = now
        d.add("a", Window(3.0, 10.0), now, 1, 1)
    assert first is not None
    assert d.take_due(first + 10.0)
