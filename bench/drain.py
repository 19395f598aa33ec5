"""How fast aiokafka reads as it is, values dropped: `python -m bench.drain BOOTSTRAP_SERVERS TOPIC COUNT`."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.topics import PARTITIONS


async def drained(bootstrap_servers: str, topic: str, count: int) -> float:
    """Seconds for so many records, from the first fetch on."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers)
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        began_at, read = time.perf_counter(), 0
        while read < count:
            read += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
        return time.perf_counter() - began_at
    finally:
        await consumer.stop()


if __name__ == "__main__":
    print(json.dumps({"events": int(sys.argv[3]), "seconds": asyncio.run(drained(sys.argv[1], sys.argv[2], int(sys.argv[3])))}))
