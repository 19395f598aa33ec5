import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor.domain.spelling import distance, near, nearest

WORDS = st.text("abcé", max_size=6)


@pytest.mark.parametrize(
    ("left", "right", "edits"),
    [("daily", "daily", 0), ("dialy", "daily", 1), ("materialise", "materialize", 1), ("Pipeline", "pipeline", 0), ("on", "by", 2), ("", "abc", 3)],
)
def test_edits(left: str, right: str, edits: int) -> None:
    assert distance(left, right) == edits


@given(WORDS, WORDS)
def test_distance_has_no_side(left: str, right: str) -> None:
    assert distance(left, right) == distance(right, left)
    assert (distance(left, right) == 0) == (left == right)


@given(WORDS, WORDS, st.integers(0, 3))
def test_near_is_distance_with_a_limit(left: str, right: str, edits_max: int) -> None:
    assert near(left, right, edits_max) == (distance(left, right) <= edits_max)


def test_the_nearest_is_the_first_of_equals_and_never_far() -> None:
    assert nearest("kat", ["cat", "hat", "kate"]) == "cat"
    assert nearest("dialy", ["hourly", "daily"]) == "daily"
    assert nearest("both", ["any", "all"]) is None
