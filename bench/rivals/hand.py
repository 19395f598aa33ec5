"""The loop that most write by hand: confluent-kafka's `poll`, orjson, pyarrow, one DuckLake commit per 20,000 rows, then the offsets."""

from __future__ import annotations

import orjson
from confluent_kafka import Consumer, KafkaException

from bench.rivals.lake import Lake
from bench.rivals.task import COMMIT_ROWS, Task


def main() -> None:
    """Until all is committed."""
    task = Task.given()
    lake = Lake(task.postgres_url, task.lake_folder)
    consumer = Consumer({
        "bootstrap.servers": task.bootstrap_servers, "group.id": task.group_id, "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe([task.topic])
    rows: list[dict[str, object]] = []
    read = 0
    while not task.finished:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        task.begin()
        rows.append(orjson.loads(message.value()))
        read += 1
        if len(rows) == COMMIT_ROWS or read == task.count:
            lake.commit(rows)
            consumer.commit(asynchronous=False)
            task.committed(len(rows))
            rows = []
    consumer.close()


if __name__ == "__main__":
    main()
