"""Whatever happens to replicas and the database, nothing is lost, doubled or stuck; and each rule of the protocol is needed."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties import mutants
from tests.properties.world import live

SEEDS_PER_MUTANT = 400


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_a_life_loses_doubles_and_leaves_nothing(seed: int) -> None:
    _, (lost, doubled, stuck) = live(seed)
    assert (lost, doubled, stuck) == (False, False, False)


def test_the_lives_are_eventful() -> None:
    outcomes: dict[str, int] = {}
    for seed in range(60):
        for outcome, n in live(seed)[0].outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + n
    assert outcomes["committed"] > 300
    assert {"RF001", "RF001 partition", "aborted"} <= outcomes.keys()


@pytest.mark.parametrize("name", [*mutants.STORE, *mutants.CORE])
def test_the_mutant_falls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in mutants.CORE:
        mutants.CORE[name](monkeypatch)
    in_store = name in mutants.STORE or name == "switch_any_time"
    assert any(any(live(seed, name if in_store else None)[1]) for seed in range(SEEDS_PER_MUTANT))
