"""The commit, by the numbers of its steps: what a lake transaction does to the state, and what it refuses."""

from __future__ import annotations

import asyncio
from uuid import UUID

import asyncpg
import pytest

from reactor.domain.runs import PartitionCounts
from reactor.domain.spans import Consumer, PositionKey, SourcePartition, Token
from reactor.errors import Conflict
from reactor.state import PostgresState
from reactor.state.queries import text
from tests.state.making import (
    ASSET,
    KEY,
    NOWHERE,
    OTHER_SCHEMA,
    SCHEMA,
    Catalog,
    append,
    claim,
    mark,
    merge,
    program,
    run_committed,
    run_unchanged,
    start,
)

pytestmark = pytest.mark.anyio

REFUSED = "reactor RF001: "
NOT_RUNNING = "reactor RF002: "


async def stands(state: PostgresState, key: PositionKey = KEY) -> tuple[int, dict[str, int], UUID]:
    position = (await state.load([key]))[key]
    return position.floor, dict(position.fences), position.token


async def test_one_commit_moves_the_run_the_position_the_partition_and_the_outbox(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    run = append([claim(tokens[KEY], 10, {"b": 14})], "a", "b")
    snapshot = await run_committed(state, catalog, run, [[3, 0], [2, 1]])

    assert await stands(state) == (10, {"b": 14}, run.run_id)
    partitions = await state.partitions(ASSET)
    assert [(p.partition, p.status, p.snapshot_id, p.rows_inserted, p.rows_deleted, p.schema_version) for p in partitions] == [
        ("b", "materialized", snapshot, 2, 1, 1), ("a", "materialized", snapshot, 3, 0, 1)]
    record = await state.run(run.run_id)
    assert record is not None
    assert (record.state, record.snapshot_id, record.rows_inserted, record.rows_deleted) == ("completed", snapshot, 5, 1)
    assert [(e.offset, e.partition, e.snapshot_id, e.rows) for e in await state.read_outbox(0, 10)] == [
        (0, "a", snapshot, 3), (1, "b", snapshot, 3)]
    assert await catalog.rows() == 1


async def test_a_stale_position_publishes_nothing(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    await run_committed(state, catalog, append([claim(tokens[KEY], 10)]))
    before = await stands(state)
    zombie = append([claim(tokens[KEY], 12, {"": 13})])
    with pytest.raises(asyncpg.PostgresError, match=REFUSED):
        await run_committed(state, catalog, zombie)

    assert await stands(state) == before
    assert await catalog.rows() == 1
    assert (await state.verdict(zombie.run_id, "main", 1)).kind == "running"
    assert len(await state.read_outbox(0, 10)) == 1


async def test_of_several_positions_each_is_compared(state: PostgresState, catalog: Catalog) -> None:
    keys = [PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", str(i))) for i in range(3)]
    tokens = await start(state, *keys)
    for stale in keys:
        claims = [claim(NOWHERE if key == stale else tokens[key], 5, key=key) for key in keys]
        with pytest.raises(asyncpg.PostgresError, match=REFUSED):
            await run_committed(state, catalog, append(claims))
    assert all(position.floor == 0 for position in (await state.load(keys)).values())
    await run_committed(state, catalog, append([claim(tokens[key], 5, key=key) for key in keys]))


async def test_a_position_that_is_gone_refuses(state: PostgresState, catalog: Catalog) -> None:
    with pytest.raises(asyncpg.PostgresError, match=REFUSED):
        await run_committed(state, catalog, append([claim(NOWHERE, 5)]))


async def test_the_difference_of_the_fences_is_written(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    first = append([claim(tokens[KEY], 10, {"a": 12, "b": 4, "!": 11})])
    await run_committed(state, catalog, first)
    second = append([claim(Token(first.run_id), 12, {"a": None, "b": 6, "c": 13})])
    await run_committed(state, catalog, second)
    assert await stands(state) == (12, {"b": 6, "c": 13, "!": 11}, second.run_id)
    assert (await state.load([KEY]))[KEY].low == 6


async def test_hundreds_of_slices_at_the_floor_need_no_fence(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    run = append([claim(tokens[KEY], 400)], *(f"k{i}" for i in range(400)))
    await run_committed(state, catalog, run, [[i, 0] for i in range(400)])
    assert await stands(state) == (400, {}, run.run_id)
    assert {p.partition: p.rows_inserted for p in await state.partitions(ASSET)} == {f"k{i}": i for i in range(400)}


# -- 2


@pytest.mark.parametrize("ended", ["aborted", "failed", "completed"])
async def test_a_run_that_has_ended_commits_nothing(state: PostgresState, catalog: Catalog, ended: str) -> None:
    tokens = await start(state)
    run = append([claim(tokens[KEY], 10)])
    await state.insert_run(run)
    match ended:
        case "aborted":
            assert await state.abort(run.run_id) == "aborted"
        case "failed":
            await state.fail(run.run_id, None, "it broke", final=False)
        case _:
            await catalog.commit(mark(run))
    rows = await catalog.rows()
    with pytest.raises(asyncpg.PostgresError, match=NOT_RUNNING):
        await catalog.commit(mark(run))
    with pytest.raises(asyncpg.PostgresError, match=NOT_RUNNING):
        await catalog.commit(mark(append([claim(tokens[KEY], 10)])))  # never inserted: a restored database
    assert await catalog.rows() == rows


async def test_a_mark_without_counts_publishes_nothing(state: PostgresState, catalog: Catalog) -> None:
    """The mark is the first statement, the counts come last: a COMMIT after an error has none."""
    tokens = await start(state)
    run = append([claim(tokens[KEY], 10)], "a", "b")
    await state.insert_run(run)
    for broken in (f'{{"reactor":1,"run":"{run.run_id}"}}', mark(run, []), mark(run, [[1, 0]])):
        with pytest.raises(asyncpg.PostgresError, match=NOT_RUNNING):
            await catalog.commit(broken)
    assert await catalog.rows() == 0
    await catalog.commit(mark(run))


async def test_a_run_of_another_lake_commits_nothing(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    with pytest.raises(asyncpg.PostgresError, match=NOT_RUNNING):
        await run_committed(state, catalog, append([claim(tokens[KEY], 10)], lake="sales"))


async def test_an_abort_waits_for_the_commit_that_is_on_its_way(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    run = append([claim(tokens[KEY], 10)])
    await state.insert_run(run)
    session = await catalog.session()
    async with session.transaction(isolation="repeatable_read"):
        await catalog.publish(mark(run), session=session)
        abort = asyncio.create_task(state.abort(run.run_id))
        await catalog.waiting(1)
        assert not abort.done()
    assert await abort == "completed"


# -- 3


ORDER = 'order by x.consumer collate "C", x.source collate "C", x.source_partition collate "C" loop'


@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "mutant"])
async def test_positions_are_taken_in_the_order_of_their_key(state: PostgresState, catalog: Catalog, ordered: bool) -> None:
    """Two runs name three positions in opposite orders while somebody holds the middle one: unsorted, each gets what the other needs."""
    if not ordered:
        assert text("commit.sql").count(ORDER) == 1
        await catalog.connection.execute(text("commit.sql").replace(ORDER, "loop"))
    places = [("kafka://B", "1"), ("kafka://a", "10"), ("kafka://a", "9")]
    keys = [PositionKey(Consumer(ASSET), SourcePartition(*place)) for place in places]
    tokens = await start(state, *keys)
    forth = append([claim(tokens[key], 1, key=key) for key in keys])
    back = append([claim(tokens[key], 2, key=key) for key in reversed(keys)])
    for run in (forth, back):
        await state.insert_run(run)
    session = await catalog.session()
    async with session.transaction():
        await session.execute("select from reactor.position where source_partition = '10' for update")
        completions = []
        for waiting, run in enumerate((forth, back), 1):
            completions.append(asyncio.create_task(state.complete(run.run_id, [PartitionCounts(0, 0)])))
            await catalog.waiting(waiting)
    first, second = await asyncio.gather(*completions, return_exceptions=True)
    if ordered:
        assert first is None
        assert REFUSED in str(second)
    else:
        assert "deadlock" in f"{first} {second}"


# -- 4


async def test_a_merge_names_the_token_of_its_partition(state: PostgresState, catalog: Catalog) -> None:
    first = merge({"a": None})
    snapshot = await run_committed(state, catalog, first)
    second = merge({"a": Token(first.run_id)})
    await run_committed(state, catalog, second, [[4, 2]])
    assert (await state.partition_tokens(ASSET, ["a", "b"])).tokens == {"a": second.run_id, "b": None}
    (partition,) = await state.partitions(ASSET)
    assert (partition.previous_snapshot_id, partition.rows_inserted, partition.rows_deleted) == (snapshot, 4, 2)
    for stale in (None, Token(first.run_id)):
        with pytest.raises(asyncpg.PostgresError, match=REFUSED):
            await run_committed(state, catalog, merge({"a": stale, "b": None}))
    assert (await state.partition_tokens(ASSET, ["b"])).tokens == {"b": None}


async def test_of_several_partitions_each_is_compared(state: PostgresState, catalog: Catalog) -> None:
    first = merge({"a": None, "b": None})
    await run_committed(state, catalog, first)
    for tokens in ({"a": Token(first.run_id), "b": NOWHERE}, {"a": NOWHERE, "b": Token(first.run_id)}, {"a": Token(first.run_id), "b": None}):
        with pytest.raises(asyncpg.PostgresError, match=REFUSED):
            await run_committed(state, catalog, merge(tokens))
    with pytest.raises(asyncpg.PostgresError, match=REFUSED):
        await run_committed(state, catalog, merge({"c": NOWHERE}))


async def test_an_append_compares_no_partition(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    await run_committed(state, catalog, merge({"a": None}))
    run = append([claim(tokens[KEY], 10)], "a", "b")
    await run_committed(state, catalog, run)
    assert set((await state.partition_tokens(ASSET, ["a", "b"])).tokens.values()) == {run.run_id}


async def test_two_replaces_of_an_empty_partition_one_commits(state: PostgresState, catalog: Catalog) -> None:
    """Both believe that there is no row; DuckLake would let both in."""
    runs = [merge({"a": None}) for _ in range(3)]
    for run in runs:
        await state.insert_run(run)
    sessions = [await catalog.session() for _ in runs]
    ends = await asyncio.gather(
        *(catalog.commit(mark(run), session=session) for run, session in zip(runs, sessions, strict=True)), return_exceptions=True)
    assert sum(isinstance(end, int) for end in ends) == 1
    assert await catalog.rows() == 1


# -- 5


async def test_a_schema_version_is_new_only_if_the_columns_differ(state: PostgresState, catalog: Catalog) -> None:
    token: Token | None = None
    for schema in (SCHEMA, SCHEMA, OTHER_SCHEMA, SCHEMA):
        run = merge({"": token}, schema=schema)
        await run_committed(state, catalog, run)
        token = Token(run.run_id)
    assert [(s.version, s.fingerprint) for s in await state.schemas(ASSET)] == [
        (3, SCHEMA.fingerprint), (2, OTHER_SCHEMA.fingerprint), (1, SCHEMA.fingerprint)]
    _, events = await state.read_published(0, 10)
    facts = [event["data"] for event in events]
    assert [(d["schema_version"], d["schema_changed"]) for d in facts] == [(1, True), (1, False), (2, True), (3, True)]  # type: ignore[index]


async def test_a_run_that_publishes_nothing_records_no_schema(state: PostgresState) -> None:
    await run_unchanged(state, merge({"": None}))
    assert await state.schemas(ASSET) == []


async def test_racing_first_commits_make_one_schema_version(state: PostgresState, catalog: Catalog) -> None:
    keys = [PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", str(i))) for i in range(4)]
    tokens = await start(state, *keys)
    runs = [append([claim(tokens[key], 1, key=key)], str(i)) for i, key in enumerate(keys)]
    for run in runs:
        await state.insert_run(run)

    async def until_committed(text: str) -> None:
        """DuckLake repeats on such words in a new transaction."""
        session = await catalog.session()
        while True:
            try:
                await catalog.commit(text, session=session)
            except (asyncpg.UniqueViolationError, asyncpg.SerializationError):
                continue
            return

    await asyncio.gather(*(until_committed(mark(run)) for run in runs))
    assert [s.version for s in await state.schemas(ASSET)] == [1]


# -- the body without a snapshot


async def test_a_completion_without_change_moves_the_position_and_freshness(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    good = append([claim(tokens[KEY], 10)])
    snapshot = await run_committed(state, catalog, good, [[7, 0]])
    (before,) = await state.partitions(ASSET)
    idle = append([claim(Token(good.run_id), 20)])
    await run_unchanged(state, idle)
    (after,) = await state.partitions(ASSET)

    assert await stands(state) == (20, {}, idle.run_id)
    assert (after.snapshot_id, after.rows_inserted, after.updated_at) == (snapshot, 7, before.updated_at)
    assert after.checked_at is not None
    assert before.checked_at is not None
    assert after.checked_at > before.checked_at
    verdict = await state.verdict(idle.run_id, "main", 0)
    assert (verdict.kind, verdict.snapshot_id, verdict.changed) == ("completed", None, False)


async def test_recording_a_completion_again_changes_nothing(state: PostgresState) -> None:
    tokens = await start(state)
    run = append([claim(tokens[KEY], 10)])
    await run_unchanged(state, run)
    for _ in range(2):
        await state.complete(run.run_id, [PartitionCounts(0, 0)])
    assert len(await state.read_outbox(0, 10)) == 1


async def test_a_completion_is_refused_like_a_commit(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    await run_unchanged(state, append([claim(tokens[KEY], 10)]))
    with pytest.raises(Conflict, match=REFUSED):
        await run_unchanged(state, append([claim(tokens[KEY], 12)]))
    run = merge({"": None})
    await state.insert_run(run)
    await state.abort(run.run_id)
    with pytest.raises(Conflict, match=NOT_RUNNING):
        await state.complete(run.run_id, [PartitionCounts(0, 0)])
    published = merge({"b": None})
    await run_committed(state, catalog, published)
    with pytest.raises(Conflict, match=NOT_RUNNING):  # it did publish: not what the caller believes
        await state.complete(published.run_id, [PartitionCounts(0, 0)])


async def test_a_program_completes_with_its_position_alone(state: PostgresState) -> None:
    key = PositionKey(Consumer("tell.py"), SourcePartition("outbox://prod", ""))
    tokens = await start(state, key)
    run = program([claim(tokens[key], 3, key=key)])
    await run_unchanged(state, run)
    assert (await stands(state, key))[0] == 3
    assert await state.read_outbox(0, 10) == []
    assert await state.tables() == []


# -- slices that a snapshot leaves as they are


async def test_a_slice_without_rows_did_not_change_in_the_snapshot_of_others(state: PostgresState, catalog: Catalog) -> None:
    """Its records were filtered or quarantined: its downstream is not fired, its freshness is recorded."""
    first = await run_committed(state, catalog, append([], "a", "b"))
    before = {p.partition: p for p in await state.partitions(ASSET)}
    second = await run_committed(state, catalog, append([], "a", "b", "c"), [[5, 0], [0, 0], [0, 0]])
    after = {p.partition: p for p in await state.partitions(ASSET)}
    assert {name: (p.snapshot_id, p.previous_snapshot_id) for name, p in after.items()} == {
        "a": (second, first), "b": (first, None), "c": (None, None)}
    assert (after["b"].updated_at, after["b"].rows_inserted) == (before["b"].updated_at, 1)
    assert all(p.checked_at is not None for p in after.values())
    assert after["b"].checked_at != before["b"].checked_at
    assert [(e.partition, e.changed, e.snapshot_id) for e in await state.read_outbox(2, 10)] == [
        ("a", True, second), ("b", False, None), ("c", False, None)]
    assert len((await state.read_published(0, 10))[1]) == 3


async def test_a_table_that_is_made_without_rows_is_told_of(state: PostgresState, catalog: Catalog) -> None:
    snapshot = await run_committed(state, catalog, merge({"": None}), [[0, 0]])
    assert [(e.changed, e.snapshot_id, e.schema_changed, e.rows) for e in await state.read_outbox(0, 10)] == [(True, snapshot, True, 0)]


# -- together


async def test_writers_of_different_streams_all_commit(state: PostgresState, catalog: Catalog) -> None:
    keys = [PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", str(i))) for i in range(3)]
    tokens = await start(state, *keys)
    for key in keys:
        await run_committed(state, catalog, append([claim(tokens[key], 4, key=key)], "a"))
    assert await catalog.rows() == 3


async def test_errors_hold_nothing_of_a_user_s(state: PostgresState, catalog: Catalog) -> None:
    """DuckLake repeats a commit when it reads such words."""
    asset = "ducklake://main/unique_conflict_concurrent"
    for run in (append([claim(NOWHERE, 1)], "primary key"), merge({"unique": NOWHERE}, lake="conflict")):
        await state.insert_run(run)
        with pytest.raises(asyncpg.PostgresError) as caught:
            await catalog.commit(mark(run))
        assert not any(word in str(caught.value).lower() for word in ("unique", "conflict", "concurrent", "primary key", asset))
