"""Bytewax: its Kafka source, `collect` into batches, a sink of one partition, as its DuckDB connector does it. Run by `bytewax.run`."""

from __future__ import annotations

from datetime import timedelta

import bytewax.operators as op
import orjson
from bytewax.connectors.kafka import KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition

from bench.rivals.lake import Lake
from bench.rivals.task import COMMIT_ROWS, Task

Row = dict[str, object]


class OrdersPartition(StatefulSinkPartition[list[Row], None]):
    """One connection to the lake."""

    def __init__(self, task: Task) -> None:
        self._task, self._lake = task, Lake(task.postgres_url, task.lake_folder)

    def write_batch(self, values: list[list[Row]]) -> None:
        """A commit for each batch that was collected."""
        for rows in values:
            self._lake.commit(rows)
            self._task.committed(len(rows))

    def snapshot(self) -> None:
        """Nothing to go on from."""


class OrdersSink(FixedPartitionedSink[list[Row], None]):
    """All batches go to one partition."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def list_parts(self) -> list[str]:
        """The only one."""
        return ["orders"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> OrdersPartition:  # noqa: ARG002 - Bytewax's signature
        """In the worker that has it."""
        return OrdersPartition(self._task)


def orders_flow(task: Task) -> Dataflow:
    """From the topic to the lake, until the topic's end."""

    def decoded(message: KafkaSourceMessage[bytes, bytes]) -> Row:
        task.begin()
        row: Row = orjson.loads(message.value)
        return row

    made = Dataflow("orders")
    read = kop.input("read", made, brokers=[task.bootstrap_servers], topics=[task.topic], tail=False)
    rows = op.map("decode", read.oks, decoded)
    keyed = op.key_on("key", rows, lambda _: "orders")
    batches = op.collect("batch", keyed, timeout=timedelta(seconds=10), max_size=COMMIT_ROWS)
    op.output("write", batches, OrdersSink(task))
    return made


flow = orders_flow(Task.given())
