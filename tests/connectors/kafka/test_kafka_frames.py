"""Frames as they come from a socket, in any pieces, and a reader whose connections receive them."""

import asyncio
import contextlib
import gc
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from io import BytesIO

import numpy as np
import pytest
import uvloop
from aiokafka.conn import AIOKafkaConnection, CloseReason, create_conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka import hooks
from connectors.kafka.columns import BatchFetch
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


APIS = struct.pack(">hihhh", 0, 1, 3, 0, 5)
"""An answer to ApiVersions: no error, and metadata in these versions."""
HALF_AN_ANSWER = SIZE.pack(100) + bytes(50)


class Broker:
    """Answers which requests it knows, and then does something else."""

    def __init__(self, then: Callable[[asyncio.StreamWriter], object]) -> None:
        self.then, self.closed = then, asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (APIS, None):
            request = await reader.readexactly(SIZE.unpack(await reader.readexactly(4))[0])
            if answer is not None:
                writer.write(SIZE.pack(4 + len(answer)) + request[4:8] + answer)
        self.then(writer)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        self.closed.set()


@asynccontextmanager
async def connected(broker: Broker, reasons: list[CloseReason]) -> AsyncIterator[AIOKafkaConnection]:
    """A framed connection."""
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    connect = hooks.rebound(create_conn, AIOKafkaConnection=hooks.framing(Frames, Answer))
    try:
        yield await connect(*server.sockets[0].getsockname(), on_close=lambda _, reason: reasons.append(reason))
    finally:
        server.close()


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


LOOPS = pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])


@LOOPS
@pytest.mark.parametrize("cut", [asyncio.StreamWriter.close, reset], ids=["closed", "reset"])
def test_a_connection_that_ends_within_an_answer_fails_who_waits_for_it(
    new_loop: Callable[[], asyncio.AbstractEventLoop], cut: Callable[[asyncio.StreamWriter], object], caplog: pytest.LogCaptureFixture
) -> None:
    """Without a word in the log: it is the everyday of a network."""

    def half(writer: asyncio.StreamWriter) -> None:
        writer.write(HALF_AN_ANSWER)
        asyncio.get_running_loop().call_later(0.05, cut, writer)

    async def lose_it() -> None:
        reasons = list[CloseReason]()
        async with connected(Broker(half), reasons) as connection:
            with pytest.raises(KafkaConnectionError):
                await connection.send(MetadataRequest([]))
            await connection.close()
        assert reasons == [CloseReason.CONNECTION_BROKEN]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(lose_it())
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@LOOPS
@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")
def test_a_connection_that_nobody_has_any_more_is_closed(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """aiokafka drops one that it was cancelled over, while it waits for an answer."""

    async def abandon() -> None:
        asked = asyncio.Event()
        broker = Broker(lambda _: asked.set())
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # aiokafka tells of it

        async def ask() -> None:
            async with connected(broker, []) as connection:
                await connection.send(MetadataRequest([]))

        asking = asyncio.create_task(ask())
        await asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        del asking
        gc.collect()
        async with asyncio.timeout(10):
            await broker.closed.wait()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(abandon())


async def values_read(spans: SpanReader, partition: TopicPartition, hi: int) -> list[bytes]:
    """Up to this offset, within half a minute; what is long enough is viewed where it was received, and only by who can."""
    values = list[bytes]()

    async def take(_: TopicPartition, span: RawSpan) -> bool:
        values.extend(span.records["value"].to_pylist())
        return True

    async with asyncio.timeout(30):
        while spans.next[partition] < hi:
            for where, fetched in await spans.fetch():
                if isinstance(fetched, BatchFetch):
                    long = sum(map(len, fetched.batches)) >= VIEWED_BYTES_MIN
                    assert all(isinstance(batch.obj, np.ndarray) == long for batch in fetched.batches)
                await spans.hand_over(where, fetched, take)
    return values


@LOOPS
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
