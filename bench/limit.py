"""Decode and insert alone, from memory: what Reactor could do if reading, splitting and committing its state cost nothing.

`python -m bench.limit POSTGRES_URL LAKE_FOLDER COUNT`. The exact decoder, the same table, one commit for every `COMMIT_ROWS`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from importlib import import_module

import pyarrow as pa

from bench import orders
from reactor.domain.scripts import BatchColumn
from reactor.lake.decoding import payload
from reactor.lake.session import Instance, InstanceSettings, LakeSettings
from reactor.wiring import KERNELS

COMMIT_ROWS = 250_000
"""About what a run of Reactor has under this load."""


def batches(count: int) -> Iterator[pa.Table]:
    """Records as the decoder takes them."""
    values = orders.values(count)
    for lo in range(0, count, COMMIT_ROWS):
        rows = min(COMMIT_ROWS, count - lo)
        held = pa.array([next(values) for _ in range(rows)], pa.binary())
        yield pa.table({"_row": pa.array(range(rows), pa.int64()), "value": held})


def main(postgres_url: str, folder: str, count: int) -> tuple[float, float]:
    """Seconds, and those of the processor, for so many rows."""
    instance = Instance(InstanceSettings(postgres_url, {"main": LakeSettings(folder)}, "main", threads=os.cpu_count()))
    columns = [BatchColumn(name, kind) for name, kind in orders.COLUMNS.items()]
    cursor = instance.cursor()
    table = "lake_main.main.orders"
    cursor.execute(f"CREATE TABLE {table} ({', '.join(f'{c.name} {c.type}' for c in columns)}, _wm_partition VARCHAR)")
    cursor.execute(f"ALTER TABLE {table} SET PARTITIONED BY (_wm_partition)")
    for module in KERNELS:
        import_module(module).prepare()
    made = list(batches(count))
    began_at, began_cpu = time.perf_counter(), time.process_time()
    for batch in made:
        payload.decode(cursor, batch, columns, [], "decoded", "rejects")
        cursor.execute(f"INSERT INTO {table} SELECT *, strftime(ordered_at, '%Y-%m-%d') FROM temp.decoded")
        payload.forget(cursor, "decoded")
        cursor.execute("DROP TABLE IF EXISTS temp.rejects")
    took = time.perf_counter() - began_at, time.process_time() - began_cpu
    instance.release(cursor)
    instance.retire()
    return took


if __name__ == "__main__":
    seconds, cpu_seconds = main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(json.dumps({"events": int(sys.argv[3]), "seconds": seconds, "cpu_seconds": cpu_seconds}))
