"""Random lives on the shipped SQL: what the fake lake promises is what PostgreSQL does, and nothing is lost, doubled or stuck."""

from __future__ import annotations

import os

from tests.properties import world as worlds
from tests.state.sql_world import live, server

LIVES = int(os.environ.get("REACTOR_TEST_LIVES", "60"))
FIRST_LIFE = int(os.environ.get("REACTOR_TEST_LIVES_FROM", "0"))


def test_a_life_on_the_real_sql_is_the_life_of_the_model(database: str) -> None:
    """The same outcomes, too: commits, refusals and what was aborted."""
    with server(database) as postgres:
        for seed in range(FIRST_LIFE, FIRST_LIFE + LIVES):
            modelled, _ = worlds.live(seed)
            world, verdict = live(seed, postgres)
            assert (seed, verdict) == (seed, (False, False, False))
            assert (seed, world.outcomes) == (seed, modelled.outcomes)
