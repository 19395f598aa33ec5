"""Quix Streams: a dataframe over the topic into a batching sink, which its checkpoints flush."""

from __future__ import annotations

from typing import Any

from quixstreams import Application
from quixstreams.sinks import BatchingSink, SinkBatch

from bench.rivals.lake import Lake
from bench.rivals.task import COMMIT_ROWS, Task

PARTITIONS = 4
"""A checkpoint flushes each source partition by itself."""


class OrdersSink(BatchingSink):
    """One commit for the batch of a source partition."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task, self._lake = task, Lake(task.postgres_url, task.lake_folder)

    def add(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it is
        """The clock starts here."""
        self._task.begin()
        super().add(*args, **kwargs)

    def write(self, batch: SinkBatch) -> None:
        """Called by the checkpoint."""
        rows = [item.value for item in batch]
        self._lake.commit(rows)
        self._task.committed(len(rows))


def main() -> None:
    """Until all is committed."""
    task = Task.given()
    application = Application(
        task.bootstrap_servers, consumer_group=task.group_id, auto_offset_reset="earliest", commit_every=COMMIT_ROWS * PARTITIONS, auto_create_topics=False,
        loglevel="WARNING",
    )  # fmt: skip
    orders = application.topic(task.topic, value_deserializer="json")
    application.dataframe(orders).sink(OrdersSink(task))
    application.run(count=task.count, timeout=30.0, collect=False)


if __name__ == "__main__":
    main()
