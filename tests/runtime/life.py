"""A life in which every metric moves and nearly every word of the log is said, seen from outside. Rows hold `PLANTED`, and nobody may tell it."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from prometheus_client import generate_latest

from reactor.domain.spans import Consumer
from reactor.errors import Conflict, Outage
from reactor.state import PostgresState
from reactor.telemetry import JsonLines
from reactor.testing import Record
from tests.harness import Product
from tests.harness.replica import Replica
from tests.parts.waiting import until

WAIT_SECONDS = 90.0
PLANTED = "planted-4711"

ORDERS = """-- on kafka://main/in
-- batch id BIGINT, made TIMESTAMPTZ
-- partitioned daily event_time=$.made
-- debounce 1s
-- materialize ducklake://main/orders append
SELECT id, made FROM batch WHERE id >= 0"""
TOTALS = "-- on ducklake://main/orders\n-- materialize ducklake://main/totals\nSELECT count(*) AS orders FROM orders"
CLOCK = "-- materialize ducklake://main/clock\nSELECT now() AS seen"
FIRED = "-- on ducklake://main/clock\n-- partitioned daily\n-- materialize ducklake://main/fired\nSELECT 1 AS one"
BROKEN = "-- on kafka://main/in\n-- batch note VARCHAR\n-- debounce 1s\n-- materialize ducklake://main/broken append\nSELECT CAST(note AS BIGINT) AS id FROM batch"
TELL = f"# on ducklake://main/totals\nimport sys\nprint('{PLANTED}')\nsys.exit(3)\n"
HALF = """-- on kafka://main/in
-- batch id BIGINT, made TIMESTAMPTZ
-- partitioned daily event_time=$.made
-- retry 5 1h
-- debounce 1s
-- materialize ducklake://main/half key=id
SELECT CASE WHEN {partition} = '2026-01-01' THEN error('no') ELSE id END AS id FROM batch"""
PUBLISHER = '\n[publishers.events]\nkind = "kafka"\ntopic = "out"\n'

Labels = frozenset[tuple[str, str]]


@dataclass
class Told:
    """A publisher that is away for its first call."""

    calls: int = 0

    async def publish(self, _events: Sequence[Mapping[str, object]]) -> None:
        self.calls += 1
        if self.calls == 1:
            raise Outage("away")

    async def close(self) -> None:
        """Nothing is held."""


@dataclass
class Life:
    """What replicas have shown: the highest value of each series. `page`: the last one; `lines`: of the log; `errors`: of runs."""

    seen: dict[tuple[str, Labels], float] = field(default_factory=dict)
    page: bytes = b""
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def look(self, replica: Replica) -> None:
        registry = replica.service.telemetry.registry
        for sample in (sample for family in registry.collect() for sample in family.samples):
            key = (sample.name, frozenset(sample.labels.items()))
            self.seen[key] = max(self.seen.get(key, 0.0), sample.value)
        self.page = generate_latest(registry)

    def highest(self, name: str, **labels: str) -> float:
        """Of all series that have these labels."""
        return max((value for (of, has), value in self.seen.items() if of == name and labels.items() <= set(has)), default=0.0)

    async def until(self, replica: Replica, name: str, value: float = 1, **labels: str) -> None:
        """It has been as high as this."""

        async def moved() -> bool:
            self.look(replica)
            return self.highest(name, **labels) >= value

        await until(moved, f"{name} {labels} is {value}", WAIT_SECONDS)


SCRIPTS = {
    "orders.sql": ORDERS, "totals.sql": TOTALS, "clock.sql": CLOCK, "fired.sql": FIRED, "broken.sql": BROKEN, "half.sql": HALF, "tell.py": TELL,
}


class Kept(logging.Handler):
    """Lines as `serve` writes them, from here on."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.lines = lines
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def kept(lines: list[str], level: int) -> Iterator[None]:
    """What Reactor logs meanwhile."""
    logger, handler = logging.getLogger("reactor"), Kept(lines)
    before = logger.level
    logger.setLevel(level)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def words(lines: Sequence[str]) -> set[str]:
    """What they are about."""
    return {json.loads(line)["event"] for line in lines}


async def until_said(lines: Sequence[str], word: str) -> None:
    """One of the lines that are kept is about this."""
    async def said() -> bool:
        return word in words(lines)

    await until(said, f"{word} is said", WAIT_SECONDS)


def produce(product: Product, *records: Record) -> None:
    product.logs.produce(product.logs.partition("in"), records)


def record(offset: int, day: str = "2026-01-02", number: int | None = None) -> Record:
    text = f'{{"id":{offset if number is None else number},"made":"{day}T10:00:00Z","note":"{PLANTED}"}}'
    return Record(offset, text.encode())


async def live(product: Product, life: Life) -> None:
    replica = await product.start()
    (publishing,) = replica.service.publishers
    publishing.publisher = Told()
    replica.gates.fail("write", "ducklake://main/orders", Conflict("another one was first"))
    held = replica.gates.hold("stage", "ducklake://main/orders")
    produce(product, record(0), record(1, "2026-01-01"), Record(2, PLANTED.encode()), Record(3, None), record(4, number=-1), record(5, "2200-01-01"))
    await held.reached()
    produce(product, record(6))
    for name, state in (("runs", "running"), ("runs", "queued"), ("slices", "due"), ("slices", "blocked"), ("slices", "open")):
        await life.until(replica, f"reactor_{name}", state=state)
    await life.until(replica, "reactor_source_lag_events", 7, source="kafka://main/in")
    held.release()
    await life.until(replica, "reactor_events_published_total", outcome="failed")
    await life.until(replica, "reactor_events_published_total", outcome="sent")
    await _refuse_a_token(product, replica, life)
    await replica.service.state.request_run(script="clock.sql", partition="", actor="test", cascade=False)
    produce(product, record(8))
    await life.until(replica, "reactor_events_settled_total", 6, asset="ducklake://main/orders", outcome="committed")
    await life.until(replica, "reactor_rows_written_total", asset="ducklake://main/totals", operation="delete")
    await life.until(replica, "reactor_decisions_total", outcome="skipped", reason="no_cascade")
    stored = replica.service.state
    assert isinstance(stored, PostgresState)
    await stored.pause(Consumer("ducklake://main/clock"), reason="shown", actor="test")
    await life.until(replica, "reactor_asset_paused")
    await stored.resume(Consumer("ducklake://main/clock"))
    await until_said(life.lines, "asset_resumed")
    await life.until(replica, "reactor_asset_partitions", state="failed")
    await life.until(replica, "reactor_heartbeat_timestamp_seconds", role="outbox")
    await product.stop()
    life.look(replica)
    product.logs.truncate(product.logs.partition("in"), 3)  # `half` and `broken` had not read that far for good
    again = await product.start()
    await life.until(again, "reactor_events_settled_total", outcome="duplicate")
    await product.stop()
    product.logs.make("in")  # another topic of the same name
    await product.start()
    await until_said(life.lines, "source_halted")
    await product.stop()
    life.errors = [run.error for run in await product.runs() if run.state == "failed"]


async def _refuse_a_token(product: Product, replica: Replica, life: Life) -> None:
    """The total is refused once, and then written; its slice is seen to be at work meanwhile."""
    await life.until(replica, "reactor_rows_written_total", asset="ducklake://main/totals")
    held = replica.gates.hold("commit", "ducklake://main/totals")
    produce(product, record(7))
    await held.reached()
    await life.until(replica, "reactor_asset_partitions", asset="ducklake://main/totals", state="running")
    await product.fetch("UPDATE reactor.materialized_partition SET last_run = gen_random_uuid() WHERE asset = 'ducklake://main/totals'")
    held.release()
    await life.until(replica, "reactor_commits_refused_total", reason="token")


