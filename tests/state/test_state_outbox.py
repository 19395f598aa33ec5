"""The outbox: numbered by who reads it, without a gap, in commit order; events as the conventions say."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import Any

import asyncpg
import pytest

from reactor.domain.runs import UpstreamSnapshot
from reactor.domain.spans import Consumer, PositionKey, SourcePartition, Token, outbox_of
from reactor.ports import NewPosition, NewRun, PartitionClaim
from reactor.state import PostgresState
from reactor.state.queries import text as shipped
from tests.state.making import (
    ASSET,
    KEY,
    SETUP,
    Catalog,
    append,
    claim,
    mark,
    merge,
    run_committed,
    run_id,
    run_unchanged,
    script,
    start,
    trigger,
)

pytestmark = pytest.mark.anyio


async def published(state: PostgresState) -> list[dict[str, Any]]:
    return [dict(event) for event in (await state.read_published(0, 10_000))[1]]


# -- numbers


async def test_numbers_have_no_gap_and_are_in_commit_order_under_eight_writers(state: PostgresState, catalog: Catalog) -> None:
    """Each writer has a source partition; some transactions are rolled back, some are another tool's; readers number meanwhile."""
    writers, commits_each = 8, 15
    keys = [PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", str(i))) for i in range(writers)]
    tokens = await start(state, *keys)
    writing = True
    read: list[tuple[int, int | None, str]] = []

    async def write(number: int) -> None:
        chance, session, token = random.Random(number), await catalog.session(), tokens[keys[number]]
        for floor in range(1, commits_each + 1):
            run = append([claim(token, floor, key=keys[number])], *(f"{number}-{i}" for i in range(chance.randrange(1, 4))))
            ours = chance.random() < 0.6
            if ours:
                await state.insert_run(run)
                token = Token(run.run_id)
            while not await committed(session, run if ours else None, keep=chance.random() < 0.7):
                pass

    async def committed(session: asyncpg.Connection, run: NewRun | None, *, keep: bool) -> bool:
        transaction = session.transaction(isolation="repeatable_read")
        await transaction.start()
        try:
            await catalog.publish(mark(run) if run else None, 'created_table:"main"."theirs"', session=session)
        except asyncpg.PostgresError:
            keep = False
        await (transaction.commit() if keep else transaction.rollback())
        return keep

    async def follow() -> None:
        while writing or await state.outbox_next() > len(read):
            read.extend((e.offset, e.snapshot_id, e.partition) for e in await state.read_outbox(len(read), 7))

    async def number() -> None:
        while writing:
            await state.outbox_next()

    readers = [asyncio.create_task(follow()), asyncio.create_task(number())]
    await asyncio.gather(*(write(i) for i in range(writers)))
    writing = False
    await asyncio.gather(*readers)

    assert [offset for offset, _, _ in read] == list(range(len(read)))
    snapshots = [snapshot for _, snapshot, _ in read]
    assert snapshots == sorted(snapshots, key=lambda s: s or 0)
    assert len(set(snapshots)) == await catalog.rows() == writers * commits_each
    assert read == [(e.offset, e.snapshot_id, e.partition) for e in await state.read_outbox(0, 10_000)]


@pytest.mark.parametrize("between", ["  perform reactor.take_foreign(", "  with fresh as ("])
async def test_what_commits_while_it_is_numbered_keeps_its_order(state: PostgresState, catalog: Catalog, between: str) -> None:
    """Another tool's commit, then one of ours, between the statements that look for each kind."""
    assert shipped("commit.sql").count(between) == 1
    await catalog.connection.execute(shipped("commit.sql").replace(between, "  perform pg_advisory_xact_lock(7);\n" + between))
    await run_committed(state, catalog, append([], "first"))
    session = await catalog.session()
    async with session.transaction():
        await session.execute("select pg_advisory_xact_lock(7)")
        numbering = asyncio.create_task(state.outbox_next())
        await catalog.waiting(1)
        await catalog.commit(None, 'created_table:"main"."theirs"')
        await run_committed(state, catalog, append([], "second"))
    assert await numbering == 1
    assert [(e.partition, e.snapshot_id) for e in await state.read_outbox(0, 10)] == [("first", 1), ("", 2), ("second", 3)]


async def test_an_event_committed_late_is_numbered_late_and_not_missed(state: PostgresState, catalog: Catalog) -> None:
    slow, quick = merge({"slow": None}), merge({"quick": None})
    await state.insert_run(slow)
    session = await catalog.session()
    async with session.transaction():
        await session.execute("select reactor.complete($1, '[[0,0]]')", slow.run_id)
        await run_unchanged(state, quick)
        assert [e.partition for e in await state.read_outbox(0, 10)] == ["quick"]
    assert [(e.offset, e.partition) for e in await state.read_outbox(0, 10)] == [(0, "quick"), (1, "slow")]


async def test_a_reader_that_dies_while_numbering_leaves_no_gap(state: PostgresState, catalog: Catalog) -> None:
    await run_committed(state, catalog, append([], "a", "b"))
    session = await catalog.session()
    dying = session.transaction()
    await dying.start()
    assert await session.fetchval("select reactor.number('prod')") == 2
    await dying.rollback()
    await run_committed(state, catalog, append([], "c"))
    assert [e.partition for e in await state.read_outbox(0, 10)] == ["a", "b", "c"]


async def test_events_without_a_snapshot_are_in_the_order_of_time(state: PostgresState, catalog: Catalog) -> None:
    for name in "zya":
        await run_unchanged(state, merge({name: None}))
    await run_committed(state, catalog, merge({"m": None}))
    assert [e.partition for e in await state.read_outbox(0, 10)] == ["m", "z", "y", "a"]


async def test_now_is_behind_all_that_is_committed(state: PostgresState, catalog: Catalog) -> None:
    """A new subscriber starts there; what it has missed is a backfill."""
    assert await state.outbox_next() == 0
    await run_committed(state, catalog, append([], "a", "b", "c"))
    assert await state.outbox_next() == 3
    assert await state.read_outbox(3, 10) == []
    await run_committed(state, catalog, append([], "d"))
    assert [e.partition for e in await state.read_outbox(3, 10)] == ["d"]


async def test_a_completion_without_change_is_read_and_not_published(state: PostgresState, catalog: Catalog) -> None:
    good = merge({"a": None})
    await run_committed(state, catalog, good)
    run = merge({"a": Token(good.run_id)}, cascade=False)
    await run_unchanged(state, run)
    (changed, unchanged) = await state.read_outbox(0, 10)
    assert (changed.changed, changed.cascade) == (True, True)
    assert (unchanged.changed, unchanged.snapshot_id, unchanged.rows, unchanged.run_id, unchanged.cascade) == (False, None, 0, run.run_id, False)
    assert unchanged.event_id != changed.event_id
    next_offset, events = await state.read_published(0, 10)
    assert (next_offset, [e["id"] for e in events]) == (2, [changed.event_id])
    assert await state.read_published(2, 10) == (2, [])
    assert [offset for offset, _ in await state.events()] == [0]


async def test_transactions_of_ours_that_are_no_run_tell_nobody(state: PostgresState, catalog: Catalog) -> None:
    await catalog.commit(SETUP, 'created_table:"main"."orders"')
    assert await state.read_outbox(0, 10) == []
    assert await catalog.rows() == 1


async def test_readers_are_told_of_a_commit(state: PostgresState, catalog: Catalog) -> None:
    """A hint: polling is the truth."""
    session, told = await catalog.session(), asyncio.Event()
    await session.add_listener("reactor_outbox", lambda *_: told.set())
    await run_committed(state, catalog, append([], "a"))
    async with asyncio.timeout(10):
        await told.wait()
    await session.reset()


async def test_a_publisher_has_a_position_like_any_consumer(state: PostgresState, catalog: Catalog) -> None:
    key = PositionKey(Consumer("publisher:hook"), outbox_of("prod"))
    await state.insert_positions([NewPosition(key, await state.outbox_next(), "", "now")])
    await run_committed(state, catalog, append([], "a"))
    position = (await state.load([key]))[key]
    behind, events = await state.read_published(position.floor, 10)
    assert len(events) == 1
    assert (await state.settle([claim(position.token, behind, key=key)]))[1] == frozenset()
    assert (await state.settle([claim(position.token, behind + 5, key=key)]))[1] == {key}  # one that slept
    assert [tuple(row) for row in await catalog.connection.fetch("select kind, waiting from reactor.backlog")] == [("outbox", 0)]


# -- the event


def cascaded(upstream: int, chain: int = 1, text: str = "") -> NewRun:
    """A run with everything that an event can tell."""
    root, run = run_id(), run_id()
    why = trigger(
        run, root_run_id=root, attempt=3, reason="asset", chain=tuple(f"{text}up{i}.sql" for i in range(chain)),
        upstream_snapshots=tuple(UpstreamSnapshot(f"ducklake://main/{text}u{i}", i, "2026-06-19") for i in range(upstream)),
        events=({"event_id": "older"}, {"event_id": "newest"}))
    return append(
        [], run_id=run, script=script(strategy="replace", path="flow/orders.sql"), trigger=why, strategy="replace",
        partitions=[PartitionClaim("2026-06-19", compare=False, start="2026-06-19T00:00:00.000Z", end="2026-06-20T00:00:00.000Z")])


async def test_the_event_says_what_the_conventions_say(state: PostgresState, catalog: Catalog) -> None:
    first = cascaded(2)
    before = await run_committed(state, catalog, first)
    run = cascaded(1)
    snapshot = await run_committed(state, catalog, run, [[120, 118]])
    made = await catalog.connection.fetchval("select snapshot_time from lake_main.ducklake_snapshot where snapshot_id = $1", snapshot)
    at = made.strftime("%Y-%m-%dT%H:%M:%S.") + f"{made.microsecond // 1000:03}Z"
    event = (await published(state))[1]
    assert event.pop("data") == {
        "asset": ASSET, "partition": "2026-06-19", "partition_start": "2026-06-19T00:00:00.000Z", "partition_end": "2026-06-20T00:00:00.000Z",
        "snapshot_id": snapshot, "previous_snapshot_id": before, "rows_inserted": 120, "rows_deleted": 118, "strategy": "replace",
        "script": "flow/orders.sql", "run_id": str(run.run_id), "root_run_id": str(run.trigger.root_run_id), "attempt": 3, "reason": "asset",
        "schema_version": 1, "schema_fingerprint": "sha256:" + 64 * "1", "schema_changed": False,
        "upstream_snapshots": [{"asset": "ducklake://main/u0", "snapshot_id": 0, "partition": "2026-06-19"}],
        "chain": ["up0.sql", "flow/orders.sql"]}
    facts = ["reactor.asset.updated.v1", "reactor://local/prod/main", str(snapshot), str(run.run_id), ASSET, "2026-06-19"]
    assert event == {
        "specversion": "1.0", "type": "reactor.asset.updated.v1", "source": "reactor://local/prod/main",
        "id": hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32], "subject": ASSET, "partitionkey": ASSET, "time": at,
        "datacontenttype": "application/json", "dataschema": "urn:reactor:schema:asset-updated:v1", "assetpartition": "2026-06-19",
        "sequence": f"{snapshot:020}", "correlationid": str(run.trigger.root_run_id), "causationid": "newest"}

    read = (await state.read_outbox(1, 1))[0]
    assert (read.event_id, read.asset, read.partition, read.snapshot_id, read.lake) == (event["id"], ASSET, "2026-06-19", snapshot, "main")
    assert (read.run_id, read.root_run_id, read.script, read.chain, read.schema_changed, read.rows) == (
        run.run_id, run.trigger.root_run_id, "flow/orders.sql", ("up0.sql", "flow/orders.sql"), False, 238)


async def test_an_asset_without_partitions_has_an_empty_one_in_the_id(state: PostgresState, catalog: Catalog) -> None:
    tokens = await start(state)
    run = append([claim(tokens[KEY], 1)])
    snapshot = await run_committed(state, catalog, run)
    (event,) = await published(state)
    facts = ["reactor.asset.updated.v1", "reactor://local/prod/main", str(snapshot), str(run.run_id), ASSET, ""]
    assert event["id"] == hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]
    assert (event["data"]["partition"], event["data"]["partition_start"], "assetpartition" in event) == (None, None, False)
    assert "causationid" not in event


async def test_the_id_is_equal_on_repeat(state: PostgresState, catalog: Catalog) -> None:
    """DuckLake repeats a refused commit with the same mark and another try at the same snapshot id; readers read again."""
    run = append([], "a", "b")
    await state.insert_run(run)
    session = await catalog.session()
    ids = []
    for commit in (False, True):
        transaction = session.transaction(isolation="repeatable_read")
        await transaction.start()
        await catalog.publish(mark(run), session=session)
        ids.append([r["event_id"] for r in await session.fetch("select event_id from reactor.outbox order by partition")])
        await (transaction.commit() if commit else transaction.rollback())
    assert ids[0] == ids[1] == [e["id"] for e in await published(state)] == [e.event_id for e in await state.read_outbox(0, 9)]


@pytest.mark.parametrize(("upstream", "chain", "text", "emptied"), [
    (256, 63, "", []),
    (257, 63, "", ["upstream_snapshots"]),
    (2000, 1, "", ["upstream_snapshots"]),
    (256, 1, "x" * 200, ["upstream_snapshots"]),
    (1, 64, "", ["chain"]),
    (2, 63, "y" * 2000, ["chain"]),
    (200, 63, "z" * 1500, ["upstream_snapshots", "chain"]),
    (150, 20, "é" * 190, ["upstream_snapshots"]),
])
async def test_a_list_that_does_not_fit_is_emptied_never_cut(
    state: PostgresState, catalog: Catalog, upstream: int, chain: int, text: str, emptied: list[str],
) -> None:
    run = cascaded(upstream, chain, text)
    await run_committed(state, catalog, run)
    (event,) = await published(state)
    data = event["data"]
    assert data.get("truncated", []) == emptied
    whole: dict[str, list[Any]] = {
        "upstream_snapshots": [u.to_json() for u in run.trigger.upstream_snapshots], "chain": [*run.trigger.chain, "flow/orders.sql"]}
    for name, entries in whole.items():
        assert data[name] == ([] if name in emptied else entries)
    assert (await state.read_outbox(0, 1))[0].chain == tuple(whole["chain"])
    shown = await state.event(event["id"])
    assert shown is not None
    assert {name: shown["data"][name] for name in whole} == whole  # type: ignore[index]
    assert await state.event("0" * 32) is None


async def test_events_are_listed_newest_first(state: PostgresState, catalog: Catalog) -> None:
    await run_committed(state, catalog, append([], "a", "b", "c"))
    await run_committed(state, catalog, append([], script=script("ducklake://main/other")))
    listed = await state.events(ASSET, limit=2)
    assert [(offset, e["assetpartition"]) for offset, e in listed] == [(2, "c"), (1, "b")]
    assert [offset for offset, _ in await state.events(ASSET, before=1)] == [0]
    assert [offset for offset, _ in await state.events()] == [3, 2, 1, 0]
