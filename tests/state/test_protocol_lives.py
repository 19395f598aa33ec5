"""Random lives on the shipped SQL: nothing is lost, doubled or stuck; and with one rule of the SQL broken something is."""

from __future__ import annotations

import os

import pytest

from reactor.state.queries import text
from tests.properties import mutants
from tests.properties import world as worlds
from tests.state.sql_world import live, server

LIVES = int(os.environ.get("REACTOR_TEST_LIVES", "60"))
FIRST_LIFE = int(os.environ.get("REACTOR_TEST_LIVES_FROM", "0"))
SEEDS_PER_MUTANT = 400

FENCES_OF_RESET = """  delete from reactor.fence f where (f.consumer, f.source, f.source_partition) = (p_consumer, p_source, p_source_partition);
  return true;"""
FENCES_OF_SWITCH = (
    " or exists (select from reactor.fence f where (f.consumer, f.source, f.source_partition) = (p_consumer, p_source, p_source_partition))")
TOKEN_OF_POSITION = "and p.last_run = c.last_run;"
TOKEN_OF_PARTITION = "and (not parts->m.partition ? 'last_run' or m.last_run = (parts->m.partition->>'last_run')::uuid)"

SQL_MUTANTS: dict[str, list[tuple[str, str]]] = {
    "no_token": [(TOKEN_OF_POSITION, ";")],
    "one_position_checked": [
        (TOKEN_OF_POSITION, "and (later or p.last_run = c.last_run);"),
        ("declare c record;", "declare c record; later boolean := false;"),
        ("    if not found then\n      consumer :=", "    later := true;\n    if not found then\n      consumer :="),
    ],
    "reset_keeps_token": [("set floor = p_floor, last_run = me,", "set floor = p_floor,")],
    "reset_keeps_fences": [(FENCES_OF_RESET, "  return true;")],
    "no_partition_token": [(TOKEN_OF_PARTITION, "")],
}


def mutated(replacements: list[tuple[str, str]]) -> str:
    sql = text("commit.sql")
    for old, new in replacements:
        assert sql.count(old) == 1, old
        sql = sql.replace(old, new)
    return sql


def test_a_life_on_the_real_sql_is_the_life_of_the_model(database: str) -> None:
    """The same outcomes, too: what the model promises is what the SQL does."""
    with server(database) as postgres:
        for seed in range(FIRST_LIFE, FIRST_LIFE + LIVES):
            modelled, _ = worlds.live(seed)
            world, verdict = live(seed, postgres)
            assert (seed, verdict) == (seed, (False, False, False))
            assert (seed, world.outcomes) == (seed, modelled.outcomes)


@pytest.mark.parametrize("name", SQL_MUTANTS)
def test_the_mutant_of_the_sql_falls(name: str, database: str) -> None:
    """In a life in which the model's mutant falls."""
    with server(database, mutated(SQL_MUTANTS[name])) as postgres:
        falling = (seed for seed in range(SEEDS_PER_MUTANT) if any(worlds.live(seed, name)[1]))
        assert any(any(live(seed, postgres)[1]) for seed in falling)


def test_new_routing_at_any_time_is_refused_by_the_sql(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an engine that asks whenever it likes, in a life that loses nothing only because the store looks at the fences."""
    mutants.CORE["switch_any_time"](monkeypatch)

    def wrong(seed: int, store: str | None) -> bool:
        return any(worlds.live(seed, store)[1][:2])

    seed = next(seed for seed in range(SEEDS_PER_MUTANT) if wrong(seed, "switch_any_time") and not wrong(seed, None))
    with server(database) as postgres:
        assert not any(live(seed, postgres)[1][:2])
        postgres.execute(mutated([(FENCES_OF_SWITCH, "")]))
        assert any(live(seed, postgres)[1][:2])
