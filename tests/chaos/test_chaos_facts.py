"""A judge is worth something once what is wrong is found: each way to be wrong is planted in a round that is right."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos.facts import DAILY, Findings, Seen, judged
from tests.integration.records import Order, totals

SENT = [Order(number) for number in range(30)]
RIGHT = Seen(
    sent=SENT, begins=(0, 20), places=[(o.number, str(o.number % 2), (o.number - (20 if o.number >= 20 else 0)) // 2) for o in SENT],
    daily=[(*key, *value) for key, value in totals(SENT).items()], newest=[(o.customer, o.number) for o in SENT[-5:]], unreadable=(),
    outbox=[("a", "ducklake://main/orders"), ("b", DAILY), ("c", DAILY)], published=["a", "b", "a", "c", "b"], told=["c", "b", "b"], leftover=())

WRONG: list[tuple[str, Callable[[Seen], Seen], tuple[int, int, int]]] = [
    ("a row is missing", lambda s: replace(s, places=s.places[1:]), (1, 0, 0)),
    ("a row is there twice, read once", lambda s: replace(s, places=[*s.places, (7, "9", 900)]), (0, 1, 0)),
    ("a row is there twice, as it was read", lambda s: replace(s, places=[*s.places, s.places[0]]), (0, 2, 0)),
    ("a row that nobody sent", lambda s: replace(s, places=[*s.places, (30, "9", 900)]), (0, 1, 0)),
    ("a slice of the total is missing", lambda s: replace(s, daily=s.daily[1:]), (1, 0, 0)),
    ("a total is too low", lambda s: replace(s, daily=[(*s.daily[0][:2], s.daily[0][2] - 1, 0), *s.daily[1:]]), (1, 0, 0)),
    ("a total is too high", lambda s: replace(s, daily=[(*s.daily[0][:3], s.daily[0][3] + 1), *s.daily[1:]]), (0, 1, 0)),
    ("a total is there twice", lambda s: replace(s, daily=[*s.daily, s.daily[0]]), (0, 1, 0)),
    ("a key is there twice", lambda s: replace(s, newest=[*s.newest, s.newest[0]]), (0, 1, 0)),
    ("a key has an older row", lambda s: replace(s, newest=[(s.newest[0][0], 1), *s.newest[1:]]), (1, 0, 0)),
    ("an event was not published", lambda s: replace(s, published=["a", "b"]), (1, 0, 0)),
    ("an event that never was is published", lambda s: replace(s, published=[*s.published, "d"]), (0, 1, 0)),
    ("first appearances are out of order", lambda s: replace(s, published=["a", "c", "b"]), (0, 0, 2)),
    ("the program was not told", lambda s: replace(s, told=["c"]), (1, 0, 0)),
    ("the program was told of another table", lambda s: replace(s, told=[*s.told, "a"]), (0, 1, 0)),
    ("a table cannot be read", lambda s: replace(s, unreadable=["orders"]), (1, 0, 0)),
    ("a run still runs", lambda s: replace(s, leftover=["run 1 of x is running"]), (0, 0, 1)),
]


def test_what_is_right_is_not_wrong() -> None:
    assert judged(RIGHT) == Findings()


@pytest.mark.parametrize(("plant", "counts"), [pytest.param(plant, counts, id=name) for name, plant, counts in WRONG])
def test_what_is_wrong_is_found(plant: Callable[[Seen], Seen], counts: tuple[int, int, int]) -> None:
    found = judged(plant(RIGHT))
    assert (found.lost, found.doubled, found.stuck) == counts, found.said
    assert found.said


def test_a_sentence_names_some_and_counts_the_rest() -> None:
    findings = Findings()
    findings.lose("orders", range(9))
    assert findings.said == ["lost orders: 0, 1, 2, 3, 4 and 4 more"]
    assert findings.lost == 9
