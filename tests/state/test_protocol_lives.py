"""Random lives on the shipped SQL: what the fake lake promises is what PostgreSQL does, and nothing is lost, doubled or stuck."""

from __future__ import annotations

import os

import pytest

from tests.mutants.protocol import switch_any_time
from tests.parts.effort import tries
from tests.properties import world as worlds
from tests.properties.store import Store
from tests.state.sql_world import live, server

LIVES = int(os.environ.get("REACTOR_TEST_LIVES", tries(25, 60)))
SEEDS_MAX = 400
FIRST_LIFE = int(os.environ.get("REACTOR_TEST_LIVES_FROM", "0"))


@pytest.mark.thorough
def test_a_life_on_the_real_sql_is_the_life_of_the_model(database: str) -> None:
    """The same outcomes, too: commits, refusals and what was aborted."""
    with server(database) as postgres:
        for seed in range(FIRST_LIFE, FIRST_LIFE + LIVES):
            modelled, _ = worlds.live(seed)
            world, verdict = live(seed, postgres)
            assert (seed, verdict) == (seed, (False, False, False))
            assert (seed, world.outcomes) == (seed, modelled.outcomes)


def test_new_routing_at_any_time_is_refused_by_the_sql(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an engine that asks whenever it likes, in a life that loses nothing only because the store looks at the fences."""
    switch_any_time(monkeypatch)

    def wrong(seed: int, rule: str | None) -> bool:
        monkeypatch.setattr(Store, "broken", rule)
        return any(worlds.live(seed)[1][:2])

    seed = next(seed for seed in range(SEEDS_MAX) if wrong(seed, "switch_any_time") and not wrong(seed, None))
    with server(database) as postgres:
        assert not any(live(seed, postgres)[1][:2])
