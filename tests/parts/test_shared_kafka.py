"""Who shares Kafka, on a broker that the environment names: what is kept is not looked at."""

from pathlib import Path

import pytest

from tests.parts import PartMissing
from tests.parts.shared_kafka import shared_kafka
from tests.parts.waiting import wait_until

GIVEN = "REACTOR_TEST_KAFKA_BOOTSTRAP"


def test_it_is_kept_from_the_first_user_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = tmp_path / "address"
    for broker in ("one:1", "another:1"):
        monkeypatch.setenv(GIVEN, broker)
        first, second = shared_kafka(tmp_path), shared_kafka(tmp_path)
        assert first.__enter__() == broker
        monkeypatch.setenv(GIVEN, "nobody:1")
        assert second.__enter__() == broker
        first.__exit__(None, None, None)
        assert address.exists()
        second.__exit__(None, None, None)
        wait_until(lambda: not address.exists(), "its keeper has ended")


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GIVEN, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PartMissing, match="Apache Kafka needs java"), shared_kafka(tmp_path):
        pass
