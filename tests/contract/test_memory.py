"""What a test can ask of the database in memory beside the contract, and what the lake in memory refuses because it cannot do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from reactor.domain.runs import PartitionCounts
from reactor.errors import Conflict, Outage, RunBlocked, RunFailed, StateForbids, UsageError
from reactor.ports import Lake, SliceInput, Staged, StageOrder, State
from reactor.testing import MemoryDatabase, MemoryLake, MemoryState
from tests.contract.lake_grounds import LakeCase, MemoryLakes
from tests.lake.driving import managed
from tests.state.making import KEY, append, claim, run_id, start

pytestmark = pytest.mark.anyio
SCRIPT = managed("SELECT 1", "append")
ORDER = StageOrder(SCRIPT, [SliceInput("")])


def rows(_order: StageOrder) -> Mapping[str, Sequence[Mapping[str, object]]]:
    return {"": [{"id": 1}]}


def test_the_fakes_are_what_the_ports_say() -> None:
    """To mypy."""
    database = MemoryDatabase()
    state: State = MemoryState(database)
    lake: Lake = MemoryLake(database, rows)
    staged: Staged = lake.stage(ORDER)
    assert (staged.rows, state) == (1, state)


async def test_a_database_that_is_away_answers_nobody() -> None:
    database = MemoryDatabase()
    state, lake = MemoryState(database), MemoryLake(database, rows)
    database.away = "it is away"
    with pytest.raises(Outage, match="it is away"):
        await state.epoch()
    with pytest.raises(Outage, match="it is away"):
        lake.stage(ORDER)
    database.away, before = "", database.life
    database.life += 1
    assert (await state.epoch()).started_at == str(before + 1)


async def test_there_are_the_lakes_that_were_said() -> None:
    state = MemoryState(MemoryDatabase(["sales"]))
    assert await state.last_snapshot("sales") == 0
    with pytest.raises(StateForbids):
        await state.last_snapshot("main")
    with pytest.raises(UsageError, match="no lake main"):
        MemoryLake(MemoryDatabase(["sales"]), rows).stage(ORDER)


def test_a_transaction_goes_on_after_one_within_it_has_failed() -> None:
    database = MemoryDatabase()
    with database.transaction() as tables:
        tables.seen["before"] = 1.0
        with suppress(Conflict), database.transaction() as within:
            within.seen["within"] = 2.0
            raise Conflict
        tables.seen["after"] = 3.0
    assert database.tables.seen == {"before": 1.0, "after": 3.0}


async def test_a_lease_ends_by_the_clock_of_the_database() -> None:
    at = [100.0]
    state = MemoryState(MemoryDatabase(now=lambda: at[0]))
    assert await state.lease("job", "a", 15)
    at[0] = 114.9
    assert not await state.lease("job", "b", 15)
    at[0] = 115.0
    assert await state.lease("job", "b", 15)


def test_a_lake_whose_files_are_away_is_an_outage() -> None:
    lake = MemoryLake(MemoryDatabase(), rows)
    staged = lake.stage(ORDER)
    lake.troubles["main"] = "a mount is away"
    assert lake.away() == {"main": "a mount is away"}
    for work in (lambda: lake.stage(ORDER), lambda: staged.write(run_id())):
        with pytest.raises(Outage, match="a mount is away"):
            work()


@pytest.mark.parametrize("error", [RunFailed("no"), RunBlocked("no"), Outage("no")])
def test_what_the_evaluation_raises_comes_out_of_stage(error: Exception) -> None:
    def raises(_order: StageOrder) -> Mapping[str, Sequence[Mapping[str, object]]]:
        raise error

    with pytest.raises(type(error)):
        MemoryLake(MemoryDatabase(), raises).stage(ORDER)


def test_a_merge_by_latest_is_refused() -> None:
    lake = MemoryLake(MemoryDatabase(), rows)
    with pytest.raises(RunBlocked, match="without latest="):
        lake.stage(StageOrder(managed("SELECT 1", "merge", key=["id"], latest="at"), [SliceInput("")]))


async def test_a_lake_without_its_trigger_publishes_rows_without_their_state() -> None:
    ground = MemoryLakes()
    work = LakeCase(ground, 0)
    script = work.script({work.own("a"): [(1, "x")]})
    token, staged = await work.starts(script), await work.staged(script, work.own("a"))
    run = await work.run(script, staged, work.own("a"), position=(token, 7))
    ground.database.untriggered.add("main")
    staged.write(run.run_id)
    staged.commit()
    assert await work.rows() == {work.own("a"): [(1, "x")]}
    assert (await work.how(run), (await work.stands(script)).floor) == ("trigger_missing", 0)


async def test_of_many_threads_with_one_token_one_commits() -> None:
    database = MemoryDatabase()
    state = MemoryState(database)
    (token,) = (await start(state)).values()
    runs = [append([claim(token, floor)]) for floor in range(1, 33)]
    for run in runs:
        await state.insert_run(run)

    def commits(number: int) -> bool:
        try:
            database.publish("main", runs[number].run_id, [PartitionCounts(1, 0)])
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(commits, range(len(runs))))
    assert sum(done) == 1
    assert (await state.load([KEY]))[KEY].token == runs[done.index(True)].run_id
    assert await state.outbox_next() == await state.last_snapshot("main") == 1
