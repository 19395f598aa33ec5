"""How fast aiokafka reads as it is, values dropped: `python -m bench.drain BOOTSTRAP_SERVERS TOPIC COUNT`."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.topics import PARTITIONS


async def drained(bootstrap_servers: str, topic: str, count: int) -> tuple[float, float]:
    """Seconds, and those of the processor, for so many records, from the first fetch on."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers)
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        began_at, began_cpu, read = time.perf_counter(), time.process_time(), 0
        while read < count:
            read += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
        return time.perf_counter() - began_at, time.process_time() - began_cpu
    finally:
        await consumer.stop()


if __name__ == "__main__":
    seconds, cpu_seconds = asyncio.run(drained(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    print(json.dumps({"events": int(sys.argv[3]), "seconds": seconds, "cpu_seconds": cpu_seconds}))
