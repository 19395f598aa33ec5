"""A project, a database and a consumer group of a measurement's own, and `reactor serve` as a process of its own."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.request import urlopen

import asyncpg
import duckdb

from bench.ground import Ground
from bench.orders import COLUMNS
from reactor.lake.extensions import extension_path
from reactor.lake.session import connection_text
from tests.integration.served import READY_SECONDS, Served
from tests.parts.waiting import wait_until

SETTINGS = """
installation = "bench"

[state]
url = "{url}"

[lakes.main]
data_path = "lake"

[kafka.main]
bootstrap_servers = "{bootstrap_servers}"
group_id = "{group}"

[publishers.events]
kind = "kafka"
topic = "{group}-events"
"""
LAST_POLL_SECONDS = 0.5
"""How often it is asked how far it is: each time a connection, on the same processors. When it was done is told by the run's record."""
DEBOUNCE = """
[debounce]
quiet_seconds = {seconds}
wait_max_seconds = {seconds}
"""
"""A slice is due so long after its first event, if it is not due at once by `rows_max`."""
BATCH = f"""\
-- pipeline
-- on kafka://{{topic}}
-- batch {', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())}
-- partitioned daily event_time=$.ordered_at
-- materialize ducklake://main/{{table}} append
SELECT {', '.join(COLUMNS)} FROM batch
"""


def append(topic: str, table: str = "orders") -> str:
    """A script that appends a topic to a table."""
    return BATCH.format(topic=topic, table=table)


@dataclass(slots=True)
class Installation:
    """`fetch` asks the state, `rows` the lake; `events`: the topic on which commits are told."""

    folder: Path
    url: str
    bootstrap_servers: str
    group: str

    @property
    def events(self) -> str:
        """The topic of the publisher."""
        return f"{self.group}-events"

    @contextmanager
    def serve(self, environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[Served]:
        """A replica, ready; stopped in order, or killed if that fails."""
        served = Served(self.folder, self.folder.parent / f"{self.folder.name}.log", environment, ("--strict",))
        try:
            served.wait_until_ready()
            yield served
            served.stop()
        finally:
            if not served.ended:
                served.kill()

    def fetch(self, sql: str, *args: object) -> list[Any]:
        """Rows of the state's database."""

        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self.url)
            try:
                return list(await connection.fetch(sql, *args))
            finally:
                await connection.close()

        return asyncio.run(ask())

    def inserted(self) -> int:
        """Rows that completed runs say they have inserted."""
        return int(self.fetch("SELECT coalesce(sum(rows_inserted), 0)::bigint FROM reactor.run WHERE state = 'completed'")[0][0])

    def settled(self, served: Served, outcome: str) -> int:
        """Events of this outcome, as `serve` counts them (metric `reactor_events_settled`)."""
        with urlopen(f"{served.health_url}/metrics", timeout=10) as answer:  # noqa: S310 - our own process
            text = answer.read().decode()
        counts = re.findall(rf'^reactor_events_settled_total{{.*outcome="{outcome}".*}} (\S+)$', text, re.MULTILINE)
        return int(sum(map(float, counts)))

    def wait_until_settled(self, count: int, outcome: str, served: Served, seconds: float) -> datetime:
        """As `wait_until_inserted`, for what makes no rows."""
        wait_until(lambda: self.settled(served, outcome) >= count, f"{count} are {outcome}", seconds, last_poll_seconds=LAST_POLL_SECONDS)
        return self._last_finished()

    def wait_until_inserted(self, rows: int, served: Served, seconds: float) -> datetime:
        """When the last run that made them so many was finished. Raises TimeoutError."""
        wait_until(lambda: served.ended or self.inserted() >= rows, f"{rows} rows", seconds, last_poll_seconds=LAST_POLL_SECONDS)
        if served.ended:
            raise RuntimeError(f"serve has ended:\n{served.log()[-3000:]}")
        return self._last_finished()

    def _last_finished(self) -> datetime:
        at: datetime = self.fetch("SELECT max(finished_at) FROM reactor.run WHERE state = 'completed'")[0][0]
        return at

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a plain DuckDB reads in the lake."""
        text = connection_text(self.url)[0].replace("'", "''")
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            for name in ("ducklake", "postgres_scanner"):
                connection.execute(f"LOAD '{extension_path(name)}'")
            connection.execute(f"ATTACH 'ducklake:postgres:{text}' AS lake (METADATA_SCHEMA 'lake_main', READ_ONLY)")
            connection.execute("USE lake")
            return connection.execute(query).fetchall()

    def must_hold(self, rows: int, table: str = "orders") -> None:
        """Every order once. Raises ValueError: a rate with rows lost or doubled is none."""
        found = self.rows(f"SELECT count(*), count(DISTINCT order_id) FROM {table}")[0]
        if found != (rows, rows):
            raise ValueError(f"{table} holds {found[0]} rows of {found[1]} orders instead of {rows}")


def wait_until_assigned(served: Served, topic: str) -> datetime:
    """When this topic, perhaps among others, was assigned: nothing was read of it before."""

    def lines() -> list[dict[str, Any]]:
        return [line for line in served.said("source_assigned") if f"kafka://main/{topic}" in line["source"].split(", ")]

    wait_until(lambda: bool(lines()) or served.ended, f"{topic} is assigned", READY_SECONDS)
    if not lines():
        raise RuntimeError(f"serve has ended:\n{served.log()[-3000:]}")
    return datetime.fromisoformat(lines()[0]["timestamp"])


@contextmanager
def installation(ground: Ground, name: str, scripts: Mapping[str, str], settings: str = "") -> Iterator[Installation]:
    """With these scripts (path → text) and more settings, on an empty database and lake."""
    with ground.database(name) as url:
        folder, group = ground.new_folder(name), f"{name}-{uuid.uuid4().hex[:8]}"
        text = SETTINGS.format(url=url, bootstrap_servers=ground.bootstrap_servers, group=group)
        (folder / "reactor.toml").write_text(text + settings)
        for path, script in scripts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(script)
        yield Installation(folder, url, ground.bootstrap_servers, group)
