"""Settings of a cluster, errors at the border, and the hooks into aiokafka."""

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient
from aiokafka.structs import TopicPartition

from connectors.kafka import columns, hooks, reader
from connectors.kafka.client import KafkaConnection
from connectors.kafka.columns import BatchFetch
from connectors.kafka.reader import GATHER_BYTES, GATHER_SECONDS, SpanReader
from connectors.kafka.spans import INLINE_BYTES_MAX
from reactor.domain.spans import SourcePartition
from reactor.errors import Outage, UsageError
from reactor.ports import RawSpan
from tests.connectors.kafka.batches import Batch, Record
from tests.connectors.kafka.lab import Lab, Recorder, reading

pytestmark = pytest.mark.anyio

CONNECTION = KafkaConnection("main", "broker:9092")


def test_source_partitions_and_back() -> None:
    source = CONNECTION.source("orders.eu", 3)
    assert source == SourcePartition("kafka://main/orders.eu", "3")
    assert CONNECTION.partition(source) == TopicPartition("orders.eu", 3)
    with pytest.raises(ValueError, match="kafka://main/"):
        CONNECTION.partition(SourcePartition("kafka://other/orders", "0"))


def test_a_password_is_not_shown() -> None:
    connection = KafkaConnection("main", "b:1", "SASL_PLAINTEXT", "SCRAM-SHA-256", "user", "secret-word")
    assert "secret-word" not in repr(connection)
    assert connection.options()["sasl_plain_password"] == "secret-word"


def test_what_is_missing_is_named_with_its_section() -> None:
    with pytest.raises(UsageError, match=r"sasl_username and sasl_password in \[kafka\.main\]"):
        KafkaConnection("main", "b:1", "SASL_PLAINTEXT", sasl_username="user").options()
    with pytest.raises(UsageError, match="ca_path"):
        KafkaConnection("main", "b:1", "SSL", ca_path=Path("absent.pem")).options()


@pytest.fixture
def connection(tmp_path: Path) -> KafkaConnection:
    """With a certificate of its own making."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ["-subj", "/CN=reactor", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names], check=True, capture_output=True)
    return KafkaConnection("main", "b:1", "SASL_SSL", "SCRAM-SHA-512", "user", "word", certificate, certificate, key)


async def test_aiokafka_takes_the_options_of_tls_and_sasl(connection: KafkaConnection) -> None:
    await AIOKafkaClient(**connection.options()).close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (kafka.KafkaConnectionError("refused."), r"does not answer as it should: KafkaConnectionError: .*refused\.\n.*bootstrap_servers"),
        (TimeoutError(), "does not answer as it should: TimeoutError"),
        (kafka.TopicAuthorizationFailedError("orders"), r"refuses: TopicAuthorizationFailedError.*orders.*\n.*credentials"),
    ],
)
def test_errors_become_outages_that_say_where_and_what_to_do(error: Exception, said: str) -> None:
    failure = CONNECTION.failure(error)
    assert isinstance(failure, Outage)
    with pytest.raises(Outage, match=r"Kafka cluster main \(broker:9092\) " + said):
        raise failure


def test_a_hook_that_finds_nothing_says_so() -> None:
    with pytest.raises(hooks.HookError, match="stop does not use MemoryRecords"):
        hooks.rebound(SpanReader.stop, MemoryRecords=object)


async def test_a_damaged_batch_is_an_outage_that_says_where() -> None:
    data = bytearray(Batch(7, [Record(0)], 8).encoded())
    data[-1] ^= 1
    spans = SpanReader(CONNECTION, columns=True)
    partition = TopicPartition("orders", 0)
    spans.next[partition] = 7

    async def take(_: TopicPartition, __: RawSpan) -> bool:
        raise AssertionError("nothing can be taken")

    with pytest.raises(Outage, match=r"kafka://main/orders/0 from offset 7 on: .* checksum"):
        await spans.hand_over(partition, BatchFetch(7, 8, [memoryview(bytes(data))]), take)
    await spans.close()


@pytest.mark.parametrize(("size_bytes", "codec", "here"), [(1000, 0, True), (1000, 1, False), (INLINE_BYTES_MAX, 0, False)])
async def test_what_is_known_to_be_small_is_decoded_where_it_is(size_bytes: int, codec: int, here: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the first fetch: at its first call compiled code is loaded, or even made."""
    threads, plain = list[bool](), columns.table

    def table(*given: Any) -> pa.Table:
        threads.append(threading.get_ident() == here_is)
        return plain(*given)

    monkeypatch.setattr(columns, "table", table)
    here_is = threading.get_ident()
    spans, partition, taken = SpanReader(CONNECTION, columns=True), TopicPartition("orders", 0), list[RawSpan]()
    spans.next[partition] = 7

    async def take(_: TopicPartition, span: RawSpan) -> bool:
        taken.append(span)
        return True

    for lo in (7, 8):
        batch = Batch(lo, [Record(0, b"v" * size_bytes)], lo + 1, codec=codec)
        await spans.hand_over(partition, BatchFetch(lo, lo + 1, [memoryview(batch.encoded())]), take)
    await spans.close()
    assert [len(value) for span in taken for value in span.records["value"].to_pylist()] == [size_bytes, size_bytes]
    assert threads == [False, here]


def test_a_broker_gathers_only_while_records_come(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    monkeypatch.setattr(hooks, "set_fetch", lambda _, bytes_min, seconds: said.append((bytes_min, seconds) == (GATHER_BYTES, GATHER_SECONDS)))
    now = 1000.0
    monkeypatch.setattr(reader, "monotonic", lambda: now)
    spans = SpanReader.__new__(SpanReader)
    spans.consumer, spans._came_at = cast("AIOKafkaConsumer", None), 0.0
    for seconds, came in ((0.0, True), (0.05, True), (0.05, False), (0.02, True), (0.2, True), (0.05, True), (0.5, False), (0.0, True)):
        now += seconds
        spans._gather(came=came)
    assert said == [False, True, False, True, False, True, False, False]


@pytest.fixture
def lab(kafka_bootstrap: str, topic: Callable[[str], str]) -> Lab:
    return Lab(kafka_bootstrap, topic)


async def one_record_is_read(lab: Lab) -> None:
    await lab.make_topic("orders")
    await lab.produce("orders", [b"a"])
    intake = Recorder()
    async with reading(lab.source("orders"), intake):
        await intake.until_at(lab.part("orders"), 1)
    assert intake.column(lab.part("orders"), "value") == [b"a"]


@pytest.mark.parametrize("missing", [ImportError("No module named 'numba'"), hooks.HookError("built in another way")], ids=["numba", "aiokafka"])
async def test_without_the_columnar_way_it_is_read_record_by_record(
    lab: Lab, missing: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def import_module(_: str) -> object:
        raise missing

    monkeypatch.setattr(reader, "import_module", import_module)
    await one_record_is_read(lab)
    assert str(missing) in caplog.text


async def test_without_a_way_to_gather_each_record_is_asked_for(lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def set_fetch(*_: object) -> None:
        raise hooks.HookError("built in another way")

    monkeypatch.setattr(hooks, "set_fetch", set_fetch)
    await one_record_is_read(lab)
    assert "asked for each record at once" in caplog.text
