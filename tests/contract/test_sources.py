"""What every source of spans owes, shown by the Kafka source in both its ways: in columns, and record by record."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from connectors.kafka.spans import SCHEMA
from reactor.ports import OutOfRange, RawSpan
from tests.connectors.kafka.lab import Lab, Recorder, reading
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def lab(kafka_bootstrap: str, topic: Callable[[str], str]) -> Lab:
    return Lab(kafka_bootstrap, topic)


@pytest.fixture(params=[True, False], ids=["columns", "plain"])
def columns(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_records_come_as_they_were_sent(lab: Lab, columns: bool) -> None:
    await lab.make_topic("orders")
    sent: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"k", b"v", [("h", b"1"), ("h", b"\xff"), ("e", None)]),
        (None, b"v", []),
        (b"", b"v", []),
        (b"k", None, [("\u00e9", b"")]),
        (b"\x00\xff", b"", []),
    ]
    for codec in CODECS:
        async with lab.producer(compression_type=None if codec == "none" else codec) as producer:
            for key, value, headers in sent:
                await producer.send(lab.topic("orders"), value, key=key, headers=headers, timestamp_ms=1_781_827_200_123, partition=0)
    intake = Recorder()
    async with reading(lab.source("orders", columns=columns), intake):
        await intake.until_at(lab.part("orders"), len(sent) * len(CODECS))
    expected = [(key, value, [{"name": name, "value": each} for name, each in headers]) for key, value, headers in sent] * len(CODECS)
    table = intake.records(lab.part("orders"))
    assert list(zip(*(table[name].to_pylist() for name in ("key", "value", "headers")), strict=True)) == expected
    assert table["timestamp"].cast(pa.int64()).unique().to_pylist() == [1_781_827_200_123]


async def test_append_time_is_the_time_where_the_topic_says_so(lab: Lab, columns: bool) -> None:
    await lab.make_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    async with lab.producer() as producer:
        await producer.send_and_wait(lab.topic("stamped"), b"v", timestamp_ms=1)
    intake = Recorder()
    async with reading(lab.source("stamped", columns=columns), intake):
        await intake.until_at(lab.part("stamped"), 1)
    assert intake.records(lab.part("stamped"))["timestamp"].cast(pa.int64()).to_pylist()[0] > 1_700_000_000_000


async def test_holes_belong_to_spans_so_that_the_lag_ends_at_zero(lab: Lab, columns: bool) -> None:
    """Committed, aborted, plain records, and a marker at the end of the log."""
    await lab.make_topic("orders")
    await lab.transact("orders", [b"a", b"b"], commit=True)
    await lab.transact("orders", [b"x", b"y"], commit=False)
    await lab.produce("orders", [b"c"])
    end = await lab.transact("orders", [b"z"], commit=False) + 1
    intake, part = Recorder(), lab.part("orders")
    source = lab.source("orders", columns=columns)
    async with reading(source, intake):
        await intake.until_at(part, end)
        assert (await source.bounds([part]))[part].end == end
        last = await lab.transact("orders", [b"x"], commit=False)
        await intake.until_at(part, last + 1)
    assert intake.column(part, "value") == [b"a", b"b", b"c"]
    assert intake.spans[part][-1].records.num_rows == 0


async def test_what_is_not_committed_yet_is_held_back(lab: Lab, columns: bool) -> None:
    await lab.make_topic("orders")
    intake, part = Recorder(), lab.part("orders")
    source = lab.source("orders", columns=columns)
    async with reading(source, intake), lab.producer(transactional_id=lab.topic("open")) as producer:
        await producer.begin_transaction()
        await producer.send(lab.topic("orders"), b"a", partition=0)
        await producer.flush()
        await lab.produce("orders", [b"b"])
        assert (await source.bounds([part]))[part].end == 0
        assert intake.spans[part] == []
        await producer.commit_transaction()
        await intake.until_at(part, 3)
    assert intake.column(part, "value") == [b"a", b"b"]


async def test_reading_again_yields_the_same(lab: Lab, columns: bool) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"%d" % number for number in range(2_000)], compression_type="zstd", max_batch_size=4096)
    part = lab.part("orders")
    tables = []
    for start in (0, 0, 777):
        intake = Recorder({part: start})
        async with reading(lab.source("orders", columns=columns), intake):
            await intake.until_at(part, 2_000)
        tables.append(intake.records(part))
    assert tables[0].equals(tables[1])
    assert tables[0].slice(777).combine_chunks().equals(tables[2])


async def test_a_reader_of_ones_own_yields_the_same_and_stops_where_it_is_told(lab: Lab, columns: bool) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"%d" % number * 50 for number in range(3_000)], max_batch_size=8192)
    intake, part = Recorder(), lab.part("orders")
    source = lab.source("orders", columns=columns)
    async with reading(source, intake):
        await intake.until_at(part, 3_000)
        spans: list[RawSpan] = []
        at, reads = 10, 0
        while at < 2_500:
            spans += await source.read(part, at, 2_500, 40_000)
            at, reads = spans[-1].hi, reads + 1
        assert reads > 3
        assert spans[0].lo == 10
        assert [span.lo for span in spans[1:]] == [span.hi for span in spans[:-1]]
        table = pa.concat_tables([span.records for span in spans]).combine_chunks()
        assert table.equals(intake.records(part).slice(10, 2_490).combine_chunks())
        assert await source.read(part, 5, 5, 1_000) == ()
        with pytest.raises(OutOfRange, match=r"holds 0 to 3000"):
            await source.read(part, 5_000, 5_001, 1)


async def test_paused_means_nothing_more_until_resumed(lab: Lab, columns: bool) -> None:
    await lab.make_topic("orders", partitions=2)
    intake, part, other = Recorder(), lab.part("orders"), lab.part("orders", 1)
    source = lab.source("orders", columns=columns)
    intake.on_offer = lambda span: source.pause([part]) if span.source_partition == part else None
    async with reading(source, intake):
        await lab.produce("orders", [b"a"])
        await intake.until_at(part, 1)
        await lab.produce("orders", [b"b"])
        await lab.produce("orders", [b"c"], partition=1)
        await intake.until_at(other, 1)
        await lab.produce("orders", [b"d"], partition=1)
        await intake.until_at(other, 2)
        assert intake.hi(part) == 1
        source.resume([part])
        await intake.until_at(part, 2)
    assert intake.column(part, "value") == [b"a", b"b"]


async def test_one_without_an_answer_is_not_read(lab: Lab, columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.kafka.membership.LOOK_SECONDS", 0.1)
    await lab.make_topic("orders", partitions=2)
    part, other = lab.part("orders"), lab.part("orders", 1)
    intake = Recorder({part: None})
    intake.after_gap = lambda _: None
    async with reading(lab.source("orders", columns=columns), intake):
        await lab.produce("orders", [b"a"])
        await lab.produce("orders", [b"b"], partition=1)
        await intake.until_at(other, 1)
        assert intake.spans[part] == []
        intake.after_gap = lambda bounds: bounds.end  # `positions reset` while it runs

        async def asked_again() -> bool:
            return intake.hi(part) == 1

        await until(asked_again, "the halted one is asked about again")
        await lab.produce("orders", [b"c"])
        await intake.until_at(part, 2)
    assert intake.column(part, "value") == [b"c"]


async def test_a_time_is_an_offset(lab: Lab, columns: bool) -> None:
    await lab.make_topic("orders")
    async with lab.producer() as producer:
        for timestamp_ms in (1_000, 2_000, 3_000):
            await producer.send_and_wait(lab.topic("orders"), b"v", timestamp_ms=timestamp_ms)
    source, part = lab.source("orders", columns=columns), lab.part("orders")
    bounds = (await source.bounds([part]))[part]
    assert [await source.offset_at(part, timestamp_ms, bounds) for timestamp_ms in (0, 2_000, 2_001, 3_001)] == [0, 1, 2, 3]
    await source.close()


async def test_commit_is_a_courtesy(lab: Lab, columns: bool) -> None:
    """Idempotent, ignored for what is not ours, and no reason to start anywhere."""
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a", b"b", b"c"])
    part = lab.part("orders")
    source = lab.source("orders", columns=columns)
    await source.commit({part: 3})  # nothing is assigned yet
    first, second = Recorder(), Recorder()
    async with reading(source, first):
        await first.until_at(part, 3)
        assert await lab.group_offset("orders") == -1
        await source.commit({part: 2, lab.part("orders", 7): 9})
        await source.commit({part: 2})
        assert await lab.group_offset("orders") == 2
    await source.commit({part: 3})
    assert await lab.group_offset("orders") == 2
    async with reading(lab.source("orders", columns=columns), second):
        await second.until_at(part, 3)
    assert second.column(part, "value") == [b"a", b"b", b"c"]


async def test_a_span_has_the_schema_of_the_port_and_counts_its_bytes(lab: Lab, columns: bool) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"x" * 1000])
    intake, part = Recorder(), lab.part("orders")
    async with reading(lab.source("orders", columns=columns), intake):
        await intake.until_at(part, 1)
    span = intake.spans[part][0]
    assert span.records.schema == SCHEMA
    assert 1000 < span.size_bytes < 2000
