"""Installations of a test's own, on the session's PostgreSQL and Kafka or on ones that the test may kill."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import had
from tests.integration.own_postgres import OwnPostgres
from tests.integration.records import OrderTopic
from tests.integration.shop import Shop
from tests.parts.kafka import KafkaCluster

PARTITIONS = 4


@contextmanager
def opened_shop(folder: Path, database: str, bootstrap_servers: str, topic: Callable[[str], str]) -> Iterator[Shop]:
    """Without scripts and replicas; its topic of orders is there."""
    orders = OrderTopic(bootstrap_servers, topic("orders"), PARTITIONS)
    orders.make()
    opened = Shop(folder / "project", database, orders, topic("events"), f"shop-{uuid.uuid4().hex[:8]}")
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def shop(tmp_path: Path, database: str, kafka_bootstrap: str, topic: Callable[[str], str]) -> Iterator[Shop]:
    """On what the session shares."""
    with opened_shop(tmp_path, database, kafka_bootstrap, topic) as opened:
        yield opened


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[OwnPostgres]:
    """A PostgreSQL that this test may kill and start again."""
    with had(OwnPostgres(tmp_path / "postgres")) as server:
        yield server


@pytest.fixture
def shop_on_own_postgres(tmp_path: Path, own_postgres: OwnPostgres, kafka_bootstrap: str, topic: Callable[[str], str]) -> Iterator[Shop]:
    """Whose database may be killed."""
    with opened_shop(tmp_path, own_postgres.url, kafka_bootstrap, topic) as opened:
        yield opened


@pytest.fixture
def shop_on_own_kafka(tmp_path: Path, database: str, own_kafka: KafkaCluster) -> Iterator[Shop]:
    """Whose broker may be killed."""
    with opened_shop(tmp_path, database, own_kafka.bootstrap_servers, lambda name: name) as opened:
        yield opened
