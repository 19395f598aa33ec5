"""What every state owes of its queues, and of what replicas say to each other, shown by the shipped fake and by PostgreSQL."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from importlib.resources import files

import jsonschema
import pytest

from reactor.domain.decisions import Decision
from reactor.domain.runs import PartitionCounts, UpstreamSnapshot
from reactor.domain.scripts import ScriptPath
from reactor.domain.spans import Consumer
from reactor.errors import Conflict
from reactor.ports import NewRun, PartitionClaim
from tests.contract.state_grounds import Case
from tests.state.making import ORDERS, run_id

pytestmark = pytest.mark.anyio
SCHEMA = json.loads(files("reactor").joinpath("schemas/asset-updated.v1.json").read_text())


async def test_events_are_read_in_commit_order_without_gaps_and_are_the_same_again(case: Case) -> None:
    runs = [case.appends([], *names) for names in (["b", "a"], ["c"], ["d"])]
    for run in runs:
        await case.commits(run)
    read = list(await case.state.read_outbox(case.since, 100))
    assert [(e.offset - case.since, e.run_id, e.partition) for e in read] == [
        (0, runs[0].run_id, "a"), (1, runs[0].run_id, "b"), (2, runs[1].run_id, "c"), (3, runs[2].run_id, "d")]  # fmt: skip
    assert await case.state.outbox_next() == case.since + 4
    await case.commits(case.appends([], "e"))
    other = await case.ground.replica()
    assert list(await other.read_outbox(case.since, 4)) == read
    assert [e.partition for e in await other.read_outbox(case.since + 3, 100)] == ["d", "e"]
    assert len({e.event_id for e in read}) == 4


async def test_of_writers_at_once_every_event_has_a_number_and_no_number_is_free(case: Case) -> None:
    runs = [case.appends([], f"s{n}") for n in range(6)]
    read: list[str] = []

    async def follow() -> None:
        async with asyncio.timeout(60):
            while len(read) < len(runs):
                found = await case.state.read_outbox(case.since + len(read), 2)
                assert [e.offset for e in found] == [case.since + len(read) + n for n in range(len(found))]
                read.extend(e.partition for e in found)
                await asyncio.sleep(0)

    async def write(run: NewRun) -> None:
        await case.state.insert_run(run)
        while True:
            try:
                await case.ground.publish(run, [PartitionCounts(1, 0)])
            except Conflict:  # two took the same snapshot id
                continue
            return

    await asyncio.gather(follow(), *(write(run) for run in runs))
    by_snapshot = sorted([((await case.state.verdict(run.run_id, "main", -1)).snapshot_id or 0, run.partitions[0].asset_partition) for run in runs])
    assert read == [name for _, name in by_snapshot]


async def test_what_is_published_comes_in_pages_and_holds_to_the_schema(case: Case) -> None:
    await case.commits(case.appends([], "a", "b"), PartitionCounts(2, 1), PartitionCounts(1, 0))
    await case.state.outbox_next()
    await case.completes(case.appends([], "a"))
    await case.state.outbox_next()
    await case.commits(case.appends([], ""))
    pages, at = [], case.since
    while at < case.since + 4:
        page = await case.state.read_published(at, 2)
        pages.append([dict(event).get("assetpartition", "") for event in page[1]])
        for event in page[1]:
            jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(event)
        at = page[0]
    assert pages == [["a", "b"], [""]]
    assert await case.state.read_published(at, 2) == (at, [])
    _, events = await case.state.read_published(case.since, 3)
    assert [e.event_id for e in await case.state.read_outbox(case.since, 2)] == [event["id"] for event in events]


async def test_an_event_says_what_happened_and_why(case: Case) -> None:
    before = await case.commits(case.appends([], "a"))
    run = case.appends([], cascade=False, strategy="merge")
    upstream = (UpstreamSnapshot("ducklake://main/up", 3, "p"), UpstreamSnapshot("ducklake://main/whole", 4))
    trigger = replace(
        run.trigger, root_run_id=run_id(), attempt=2, reason="asset", chain=("up.sql",), upstream_snapshots=upstream, events=({"event_id": "e1"}, {"event_id": "e2"}))
    start, end = "2026-06-19T00:00:00.000Z", "2026-06-20T00:00:00.000Z"
    run = replace(run, trigger=trigger, partitions=[PartitionClaim("a", compare=False, start=start, end=end)])
    snapshot = await case.commits(run, PartitionCounts(2, 1))
    (event,) = (await case.state.read_published(case.since + 1, 1))[1]
    source, told = "reactor://local/prod/main", dict(event)
    name = ["reactor.asset.updated.v1", source, str(snapshot), str(run.run_id), case.asset, "a"]
    assert isinstance(told.pop("time"), str)
    assert told == {
        "specversion": "1.0", "type": name[0], "source": source, "id": hashlib.sha256("\n".join(name).encode()).hexdigest()[:32],
        "subject": case.asset, "partitionkey": case.asset, "assetpartition": "a", "sequence": f"{snapshot:020}",
        "correlationid": str(trigger.root_run_id), "causationid": "e2", "datacontenttype": "application/json",
        "dataschema": "urn:reactor:schema:asset-updated:v1", "data": {
            "asset": case.asset, "partition": "a", "partition_start": start, "partition_end": end, "snapshot_id": snapshot,
            "previous_snapshot_id": before, "rows_inserted": 2, "rows_deleted": 1, "strategy": "merge", "script": "orders.sql",
            "run_id": str(run.run_id), "root_run_id": str(trigger.root_run_id), "attempt": 2, "reason": "asset", "schema_version": 1,
            "schema_fingerprint": run.schema and run.schema.fingerprint, "schema_changed": False, "chain": ["up.sql", "orders.sql"],
            "upstream_snapshots": [{"asset": "ducklake://main/up", "snapshot_id": 3, "partition": "p"}, {"asset": "ducklake://main/whole", "snapshot_id": 4}],
        },
    }  # fmt: skip
    (update,) = await case.state.read_outbox(case.since + 1, 1)
    assert (update.event_id, update.root_run_id, update.chain, update.cascade) == (told["id"], trigger.root_run_id, ("up.sql", "orders.sql"), False)


async def test_the_newest_snapshots_upstream(case: Case) -> None:
    await case.commits(case.appends([], "a"))
    newest = await case.commits(case.appends([], "b"))
    await case.completes(case.appends([], "a"))
    found = await case.state.upstream_snapshots([case.asset, "ducklake://main/never"])
    assert found == [UpstreamSnapshot(case.asset, newest, "b")]


async def test_runs_that_somebody_asks_for_are_read_in_order(case: Case) -> None:
    first = await case.state.request_run(script="a.sql", partition="p", actor="me", cascade=False, replace_slice=True, arguments={"n": 1})
    second = await case.state.request_run(script="b.sql", partition="", actor="you", reason="backfill")
    assert second[0] == first[0] + 1
    one, two = await case.state.read_inbox(first[0], 10)
    assert [(r.offset, r.event_id) for r in (one, two)] == [first, second]
    assert (one.script, one.partition, one.actor, one.reason, one.cascade, one.replace_slice, one.arguments) == ("a.sql", "p", "me", "manual", False, True, {"n": 1})
    assert (two.script, two.reason, two.cascade, two.replace_slice, two.arguments) == ("b.sql", "backfill", True, False, {})
    assert list(await case.state.read_inbox(first[0], 1)) == [one]
    assert list(await case.state.read_inbox(second[0] + 1, 10)) == []


# -- what replicas say to each other


async def test_a_lease_is_one_holder_s_until_it_ends(case: Case) -> None:
    name = case.asset
    assert await case.state.lease(name, "a", 60)
    assert await case.state.lease(name, "a", 60)
    assert not await case.state.lease(name, "b", 60)
    await case.state.release(name, "b")
    assert not await case.state.lease(name, "b", 60)
    await case.state.release(name, "a")
    assert await case.state.lease(name, "b", 0)
    assert await case.state.lease(name, "a", 60), "one that has run out is anybody's"


async def test_the_commit_lock_is_one_replica_s_and_nobody_waits_for_ever(case: Case) -> None:
    other = await case.ground.replica()
    async with case.state.commit_lock("main", 60) as held:
        assert held
        async with other.commit_lock("main", 0.05) as refused:
            assert not refused
        async with case.state.commit_lock("main", 0.05) as refused:
            assert not refused
    async with other.commit_lock("main", 60) as held:
        assert held


async def test_who_is_paused_is_told(case: Case) -> None:
    assert case.consumer not in await case.state.pauses()
    await case.ground.pause(case.consumer)
    assert case.consumer in await case.state.pauses()


async def test_decisions_are_written_once_and_purged_some_at_a_time(case: Case) -> None:
    while await case.state.purge_decisions(0, 1000):
        pass
    decisions = [Decision(Consumer(case.asset), ScriptPath("a.sql"), ORDERS, n, n + 1, "a", "dispatched") for n in range(3)]
    await case.state.write_decisions(decisions)
    await case.state.insert_run(case.appends([], "a", decisions=decisions))
    assert await case.state.purge_decisions(30, 10) == 0
    assert [await case.state.purge_decisions(0, 2) for _ in range(3)] == [2, 1, 0]
