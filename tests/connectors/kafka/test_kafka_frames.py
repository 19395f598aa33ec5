"""Frames as they come from a socket, in any pieces, and a reader whose connections receive them."""

import asyncio
from collections.abc import Callable, Sequence
from io import BytesIO

import pytest
import uvloop
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka import hooks
from connectors.kafka.frames import SIZE, VIEWED_BYTES_MIN, Answer, Frames
from connectors.kafka.reader import SpanReader
from reactor.ports import RawSpan
from tests.connectors.kafka.lab import Lab


class Before(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def eof_received(self) -> bool:
        self.told.append("eof")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(exc)

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


def received(frames: Frames, data: bytes, pieces: Sequence[int]) -> None:
    """Write it as a socket would: into the buffer that is offered, as many bytes as there are, never more than it holds."""
    at, turn = 0, 0
    while at < len(data):
        buffer = frames.get_buffer(-1)
        count = min(len(buffer), pieces[turn % len(pieces)], len(data) - at)
        buffer[:count] = data[at : at + count]
        frames.buffer_updated(count)
        at, turn = at + count, turn + 1


@given(st.lists(st.binary(max_size=50), max_size=10), st.lists(st.integers(1, 30), min_size=1))
def test_frames_are_whole_however_they_come(sent: list[bytes], pieces: list[int]) -> None:
    taken, lost = list[bytes](), list[Exception]()
    frames = Frames(Before(), lambda frame: taken.append(bytes(frame)), lost.append)
    received(frames, b"".join(SIZE.pack(len(frame)) + frame for frame in sent), pieces)
    assert (taken, lost) == (sent, [])


@given(st.binary(max_size=3 * VIEWED_BYTES_MIN), st.lists(st.integers(0, 2 * VIEWED_BYTES_MIN), max_size=10))
def test_an_answer_is_read_as_a_file_is(data: bytes, sizes: list[int]) -> None:
    answer, file = Answer(memoryview(data)), BytesIO(data)
    for size in sizes:
        part = answer.read(size)
        assert part == file.read(size)
        assert isinstance(part, memoryview) == (len(part) >= VIEWED_BYTES_MIN)


def test_what_cannot_be_read_ends_the_connection() -> None:
    def take(_: memoryview) -> None:
        raise ValueError("no answer to anything")

    for data, said in ((SIZE.pack(1) + b"a", "no answer to anything"), (SIZE.pack(-5), "negative")):
        lost = list[Exception]()
        received(Frames(Before(), take, lost.append), data, [100])
        assert [said in str(error) for error in lost] == [True]


def test_the_protocol_before_is_told_how_the_connection_fares() -> None:
    before, lost, reset = Before(), list[Exception](), ConnectionResetError()
    frames = Frames(before, lambda _: None, lost.append)
    frames.pause_writing()
    frames.resume_writing()
    assert not frames.eof_received()
    frames.connection_lost(reset)
    frames.connection_lost(None)
    assert before.told == ["pause", "resume", "eof", reset, None]
    assert [type(error) for error in lost] == [EOFError, ConnectionResetError, EOFError]


async def values_read(spans: SpanReader, partition: TopicPartition, hi: int) -> list[bytes]:
    """Up to this offset, within half a minute."""
    values = list[bytes]()

    async def take(_: TopicPartition, span: RawSpan) -> bool:
        values.extend(span.records["value"].to_pylist())
        return True

    async with asyncio.timeout(30):
        while spans.next[partition] < hi:
            for where, fetched in await spans.fetch():
                await spans.hand_over(where, fetched, take)
    return values


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("columns", [True, False], ids=["columns", "records"])
def test_a_reader_reads_on_when_its_connections_are_lost(embedded_broker: str, new_loop: Callable[[], asyncio.AbstractEventLoop], columns: bool) -> None:
    """Records longer than what is copied out of a frame, and shorter ones; only who reads in columns gets views."""
    sent = [bytes([65 + i]) * size for i, size in enumerate((2 * VIEWED_BYTES_MIN, 10, 300_000, 1))]
    topic = f"frames-{new_loop.__module__.replace('.', '-')}-{columns}"

    async def read() -> None:
        lab = Lab(embedded_broker, lambda name: f"{name}-{topic}")
        await lab.make_topic("orders")
        partition = TopicPartition(lab.topic("orders"), 0)
        spans = SpanReader(lab.connection, columns=columns)
        await spans.open()
        spans.consumer.assign([partition])
        spans.start(partition, 0)
        try:
            for turn in range(2):
                await lab.produce("orders", sent)
                assert await values_read(spans, partition, (turn + 1) * len(sent)) == sent
                connections = list(hooks.client_of(spans.consumer)._conns.values())
                assert [isinstance(one._writer.transport.get_protocol(), Frames) for one in connections] == [columns] * len(connections)
                for one in connections:
                    one._writer.transport.abort()
        finally:
            await spans.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(read())
