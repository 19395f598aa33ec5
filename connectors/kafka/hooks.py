"""The one module that reaches into what aiokafka keeps private; the pinned minor version is for these lines.

A class that aiokafka names inside a function is replaced by running that function's own code with another name in its globals, bound to one
object: no other client of the process sees a difference, and `HookError` says at once when another version has no such name.
"""
# ruff: noqa: SLF001 - reaching into private parts is what this module is for

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakMethod

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason, create_conn
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from reactor.errors import Fatal, Outage

if TYPE_CHECKING:  # it needs NumPy, which who only writes need not load
    from connectors.kafka.frames import Answer, Frames

FETCH = 1
"""The API key of a fetch."""

Given = TypeVar("Given")

log = logging.getLogger(__name__)


class HookError(Fatal):
    """This version of aiokafka is built in another way."""


def rebound(function: Any, **names: object) -> FunctionType:  # noqa: ANN401 - an untyped function of aiokafka
    """The same code, in which these globals mean something else. Raises `HookError` if the code does not use one of them."""
    _must_use(function, *names)
    its_globals = {**function.__globals__, **names}
    twin = FunctionType(function.__code__, its_globals, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _must_use(function: Any, *names: str) -> None:  # noqa: ANN401 - an untyped function of aiokafka
    missing = set(names) - set(function.__code__.co_names)
    if missing:
        raise HookError(f"{function.__qualname__} does not use {', '.join(sorted(missing))}")


def client_of(consumer: AIOKafkaConsumer) -> AIOKafkaClient:
    """The connections of a consumer."""
    client: AIOKafkaClient = consumer._client
    return client


def generation_of(consumer: AIOKafkaConsumer) -> int:
    """Which rebalance of its group its assignment is of."""
    coordinator: Any = consumer._coordinator
    return int(coordinator.generation)


class Connection(AIOKafkaConnection):
    """To write where the other side has closed is an error of the network; uvloop raises a RuntimeError (aio-libs/aiokafka#1038)."""

    def send(self, request: Any, expect_response: bool = True) -> Any:  # noqa: ANN401 - aiokafka gives no types
        """Raises `KafkaConnectionError`."""
        whole: Any = super()
        try:
            return whole.send(request, expect_response)
        except RuntimeError as error:
            whole.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {error}") from error


def framing(frames: type[Frames], answer: type[Answer]) -> type[AIOKafkaConnection]:
    """A connection whose answers are read where the socket has written them, and the records of a fetch are views. Raises `HookError`.

    What is encrypted is copied anyway. As of aiokafka's own tasks, nothing that waits for the socket holds the connection: one that nobody has any
    more closes itself.
    """
    handle_viewed = rebound(AIOKafkaConnection._handle_frame, io=SimpleNamespace(BytesIO=answer))
    _must_use(AIOKafkaConnection._handle_frame, "_requests")
    _must_use(AIOKafkaConnection.connect, "_protocol", "_read_task", "_writer")

    class Framed(Connection):
        async def connect(self) -> Any:  # noqa: ANN401 - aiokafka gives no types
            ours: Any = self
            whole: Any = super()
            streams = await whole.connect()
            writer = ours._writer
            if ours._security_protocol.endswith("PLAINTEXT") and writer is not None and not writer.transport.is_closing():
                ours._read_task.cancel()
                writer.transport.pause_reading()  # how it reads is chosen when it begins to
                writer.transport.set_protocol(frames(ours._protocol, _weakly(self._taken), _weakly(self._lost)))
                writer.transport.resume_reading()
            return streams

        def _taken(self, frame: memoryview) -> None:
            ours: Any = self
            request = ours._requests[0][1]
            if request is not None and request.API_KEY == FETCH:
                handle_viewed(self, frame)
            else:
                ours._handle_frame(frame.tobytes())

        def _lost(self, error: Exception) -> None:
            if not isinstance(error, OSError | EOFError):
                log.error("Kafka %s:%s: an answer cannot be read", self.host, self.port, exc_info=error)
            whole: Any = self
            whole.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)

    return Framed


def _weakly(method: Callable[[Given], None]) -> Callable[[Given], None]:
    held = WeakMethod(method)

    def call(given: Given) -> None:
        if (alive := held()) is not None:
            alive(given)

    return call


def prepare(client: AIOKafkaClient, connection: type[AIOKafkaConnection] = Connection) -> None:
    """What each client needs before it connects. Raises `HookError`.

    Asking for a topic must not make it: brokers do by default, and a topic that somebody deleted would come back empty. And a connection that is
    lost must be told as that. `connection`: one of `framing` only where the classes of a fetch are replaced, too.
    """
    request = partial(MetadataRequest, allow_auto_topic_creation=False)
    connect = rebound(create_conn, AIOKafkaConnection=connection)
    for name, names in (("_metadata_update", {"MetadataRequest": request}), ("_get_conn", {"create_conn": connect}), ("bootstrap", {"create_conn": connect})):
        setattr(client, name, MethodType(rebound(getattr(AIOKafkaClient, name), **names), client))


def fetching(message_set: type, partition_records: type) -> FunctionType:
    """The code of a fetch that becomes these classes. Raises `HookError`."""
    return rebound(Fetcher._proc_fetch_request, MemoryRecords=message_set, PartitionRecords=partition_records)


def replace_fetching(consumer: AIOKafkaConsumer, fetch: FunctionType) -> None:
    """Let a consumer that is started fetch by this code."""
    setattr(consumer._fetcher, "_proc_fetch_request", MethodType(fetch, consumer._fetcher))  # noqa: B010 - mypy refuses the assignment


def set_fetch(consumer: AIOKafkaConsumer, bytes_min: int, wait_seconds: float) -> None:
    """From its next fetch on a broker answers a consumer, if that is started, when it has so many bytes or has waited so long.

    Raises `HookError`.
    """
    if (fetcher := consumer._fetcher) is not None:
        if not hasattr(fetcher, "_fetch_min_bytes") or not hasattr(fetcher, "_fetch_max_wait_ms"):
            raise HookError("a fetcher has no minimum of bytes, or does not wait for it")
        fetcher._fetch_min_bytes, fetcher._fetch_max_wait_ms = bytes_min, int(wait_seconds * 1000)


def asked_to_stop() -> bool:
    """Whether somebody has cancelled the task that asks. False while it is hit by the cancellation of something that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def given_up() -> Outage:
    """What such a cancellation means."""
    return Outage("A request to Kafka was given up by its client.", hint="It is tried again by itself.")


async def stop_consumer(consumer: AIOKafkaConsumer, timeout_seconds: float) -> None:
    """Leave the group and close; what is not done in time is cut off (a join that the broker holds back takes up to 40 s).

    aiokafka cancels the requests that are under way and waits for them, and one that is cancelled in the wrong moment cancels whoever stops it.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            await consumer.stop()
    except (TimeoutError, KafkaError, asyncio.CancelledError) as error:
        coordinator = consumer._coordinator
        tasks = [consumer._fetcher._fetch_task, *consumer._fetcher._pending_tasks] if consumer._fetcher else []
        tasks += [getattr(coordinator, name, None) for name in ("_coordination_task", "_heartbeat_task", "_commit_refresh_task")]
        await _cut_off(tasks)
        await consumer._client.close()
        if isinstance(error, asyncio.CancelledError) and asked_to_stop():
            raise


async def stop_producer(producer: AIOKafkaProducer, timeout_seconds: float) -> None:
    """Send what is left and close; what is not done in time is cut off. Errors that were raised once already are not reported again."""
    try:
        async with asyncio.timeout(timeout_seconds):
            await producer.stop()
    except (TimeoutError, KafkaError, asyncio.CancelledError) as error:
        await _cut_off([producer._sender.sender_task])
        await producer.client.close()
        if isinstance(error, asyncio.CancelledError) and asked_to_stop():
            raise
    accumulator, transactions = producer._message_accumulator, producer._txn_manager
    waiters = [batch._drain_waiter for batches in (*accumulator._batches.values(), accumulator._pending_batches) for batch in batches]
    waiters += [transactions._transaction_waiter] if transactions is not None else []
    for waiter in waiters:
        if waiter is not None and waiter.done() and not waiter.cancelled():
            waiter.exception()


async def _cut_off(tasks: list[asyncio.Task[Any] | None]) -> None:
    """Cancel until they end: aiokafka's tasks wait for tasks of their own when they are cancelled, and those try for ever."""
    alive = {task for task in tasks if task is not None and not task.done()}
    while alive:
        for task in alive:
            task.cancel()
        done, alive = await asyncio.wait(alive, timeout=0.1)
        for task in done:
            with contextlib.suppress(asyncio.CancelledError):
                task.exception()
