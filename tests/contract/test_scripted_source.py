"""The shipped fake owes what every source owes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from reactor.domain.spans import SourcePartition
from reactor.errors import Outage
from reactor.ports import LogBounds, OutOfRange
from reactor.testing import CRASH, EOF, PAUSE, Crashed, Record, ScriptedLogs, ScriptedSource
from tests.connectors.kafka.lab import Recorder
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def logs() -> ScriptedLogs:
    return ScriptedLogs("lab")


@asynccontextmanager
async def reading(source: ScriptedSource, intake: Recorder) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(source.run(intake))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def source_of(logs: ScriptedLogs, group: str = "group") -> ScriptedSource:
    return logs.source("lab", group, {"orders"})


def records(*offsets: int) -> list[Record]:
    return [Record(offset, b"%d" % offset, b"k", [("h", b"\xff"), ("e", None)], 1_000 * offset) for offset in offsets]


async def test_records_come_as_they_were_sent_and_holes_belong_to_spans(logs: ScriptedLogs) -> None:
    part = logs.make("orders", start=3)
    logs.produce(part, [*records(3, 7), Record(9, None, None, (), None)], end=12)
    intake = Recorder()
    async with reading(source_of(logs), intake):
        await intake.until_at(part, 12)
    assert intake.known[part] == LogBounds("scripted/1", 3, 12)
    table = intake.records(part)
    assert table["offset"].to_pylist() == [3, 7, 9]
    assert table["value"].to_pylist() == [b"3", b"7", None]
    assert table["headers"].to_pylist()[0] == [{"name": "h", "value": b"\xff"}, {"name": "e", "value": None}]
    assert table["timestamp"].cast("int64").to_pylist() == [3_000, 7_000, None]


async def test_reading_again_and_a_reader_of_ones_own_yield_the_same(logs: ScriptedLogs) -> None:
    part = logs.make("orders")
    logs.produce(part, records(*range(100)))
    source, intake, again = source_of(logs), Recorder(), Recorder({part: 40})
    async with reading(source, intake), reading(source_of(logs, "another"), again):
        await intake.until_at(part, 100)
        await again.until_at(part, 100)
    assert intake.records(part).slice(40).equals(again.records(part))
    at, values = 10, []
    while at < 90:
        (span,) = await source.read(part, at, 90, 20)
        assert span.lo == at
        values += span.records["value"].to_pylist()
        at = span.hi
    assert values == [b"%d" % number for number in range(10, 90)]


async def test_what_comes_later_is_read_in_order_and_a_new_source_partition_is_found(logs: ScriptedLogs) -> None:
    part, intake = logs.make("orders"), Recorder()
    async with reading(source_of(logs), intake):
        for number in range(5):
            logs.produce(part, records(number))
            await intake.until_at(part, number + 1)
        new = logs.make("orders", 1)
        logs.produce(new, records(0))
        await intake.until_at(new, 1)
    assert intake.known[new].topic_id == intake.known[part].topic_id


async def test_offsets_that_are_gone_are_asked_about_and_what_is_halted_is_asked_again(logs: ScriptedLogs) -> None:
    part = logs.make("orders")
    logs.produce(part, records(0, 1))
    logs.truncate(part, 10)
    logs.produce(part, records(10, 11))
    source, intake = source_of(logs), Recorder({part: 0})
    intake.after_gap = lambda _: None
    async with reading(source, intake):
        await until(_truth(lambda: len(intake.out_of_range_asked) >= 2), "it is asked again", 10.0)
        assert intake.spans[part] == []
        intake.after_gap = lambda bounds: bounds.start
        await intake.until_at(part, 12)
    assert intake.column(part, "value") == [b"10", b"11"]
    with pytest.raises(OutOfRange):
        await source.read(part, 5, 12, 1_000)
    with pytest.raises(OutOfRange):
        await source.read(logs.partition("none"), 0, 1, 1_000)


async def test_a_pause_holds_and_other_source_partitions_go_on(logs: ScriptedLogs) -> None:
    one, other = logs.make("orders"), logs.make("orders", 1)
    source, intake = source_of(logs), Recorder()
    async with reading(source, intake):
        await intake.until_at(one, 0)
        source.pause([one])
        logs.produce(one, records(0))
        logs.produce(other, records(0))
        await intake.until_at(other, 1)
        assert intake.spans[one] == []
        source.resume([one])
        await intake.until_at(one, 1)


async def test_a_moved_source_partition_is_revoked_and_commit_is_a_courtesy(logs: ScriptedLogs) -> None:
    part = logs.make("orders")
    logs.produce(part, records(0, 1))
    first, second, one, other = source_of(logs), source_of(logs), Recorder(), Recorder()
    await first.commit({part: 9})
    assert logs.group_offsets == {}
    async with reading(first, one):
        await one.until_at(part, 2)
        async with reading(second, other):
            await first.commit({part: 1})
            logs.move(part, second)
            await other.until_at(part, 2)
            await until(_truth(lambda: one.revokes == [frozenset({part})]), "it is revoked")
            await first.commit({part: 2})
            assert logs.group_offsets == {("group", part): 1}
        await until(_truth(lambda: part in one.held), "what the other one had comes back")


async def test_a_call_that_is_refused_for_now_is_made_again(logs: ScriptedLogs) -> None:
    class Shy(Recorder):
        tried = 0

        async def assigned(self, bounds: Mapping[SourcePartition, LogBounds]) -> Mapping[SourcePartition, int]:
            self.tried += 1
            if self.tried < 3:
                raise Outage
            return await super().assigned(bounds)

    part, intake = logs.make("orders"), Shy()
    logs.produce(part, records(0))
    async with reading(source_of(logs), intake):
        await intake.until_at(part, 1)
    assert intake.tried == 3


async def test_the_offset_of_a_time(logs: ScriptedLogs) -> None:
    part = logs.make("orders")
    logs.produce(part, [*records(0, 2), replace(records(3)[0], timestamp_ms=None), *records(5)])
    source = source_of(logs)
    bounds = (await source.bounds([part, logs.partition("none")]))[part]
    assert [await source.offset_at(part, at, bounds) for at in (0, 1, 2_001, 5_001)] == [0, 2, 5, 6]


async def test_a_timestamp_below_zero_is_none(logs: ScriptedLogs) -> None:
    part, intake = logs.make("orders"), Recorder()
    logs.produce(part, [replace(records(0)[0], timestamp_ms=-1), replace(records(1)[0], timestamp_ms=0)])
    async with reading(source_of(logs), intake):
        await intake.until_at(part, 2)
    assert intake.column(part, "timestamp") == [None, datetime(1970, 1, 1, tzinfo=UTC)]


async def test_sentinels_hold_and_end_a_reader(logs: ScriptedLogs) -> None:
    part = logs.make("orders")
    logs.produce(part, [*records(0), PAUSE, *records(1), CRASH, *records(2), EOF])
    intake = Recorder()
    async with reading(source_of(logs), intake) as task:
        await intake.until_at(part, 1)
        assert intake.column(part, "value") == [b"0"]
        logs.go_on()
        with pytest.raises(Crashed):
            await task
    again = Recorder({part: 2})
    async with reading(source_of(logs), again) as task:
        await task
    assert again.column(part, "value") == [b"2"]


def _truth(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def there() -> bool:
        return condition()

    return there
