"""The Kafka source against a real Apache Kafka."""

import pytest

from tests.connectors.kafka.lab import Lab, Recorder, reading

pytestmark = pytest.mark.anyio


async def test_reads_what_is_there_and_what_comes(lab: Lab) -> None:
    await lab.make_topic("orders", partitions=2)
    await lab.produce("orders", [b"a", b"b"])
    intake = Recorder()
    source = lab.source("orders", columns=True)
    async with reading(source, intake):
        await intake.until_at(lab.part("orders"), 2)
        await lab.produce("orders", [b"c"])
        await lab.produce("orders", [b"d"], partition=1)
        await intake.until_at(lab.part("orders"), 3)
        await intake.until_at(lab.part("orders", 1), 1)
        assert source.reached
        assert source.trouble == ""
    assert intake.column(lab.part("orders"), "value") == [b"a", b"b", b"c"]
    assert intake.column(lab.part("orders", 1), "value") == [b"d"]
