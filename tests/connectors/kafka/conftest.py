from collections.abc import Callable

import pytest

from tests.connectors.kafka.lab import Lab


@pytest.fixture
def lab(kafka_bootstrap: str, topic: Callable[[str], str]) -> Lab:
    return Lab(kafka_bootstrap, topic)
