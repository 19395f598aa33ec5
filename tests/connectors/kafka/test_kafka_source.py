"""The Kafka source against a real Apache Kafka: membership, new and absent topics, lost ranges, other logs, outages."""

import asyncio
from collections.abc import Collection

import pytest

from connectors.kafka import membership
from connectors.kafka.client import KafkaConnection
from connectors.kafka.source import KafkaSource
from reactor.domain.spans import SourcePartition
from tests.connectors.kafka.lab import Lab, Recorder, WallClock, reading, reads_a_topic_that_is_made_later
from tests.parts.kafka import KafkaCluster
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio


async def test_reads_what_is_there_and_what_comes(lab: Lab) -> None:
    await lab.make_topic("orders", partitions=2)
    await lab.produce("orders", [b"a", b"b"])
    intake, part, other = Recorder(), lab.part("orders"), lab.part("orders", 1)
    source = lab.source("orders")
    async with reading(source, intake):
        await intake.until_at(part, 2)
        await lab.produce("orders", [b"c"])
        await lab.produce("orders", [b"d"], partition=1)
        await intake.until_at(part, 3)
        await intake.until_at(other, 1)
        assert source.reached
        assert source.trouble == ""
    assert intake.column(part, "value") == [b"a", b"b", b"c"]
    assert intake.column(other, "value") == [b"d"]
    assert intake.revokes == []


@pytest.mark.usefixtures("quick")
async def test_an_absent_topic_is_waited_for_and_not_made(lab: Lab) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a"])
    intake = Recorder()
    source = lab.source("orders", "later")
    async with reading(source, intake):
        await intake.until_at(lab.part("orders"), 1)
        assert lab.topic("later") in source.trouble
        async with lab.admin() as admin:
            assert lab.topic("later") not in await admin.list_topics()
        await lab.make_topic("later", partitions=2)
        await lab.produce("later", [b"b"], partition=1)
        await intake.until_at(lab.part("later", 1), 1)
        assert source.trouble == ""
    assert intake.column(lab.part("later", 1), "value") == [b"b"]


@pytest.mark.usefixtures("quick")
async def test_a_topic_that_is_subscribed_to_and_made_later_is_read(lab: Lab) -> None:
    await reads_a_topic_that_is_made_later(lab)


@pytest.mark.usefixtures("quick")
async def test_a_partition_that_is_added_is_read_from_its_start(lab: Lab) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a"])
    intake, new = Recorder(), lab.part("orders", 1)
    async with reading(lab.source("orders"), intake):
        await intake.until_at(lab.part("orders"), 1)
        await lab.add_partitions("orders", 2)
        await lab.produce("orders", [b"b", b"c"], partition=1)
        await intake.until_at(new, 2)
    assert intake.column(new, "value") == [b"b", b"c"]
    assert intake.column(lab.part("orders"), "value") == [b"a"]


async def test_a_rebalance_hands_over_and_nothing_is_committed_after_it(lab: Lab) -> None:
    await lab.make_topic("orders", partitions=2)
    parts = {lab.part("orders", 0), lab.part("orders", 1)}
    for number in (0, 1):
        await lab.produce("orders", [b"a"], partition=number)
    first, second = Recorder(), Recorder()
    one, two = lab.source("orders"), lab.source("orders")

    async def commit_while_letting_go(partitions: Collection[SourcePartition]) -> None:
        await one.commit(dict.fromkeys(partitions, 1))

    first.on_revoke = commit_while_letting_go
    async with reading(one, first):
        for part in parts:
            await first.until_at(part, 1)
        assert first.held == parts
        async with reading(two, second):

            async def shared() -> bool:
                return len(first.held) == len(second.held) == 1

            await until(shared, "each has one")
            assert first.revokes == [parts]
            assert first.held | second.held == parts
            (gone,) = second.held
            await second.until_at(gone, 1)
            await one.commit({gone: 0})
            assert await lab.group_offset("orders", int(gone.number)) == 1

        async def all_back() -> bool:
            return first.held == parts

        await until(all_back, "what the second had comes back")
        await lab.produce("orders", [b"b"], partition=int(gone.number))
        await first.until_at(gone, 2)
    assert first.column(gone, "value") == [b"a", b"b"]


async def test_a_stuck_intake_does_not_cost_the_membership(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "REVOKE_SECONDS_MAX", 0.2)
    await lab.make_topic("orders", partitions=2)
    first, second = Recorder(), Recorder()
    first.on_revoke = lambda _: asyncio.Event().wait()
    async with reading(lab.source("orders"), first):

        async def joined() -> bool:
            return len(first.held) == 2

        await until(joined, "the first has both")
        async with reading(lab.source("orders"), second):

            async def shared() -> bool:
                return len(first.held) == len(second.held) == 1

            await until(shared, "each has one")


@pytest.mark.usefixtures("quick")
async def test_another_topic_under_the_same_name_is_noticed(lab: Lab) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a", b"b", b"c"])
    intake, part = Recorder(), lab.part("orders")
    source = lab.source("orders")
    async with reading(source, intake):
        await intake.until_at(part, 3)
        before = intake.known[part]
        await lab.delete_topic("orders")
        await lab.make_topic("orders")
        await lab.produce("orders", [b"n"] * 5)

        async def noticed() -> bool:
            seen = {bounds.topic_id for asked, bounds in intake.out_of_range_asked if asked == part} | {intake.known[part].topic_id}
            return bool(seen - {before.topic_id})

        await until(noticed, "another topic id")
        now = (await source.bounds([part]))[part]
    assert before.topic_id is not None
    assert now.topic_id is not None
    assert before.topic_id.split("/")[0] == now.topic_id.split("/")[0]
    assert before.topic_id != now.topic_id
    assert (now.start, now.end) == (0, 5)


async def test_retention_that_passed_the_position_is_told_with_the_bounds(lab: Lab) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"%d" % number for number in range(10)])
    part = lab.part("orders")
    intake = Recorder()
    source = lab.source("orders")
    intake.on_offer = lambda _: source.pause([part])
    async with reading(source, intake):
        await intake.until_at(part, 10)
        await lab.produce("orders", [b"x"] * 10)
        await lab.delete_records("orders", 15)
        source.resume([part])
        await intake.until_at(part, 20)
    asked, bounds = intake.out_of_range_asked[0]
    assert (asked, bounds.start, bounds.end) == (part, 15, 20)
    assert intake.column(part, "offset") == [*range(10), *range(15, 20)]


async def test_a_position_beyond_the_end_is_told_and_halts(lab: Lab) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a"] * 5)
    part = lab.part("orders")
    intake = Recorder({part: 100})
    intake.after_gap = lambda _: None
    async with reading(lab.source("orders"), intake):

        async def told() -> bool:
            return bool(intake.out_of_range_asked)

        await until(told, "out of range")
    assert intake.out_of_range_asked[0][1].end == 5
    assert intake.spans[part] == []


@pytest.mark.slow
async def test_what_compaction_removed_is_a_hole(lab: Lab) -> None:
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100"}
    await lab.make_topic("orders", configs=settings)
    async with lab.producer() as producer:
        for number in range(4):
            await producer.send_and_wait(lab.topic("orders"), b"%d" % number, key=b"same")
    part = lab.part("orders")

    async def compacted() -> bool:
        await lab.produce("orders", [b"end"])  # with a key of its own: closes the segment before
        intake, source = Recorder(), lab.source("orders")
        async with reading(source, intake):
            await intake.until_at(part, (await source.bounds([part]))[part].end)
        return intake.column(part, "value")[0] == b"3"

    await until(compacted, "the log cleaner has been here", seconds=90.0)


@pytest.mark.usefixtures("quick")
async def test_a_muted_partition_is_connected_anew(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetches of a source partition go nowhere although there is lag."""
    monkeypatch.setattr(membership, "STALLED_SECONDS", 1.0)
    await lab.make_topic("orders")
    intake, part = Recorder(), lab.part("orders")
    source = lab.source("orders")
    async with reading(source, intake):
        await lab.produce("orders", [b"a"])
        await intake.until_at(part, 1)
        assert source._membership is not None
        source._membership._reader.consumer.pause(lab.connection.partition(part))
        await lab.produce("orders", [b"b"])
        await intake.until_at(part, 2)
    assert intake.revokes == [frozenset({part})]
    assert intake.column(part, "value") == [b"a", b"b"]


async def test_a_static_member_keeps_its_partitions_over_a_restart(lab: Lab) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a"])
    part = lab.part("orders")
    for _ in range(2):
        intake = Recorder()
        async with reading(lab.source("orders", replica_id="replica-1"), intake):
            await intake.until_at(part, 1)
    assert intake.column(part, "value") == [b"a"]


async def test_a_broker_that_is_away_at_the_start_is_waited_for() -> None:
    connection = KafkaConnection("main", "127.0.0.1:1")
    source = KafkaSource(connection, "group", ["orders"], clock=WallClock())
    async with reading(source, Recorder()):

        async def said() -> bool:
            return source.trouble != ""

        await until(said, "trouble is told")
        assert not source.reached
    assert "Kafka cluster main (127.0.0.1:1)" in source.trouble
    assert "bootstrap_servers" in source.trouble


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
async def test_a_broker_that_dies_is_waited_for(own_kafka: KafkaCluster) -> None:
    lab = Lab(own_kafka.bootstrap_servers, str)
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a"])
    intake, part = Recorder(), lab.part("orders")
    source = lab.source("orders")
    async with reading(source, intake):
        await intake.until_at(part, 1)
        await asyncio.to_thread(own_kafka.kill)

        async def troubled() -> bool:
            return source.trouble != ""

        await until(troubled, "the outage is told", seconds=60.0)
        own_kafka.start()
        await lab.produce("orders", [b"b"])
        await intake.until_at(part, 2, seconds=60.0)

        async def well() -> bool:
            return source.trouble == ""

        await until(well, "the outage is over")
    assert intake.column(part, "value") == [b"a", b"b"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("replica_id", [None, "a"])
async def test_other_topics_are_read_while_it_runs(lab: Lab, replica_id: str | None) -> None:
    for name in ("orders", "old", "new"):
        await lab.make_topic(name)
        await lab.produce(name, [b"a", b"b"])
    intake = Recorder()
    source = lab.source("orders", "old", replica_id=replica_id)
    async with reading(source, intake):
        await intake.until_at(lab.part("orders"), 2)
        await intake.until_at(lab.part("old"), 2)
        await source.subscribe([lab.topic("orders"), lab.topic("new")])
        await lab.produce("orders", [b"c"])
        await lab.produce("old", [b"c"])
        await intake.until_at(lab.part("new"), 2)
        await intake.until_at(lab.part("orders"), 3)
        assert intake.held == {lab.part("orders"), lab.part("new")}
    assert intake.hi(lab.part("old")) == 2


@pytest.mark.usefixtures("quick")
async def test_a_static_member_that_comes_back_with_other_topics_is_given_them(lab: Lab) -> None:
    for name in ("orders", "new"):
        await lab.make_topic(name)
        await lab.produce(name, [b"a"])
    for topics in (["orders"], ["orders", "new"]):
        intake = Recorder()
        async with reading(lab.source(*topics, replica_id="a"), intake):
            for name in topics:
                await intake.until_at(lab.part(name), 1, 60.0)
