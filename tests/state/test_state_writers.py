"""Several real DuckLake writers on one lake: what the catalog and the tokens let through between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from reactor.domain.spans import Consumer, PositionKey, SourcePartition, Token
from reactor.ports import NewRun
from reactor.state import PostgresState
from tests.state.ducklake import attached, ours
from tests.state.making import ASSET, SETUP, append, claim, mark, merge, start

pytestmark = pytest.mark.anyio

WRITERS = 3


@pytest.fixture
def lakes(database: str, state: PostgresState, lake_folder: Path) -> Iterator[list[duckdb.DuckDBPyConnection]]:  # noqa: ARG001 (closed before it)
    """Instances of their own, each as a replica has one."""
    with ExitStack() as stack:
        yield [stack.enter_context(attached(database, lake_folder)) for _ in range(WRITERS)]


async def ready(state: PostgresState, lakes: list[duckdb.DuckDBPyConnection]) -> None:
    ours(lakes[0], SETUP, "CREATE TABLE orders (slice VARCHAR, run VARCHAR)")
    await state.watch_lake("main", watch_external=True)


async def commit(state: PostgresState, lake: duckdb.DuckDBPyConnection, run: NewRun, *statements: str) -> bool:
    """Whether the run is completed: the run row decides."""
    await state.insert_run(run)
    before = await state.last_snapshot("main")
    try:
        await asyncio.to_thread(ours, lake, mark(run), *statements)
    except duckdb.Error:
        await state.abort(run.run_id)
    return (await state.verdict(run.run_id, "main", before)).kind == "completed"


def rows(lake: duckdb.DuckDBPyConnection) -> list[tuple[str, int]]:
    return [(slice_, n) for slice_, n in lake.execute("SELECT slice, count(*) FROM orders GROUP BY 1 ORDER BY 1").fetchall()]


async def test_of_racing_writers_of_one_stream_exactly_one_commits(state: PostgresState, lakes: list[duckdb.DuckDBPyConnection]) -> None:
    await ready(state, lakes)
    key = PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", "0"))
    token = (await start(state, key))[key]
    for round_ in range(1, 4):
        runs = [append([claim(token, round_, key=key)], "a") for _ in lakes]
        done = await asyncio.gather(*(
            commit(state, lake, run, f"INSERT INTO orders VALUES ('a', '{run.run_id}')") for lake, run in zip(lakes, runs, strict=True)))
        assert sum(done) == 1
        token = Token(runs[done.index(True)].run_id)
        assert rows(lakes[0]) == [("a", round_)]
        assert (await state.load([key]))[key].floor == round_


async def test_racing_replaces_of_an_empty_slice_leave_one(state: PostgresState, lakes: list[duckdb.DuckDBPyConnection]) -> None:
    """DuckLake would let each delete nothing and insert, and keep the rows of all."""
    await ready(state, lakes)
    runs = [merge({"a": None}) for _ in lakes]
    done = await asyncio.gather(*(
        commit(state, lake, run, "DELETE FROM orders WHERE slice = 'a'", f"INSERT INTO orders SELECT 'a', '{run.run_id}' FROM range(10)")
        for lake, run in zip(lakes, runs, strict=True)))
    assert sum(done) == 1
    assert rows(lakes[0]) == [("a", 10)]


async def test_writers_of_different_streams_commit_all(state: PostgresState, lakes: list[duckdb.DuckDBPyConnection]) -> None:
    """Their first commits race for the schema version too; DuckLake repeats what the catalog refused."""
    await ready(state, lakes)
    keys = [PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", str(i))) for i in range(WRITERS)]
    tokens = await start(state, *keys)

    async def writer(lake: duckdb.DuckDBPyConnection, key: PositionKey) -> None:
        token = tokens[key]
        for floor in range(1, 6):
            run = append([claim(token, floor, key=key)], "a")
            async with state.commit_lock("main", 20):
                assert await commit(state, lake, run, f"INSERT INTO orders VALUES ('a', '{run.run_id}')")
            token = Token(run.run_id)

    await asyncio.gather(*map(writer, lakes, keys))
    assert rows(lakes[0]) == [("a", 5 * WRITERS)]
    assert [s.version for s in await state.schemas(ASSET)] == [1]
    assert [e.offset for e in await state.read_outbox(0, 100)] == list(range(5 * WRITERS))


async def test_writers_without_the_lock_commit_all_too(state: PostgresState, lakes: list[duckdb.DuckDBPyConnection]) -> None:
    """Who does not get the lock in time goes on: DuckLake's own repeats sort it out."""
    await ready(state, lakes)
    keys = [PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", str(i))) for i in range(WRITERS)]
    tokens = await start(state, *keys)
    runs = [append([claim(tokens[key], 1, key=key)], "a") for key in keys]
    assert all(await asyncio.gather(*(
        commit(state, lake, run, f"INSERT INTO orders VALUES ('a', '{run.run_id}')") for lake, run in zip(lakes, runs, strict=True))))
    assert rows(lakes[0]) == [("a", WRITERS)]
    assert [s.version for s in await state.schemas(ASSET)] == [1]
