"""The Kafka source and the embedded broker: no transactions, and a new cluster with every start."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from connectors.kafka import hooks
from reactor.embedded import EmbeddedBroker
from tests.connectors.kafka.lab import Lab, Recorder, reading, reads_a_topic_that_is_made_later

pytestmark = pytest.mark.anyio


@pytest.fixture
def small_lab(embedded_broker: str, request: pytest.FixtureRequest) -> Lab:
    return Lab(embedded_broker, lambda name: f"{request.node.name.translate(str.maketrans('[]', '--'))}{name}")


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "plain"])
async def test_the_embedded_broker_is_read_like_any_other(small_lab: Lab, columns: bool) -> None:
    topic = "orders"
    await small_lab.make_topic(topic, partitions=2)
    await small_lab.produce(topic, [b"a", None, b"c"])
    intake, part = Recorder(), small_lab.part(topic)
    source = small_lab.source(topic, columns=columns)
    async with reading(source, intake):
        await intake.until_at(part, 3)
        await small_lab.produce(topic, [b"d"])
        await intake.until_at(part, 4)
        bounds = await source.bounds([part, small_lab.part(topic, 1)])
        assert (bounds[part].start, bounds[part].end) == (0, 4)
        assert bounds[part].topic_id is not None
        await source.commit({part: 4})
        spans = await source.read(part, 1, 3, 1_000_000)
    assert intake.column(part, "value") == [b"a", None, b"c", b"d"]
    assert [span.records["value"].to_pylist() for span in spans] == [[None, b"c"]]


@pytest.mark.usefixtures("quick")
async def test_a_topic_that_is_subscribed_to_and_made_later_is_read(small_lab: Lab) -> None:
    """This broker gives a member that joins again with nothing new what it had before, whatever its leader has assigned."""
    await reads_a_topic_that_is_made_later(small_lab)


async def test_a_request_that_is_given_up_cancels_nobody_else(small_lab: Lab) -> None:
    """aiokafka cancels what is under way when it stops, and is hit by that itself where a request waits for a broker that is away."""
    await small_lab.make_topic("orders")
    consumer = AIOKafkaConsumer(small_lab.topic("orders"), bootstrap_servers=small_lab.bootstrap_servers)
    await consumer.start()
    assert consumer._fetcher is not None
    consumer._fetcher._pending_tasks.add(asyncio.create_task(asyncio.Event().wait()))
    await hooks.stop_consumer(consumer, 10.0)
    assert not hooks.asked_to_stop()


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_a_connection_that_was_lost_is_made_anew_whatever_the_loop_says_of_it(embedded_broker: str, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """To write where the other side has closed, before anybody was told: uvloop raises what is no error of the network."""

    async def lose_it() -> None:
        client = AIOKafkaClient(bootstrap_servers=embedded_broker, request_timeout_ms=1000)
        hooks.prepare(client)
        await client.bootstrap()
        try:
            node, asked = client.get_random_node(), MetadataRequest([])
            assert await client.send(node, asked)
            (connection,) = client._conns.values()
            connection._writer.transport.abort()
            await asyncio.sleep(0)
            with pytest.raises(KafkaConnectionError):
                await connection.send(asked)
            assert await client.send(node, asked)
        finally:
            await client.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(lose_it())


async def test_another_start_is_another_log(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        with EmbeddedBroker(tmp_path / "broker") as bootstrap_servers:
            lab = Lab(bootstrap_servers, str)
            await lab.make_topic("orders")
            await lab.produce("orders", [b"a"])
            source = lab.source("orders")
            ids.append((await source.bounds([lab.part("orders")]))[lab.part("orders")].topic_id)
            await source.close()
    assert ids[0] != ids[1]
