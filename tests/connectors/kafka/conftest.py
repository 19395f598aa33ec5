from collections.abc import Callable

import pytest

from connectors.kafka import membership
from tests.connectors.kafka.lab import Lab


@pytest.fixture
def lab(kafka_bootstrap: str, topic: Callable[[str], str]) -> Lab:
    return Lab(kafka_bootstrap, topic)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks as often as a test would like to."""
    monkeypatch.setattr(membership, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr("connectors.kafka.reader.METADATA_SECONDS", 1.0)
