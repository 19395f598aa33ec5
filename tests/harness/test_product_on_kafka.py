"""The same answers from a real Kafka as from scripted logs."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import pytest

from reactor.testing import Record
from tests.cases.runners import event_time, payload
from tests.cases.test_product_cases import KINDS
from tests.harness import Ground, Product, opened_product
from tests.harness.kafka import KafkaStreams

pytestmark = [pytest.mark.anyio, pytest.mark.kafka]

CHOSEN = {
    "payload": {"pay-01", "pay-03", "pay-08", "pay-19", "pay-30", "pay-31", "pay-32", "pay-33", "pay-36", "pay-44", "pay-54"},
    "event_time": {"evt-03", "evt-14", "evt-17", "evt-27", "evt-30", "evt-32", "evt-33"},
}
FLOW = """-- pipeline
-- on kafka://{topic}
-- batch id BIGINT, v VARCHAR
-- materialize ducklake://main/orders append
-- debounce 1s
SELECT id, v, _source_partition, _offset FROM batch"""


@pytest.fixture
async def streams(kafka_bootstrap: str) -> AsyncIterator[KafkaStreams]:
    async with KafkaStreams(kafka_bootstrap) as streams:
        yield streams


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path, streams: KafkaStreams) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path), streams=streams) as product:
        yield product


@pytest.mark.parametrize("runner", [payload, event_time], ids=lambda runner: runner.__name__.rpartition(".")[2])
async def test_cases(product: Product, streams: KafkaStreams, runner: ModuleType) -> None:
    kind = KINDS[runner.__name__.rpartition(".")[2]]
    cases = [case for case in kind.cases if case["id"] in CHOSEN[kind.name]]
    answers = await runner.run_in(product, cases, kind.setup, streams.prefix)
    assert {name: answer for name, answer in answers.items() if answer is not None} == {}
    assert len(answers) == len(CHOSEN[kind.name])


def sound(*offsets: int) -> list[Record]:
    return [Record(offset, b'{"id":%d,"v":"x"}' % offset) for offset in offsets]


async def test_transactions_restarts_and_two_source_partitions(product: Product, streams: KafkaStreams) -> None:
    """Markers and aborted records take offsets and are never rows; the position passes them, and nothing comes twice."""
    topic, asset = f"{streams.prefix}orders", "ducklake://main/orders"
    product.put({"orders.sql": FLOW.format(topic=topic)})
    await streams.make(topic, 2)
    await streams.produce(topic, 0, sound(0))
    await streams.transact(topic, 0, sound(1, 2), commit=True)  # marker at 3
    await streams.transact(topic, 0, sound(4, 5), commit=False)  # marker at 6
    await product.start()
    await product.settle()
    assert await product.positions(asset) == {f"{topic}/0": 7, f"{topic}/1": 0}
    await product.kill()
    await product.time_passes()
    await streams.produce(topic, 0, sound(7))
    await streams.produce(topic, 1, sound(0))
    await product.start()
    await product.settle()
    rows = await product.tool.rows("SELECT _source_partition, _offset, id FROM main.orders ORDER BY ALL")
    assert rows == [["0", "0", "0"], ["0", "1", "1"], ["0", "2", "2"], ["0", "7", "7"], ["1", "0", "0"]]
    assert await product.positions(asset) == {f"{topic}/0": 8, f"{topic}/1": 1}
