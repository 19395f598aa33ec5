"""Installations of a test's own on the session's PostgreSQL and Kafka."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.records import OrderTopic
from tests.integration.shop import Shop

PARTITIONS = 4


@pytest.fixture
def shop(tmp_path: Path, database: str, kafka_bootstrap: str, topic: Callable[[str], str]) -> Iterator[Shop]:
    """Without scripts and replicas; its topic of orders is there."""
    orders = OrderTopic(kafka_bootstrap, topic("orders"), PARTITIONS)
    orders.make()
    opened = Shop(tmp_path / "project", database, orders, topic("events"), f"shop-{uuid.uuid4().hex[:8]}")
    yield opened
    opened.close()
