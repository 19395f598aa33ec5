from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chaos.plan import ACTS_MAX, ACTS_MIN, KINDS, plan

SEEDS = st.integers(0, 10**6)


@given(SEEDS, st.integers(1, 50))
def test_a_round_can_be_planned_again_alone(seed: int, number: int) -> None:
    planned = plan(seed, number)
    assert planned == plan(seed, number)
    assert ACTS_MIN <= len(planned.acts) <= ACTS_MAX
    assert f"round {number} of seed {seed}" in str(planned)
    assert planned.again == f"make chaos SEED={seed} FIRST={number} ROUNDS=1"
    assert str(planned).count("+") == len(planned.acts)


@given(SEEDS)
@settings(max_examples=20)
def test_every_kind_comes_once_before_any_comes_twice(seed: int) -> None:
    kinds = [act.kind for number in range(1, 11) for act in plan(seed, number).acts]
    for deck in range(len(kinds) // len(KINDS)):
        assert sorted(kinds[deck * len(KINDS) : (deck + 1) * len(KINDS)]) == sorted(KINDS)


def test_a_long_round_has_as_many_acts_as_were_asked_for() -> None:
    planned = plan(7, 2, acts=30)
    assert len(planned.acts) == 30
    assert {act.kind for act in planned.acts} == set(KINDS)
    assert planned.again == "make chaos SEED=7 FIRST=2 ROUNDS=1 ACTS=30"


def test_seeds_and_rounds_differ() -> None:
    assert len({plan(seed, number).acts for seed in range(20) for number in range(1, 6)}) == 100
