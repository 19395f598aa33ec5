"""An installation as processes see it: a project folder, a database, topics. And the facts that must hold whatever has crashed."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import duckdb

from reactor.lake.extensions import extension_path
from reactor.lake.session import connection_text
from tests.integration.records import OrderTopic, published, totals
from tests.integration.served import Served
from tests.parts.waiting import wait_until

WHOLE_SECONDS = 90.0
PUBLISHES = 'INSERT INTO "lake_main".ducklake_snapshot_changes'
"""What a transaction of DuckLake holds that publishes something."""

SETTINGS = """
installation = "{installation}"

[state]
url = "{url}"

[lakes.main]
data_path = "lake"

[kafka.main]
bootstrap_servers = "{bootstrap_servers}"
group_id = "{installation}"

[publishers.events]
kind = "kafka"
topic = "{events}"

[debounce]
quiet_seconds = 0.5
wait_max_seconds = 1.5

[run]
drain_seconds = {drain_seconds}
timeout_seconds = 60

[resources]
memory_limit_bytes = 400_000_000
threads = 1
"""

ORDERS = """\
-- pipeline
-- on kafka://{topic}
-- batch order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), ordered_at TIMESTAMPTZ
-- partitioned daily event_time=$.ordered_at
-- materialize ducklake://main/orders append
SELECT order_id, customer_id, amount, ordered_at, _source_partition, _offset FROM batch
"""
DAILY = """\
-- pipeline
-- on ducklake://main/orders
-- partitioned daily
-- materialize ducklake://main/orders_daily
SELECT customer_id, count(*) AS orders, sum(amount) AS total FROM main.orders WHERE wm_partition(ordered_at) = {partition} GROUP BY customer_id
"""
NEWEST = """\
-- pipeline
-- on kafka://{topic}
-- batch order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2)
-- materialize ducklake://main/newest key=customer_id latest=order_id
SELECT order_id, customer_id, amount FROM batch
"""
TELL = """\
# pipeline
# on ducklake://main/orders_daily
# partitioned daily
import json, os

def main(trigger):
    line = json.dumps({"run": trigger["run_id"], "partition": trigger["partition"], "events": [e["event_id"] for e in trigger["events"]]})
    told = os.open("told.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(told, (line + "\\n").encode())
    os.close(told)
"""
LOWS = """
SELECT p.source_partition AS number, p.consumer, least(p.floor, (
    SELECT min(f.next) FROM reactor.fence f WHERE (f.consumer, f.source, f.source_partition) = (p.consumer, p.source, p.source_partition))) AS low
  FROM reactor.position p WHERE source LIKE 'kafka://%'
"""
BEHIND = """
SELECT p.consumer, p.floor, last FROM reactor.position p
 CROSS JOIN LATERAL (
   SELECT max(coalesce(o."offset", 9000000000)) AS last FROM reactor.outbox o
    WHERE o.queue = p.source AND o.changed AND (o.asset, p.consumer) IN (
      ('ducklake://main/orders', 'ducklake://main/orders_daily'), ('ducklake://main/orders_daily', 'export/tell.py'), (o.asset, 'publisher:events')))
 WHERE last >= p.floor
"""


@dataclass(slots=True)
class Shop:
    """Orders come by `orders`; `serve` starts replicas. `direct_url`: of the database."""

    folder: Path
    direct_url: str
    orders: OrderTopic
    events: str
    installation: str
    drain_seconds: float = 20.0
    replicas: list[Served] = field(default_factory=list)
    _asking: asyncio.Runner = field(default_factory=asyncio.Runner)
    _connection: asyncpg.Connection | None = None

    def __post_init__(self) -> None:
        self.connect_by(self.direct_url)

    def connect_by(self, url: str) -> None:
        """Replicas reach the database by this address; the test goes on asking directly."""
        self.write({"reactor.toml": SETTINGS.format(
            installation=self.installation, url=url, bootstrap_servers=self.orders.bootstrap_servers, events=self.events, drain_seconds=self.drain_seconds)})

    # -- the project

    def write(self, files: Mapping[str, str]) -> None:
        """Put files into the project; the name of the topic is filled in."""
        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text.replace("{topic}", self.orders.name))

    def write_all_scripts(self) -> None:
        """An append and a merge from Kafka, a table remade from the first, a program fired by that."""
        self.write({"raw/orders.sql": ORDERS, "raw/newest.sql": NEWEST, "marts/orders_daily.sql": DAILY, "export/tell.py": TELL})

    # -- replicas

    def serve(self, *, failpoint: str = "", replica_id: str = "a", arguments: tuple[str, ...] = (), **environment: str) -> Served:
        """A new one. With a `replica_id` it takes over at once what a killed one of that name had been assigned; without, after its session."""
        given = {**environment, **({"REACTOR_FAILPOINT": failpoint} if failpoint else {}), **({"REACTOR_REPLICA_ID": replica_id} if replica_id else {})}
        served = Served(self.folder, self.folder.parent / f"serve-{len(self.replicas)}.log", given, arguments)
        self.replicas.append(served)
        return served

    def time_passes(self) -> None:
        """The leases and heartbeats of the dead run out now. Whoever lives has theirs again within seconds."""
        self.execute("UPDATE reactor.lease SET expires_at = clock_timestamp()")
        self.execute("UPDATE reactor.replica SET seen_at = seen_at - interval '1 minute'")

    # -- what is asked of the state and the lake

    def fetch(self, sql: str, *args: object) -> list[Any]:
        """Rows of the state's database, which is asked anew after its death."""
        try:
            return self._asking.run(self._ask(sql, *args))
        except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError):
            return self._asking.run(self._ask(sql, *args))

    async def _ask(self, sql: str, *args: object) -> list[Any]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.direct_url, server_settings={"application_name": "test"})
        return list(await self._connection.fetch(sql, *args))

    def execute(self, sql: str) -> None:
        """A statement on the state's database."""
        self.fetch(sql)

    def value(self, sql: str, *args: object) -> Any:
        """The first column of the first row; None without one, or while there is no such table."""
        with suppress(asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            rows = self.fetch(sql, *args)
            return rows[0][0] if rows else None
        return None

    def rows(self, *queries: str) -> list[list[tuple[Any, ...]]]:
        """What a plain DuckDB reads in the lake, all at one time and from nothing that it has seen before."""
        with self._lake() as connection:
            connection.execute("BEGIN")
            return [connection.execute(query).fetchall() for query in queries]

    def change_lake(self, statement: str) -> None:
        """By hand, in a plain DuckDB."""
        with self._lake() as connection:
            connection.execute(statement)

    @contextmanager
    def _lake(self) -> Iterator[duckdb.DuckDBPyConnection]:
        text, _ = connection_text(self.direct_url)
        quoted = text.replace("'", "''")
        # another tool, which does not check who signed the extensions: that takes it half a second
        with duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 1}) as connection:
            for name in ("ducklake", "postgres_scanner"):
                connection.execute(f"LOAD '{extension_path(name)}'")
            connection.execute(f"ATTACH 'ducklake:postgres:{quoted}' AS lake (METADATA_SCHEMA 'lake_main')")
            connection.execute("USE lake; SET TimeZone = 'UTC'")
            yield connection

    def committed(self, asset: str = "ducklake://main/orders") -> int:
        """Rows that completed runs say they have inserted."""
        return int(self.value("SELECT coalesce(sum(rows_inserted), 0) FROM reactor.run WHERE asset = $1 AND state = 'completed'", asset) or 0)

    def wait_until_committed(self, count: int, asset: str = "ducklake://main/orders", seconds: float = WHOLE_SECONDS) -> None:
        """At least so many rows."""
        wait_until(lambda: self.committed(asset) >= count, f"{count} rows in {asset}, now {self.committed(asset)}", seconds)

    def told(self) -> list[dict[str, Any]]:
        """What the program has written, one entry a run."""
        file = self.folder / "told.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    # -- what must hold

    def wait_until_whole(self, seconds: float = WHOLE_SECONDS) -> None:
        """Everything that was sent has arrived, everywhere, and nothing runs."""
        wrong: list[str] = ["not looked at"]

        def whole() -> bool:
            wrong[:] = self.not_yet()
            return not wrong

        try:
            wait_until(whole, "whole", seconds)
        except TimeoutError:
            logs = "\n".join(f"--- process {r.process.pid}\n{r.log()[-2500:]}" for r in self.replicas[-2:])
            raise TimeoutError(f"after {seconds:.0f} s: {'; '.join(wrong)}\n{logs}") from None

    def not_yet(self) -> list[str]:
        """What a short look says is missing; the lake is not opened for it."""
        if self.value("SELECT true FROM pg_tables WHERE schemaname = 'reactor' AND tablename = 'run'") is None:
            return ["there is no state yet"]
        running = self.fetch("SELECT id, consumer, created_at, replica FROM reactor.run WHERE state = 'running'")
        behind = self.fetch(BEHIND)
        sent = self.orders.ends()
        lows = self.fetch(LOWS)
        return [
            *(f"run {r['id']} of {r['consumer']} runs since {r['created_at']} in {r['replica']}" for r in running),
            *(f"{r['consumer']} is at {r['low']} of {sent[r['number']]} in {r['number']}" for r in lows if r["low"] != sent[r["number"]]),
            *(f"{r['consumer']} is at {r['floor']} of {r['last']}" for r in behind), *(["no position"] if not lows else []),
        ]

    def check(self) -> None:
        """Rows = distinct ids = ids sent; each downstream total is right; every table can be read; each event is published; nothing is left."""
        expected = totals(self.orders.sent)
        tables = {row["table_name"] for row in self.fetch("SELECT table_name FROM lake_main.ducklake_table WHERE end_snapshot IS NULL")}
        places, days = self.rows(
            "SELECT order_id, _source_partition, _offset FROM orders",
            "SELECT strftime(ordered_at, '%Y-%m-%d'), customer_id, count(*), sum(amount) FROM orders GROUP BY ALL")
        ids = Counter(row[0] for row in places)
        assert (sum(ids.values()), len(ids)) == (len(self.orders.sent), len(self.orders.sent)), _differences(ids, self.orders)
        assert len({row[1:] for row in places}) == len(places)
        assert {(day, customer): (n, round(total * 100)) for day, customer, n, total in days} == expected
        if "orders_daily" in tables:
            (daily,) = self.rows("SELECT _wm_partition, customer_id, orders, total FROM orders_daily")
            assert {(day, customer): (n, round(total * 100)) for day, customer, n, total in daily} == expected
            assert len(daily) == len(expected)
        if "newest" in tables:
            (newest,) = self.rows("SELECT customer_id, order_id FROM newest ORDER BY 1")
            assert newest == sorted({o.customer: o.number for o in sorted(self.orders.sent, key=lambda o: o.number)}.items())
        self.rows(*(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {name}" for name in tables))
        self._check_events()
        assert self.fetch("SELECT id, script FROM reactor.run WHERE state = 'running'") == []

    def _check_events(self) -> None:
        rows = self.fetch("SELECT event_id, asset FROM reactor.outbox WHERE changed ORDER BY \"offset\"")
        first_appearances = list(dict.fromkeys(published(self.orders.bootstrap_servers, self.events)))
        assert first_appearances == [row["event_id"] for row in rows]
        if (self.folder / "export/tell.py").exists():
            told = {event for entry in self.told() for event in entry["events"]}
            assert told == {row["event_id"] for row in rows if row["asset"] == "ducklake://main/orders_daily"}

    def failed_runs(self) -> Sequence[str]:
        """Errors of runs that ended `failed`."""
        return [row["error"] for row in self.fetch("SELECT error FROM reactor.run WHERE state = 'failed' ORDER BY id")]

    def finish(self) -> None:
        """All replicas end in order; then everything must be right, and every position where its source ends."""
        self.wait_until_whole()
        for replica in self.replicas:
            if not replica.ended:
                replica.stop()
        self.check()
        sent = self.orders.ends()
        lows = self.fetch(LOWS)
        assert {(row["number"], row["consumer"]): row["low"] for row in lows} == {(r["number"], r["consumer"]): sent[r["number"]] for r in lows}

    def close(self) -> None:
        """Nothing is left running."""
        for replica in self.replicas:
            if not replica.ended:
                replica.kill()
        if self._connection is not None:
            self._connection.terminate()
        self._asking.close()
        wrong = [line for replica in self.replicas for line in replica.wrong_lines()]
        assert not wrong, wrong


def _differences(ids: Counter[int], orders: OrderTopic) -> str:
    sent = {order.number for order in orders.sent}
    return f"lost {sorted(sent - ids.keys())[:10]}, doubled {[i for i, n in ids.items() if n > 1][:10]}, invented {sorted(ids.keys() - sent)[:10]}"
