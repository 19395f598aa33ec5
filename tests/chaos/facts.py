"""What is there at the end of a round, and what of it is wrong."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tests.integration.records import Order, published, totals
from tests.integration.shop import LOWS, Shop

SHOWN_MAX = 5
ORDERS, DAILY, NEWEST = "ducklake://main/orders", "ducklake://main/orders_daily", "ducklake://main/newest"

Totals = Mapping[tuple[str, int], tuple[int, int]]
"""(day, customer) → how many orders, and how much in cents."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything at one time. `begins`: the first order of each log that the topic has been; `leftover`: lag, runs that did not end."""

    sent: Sequence[Order]
    begins: Sequence[int]
    places: Sequence[tuple[int, str, int]]
    """Of each row of `orders`: the id, and where it was read."""
    daily: Sequence[tuple[str, int, int, int]]
    newest: Sequence[tuple[int, int]]
    unreadable: Sequence[str]
    outbox: Sequence[tuple[str, str]]
    """Events in their order: id and asset."""
    published: Sequence[str]
    told: Sequence[str]
    leftover: Sequence[str]


@dataclass(slots=True)
class Findings:
    """Sentences. The numbers count rows, events and whatever else is alone in its sentence."""

    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    said: list[str] = field(default_factory=list)

    def lose(self, what: str, these: Iterable[object]) -> None:
        """These are missing."""
        self.lost += self._say(f"lost {what}", these)

    def double(self, what: str, these: Iterable[object]) -> None:
        """These are there too often, or should not be there."""
        self.doubled += self._say(f"doubled {what}", these)

    def stick(self, what: str, these: Iterable[object]) -> None:
        """These are wrong otherwise."""
        self.stuck += self._say(what, these)

    def add(self, found: "Findings") -> None:
        """Those of somebody else."""
        self.lost, self.doubled, self.stuck = self.lost + found.lost, self.doubled + found.doubled, self.stuck + found.stuck
        self.said += found.said

    def _say(self, what: str, these: Iterable[object]) -> int:
        found = list(these)
        if found:
            more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
            self.said.append(f"{what}: {', '.join(map(str, found[:SHOWN_MAX]))}{more}")
        return len(found)


def judged(seen: Seen) -> Findings:
    """What is wrong."""
    findings = Findings()
    findings.stick("left over", seen.leftover)
    findings.lose("tables that cannot be read", seen.unreadable)
    _judge_rows(seen, findings)
    _judge_totals(seen, findings)
    _judge_newest(seen, findings)
    _judge_events(seen, findings)
    return findings


def _judge_rows(seen: Seen, findings: Findings) -> None:
    ids = Counter(number for number, _, _ in seen.places)
    findings.lose("orders", (order.number for order in seen.sent if order.number not in ids))
    findings.double("orders", (number for number, n in ids.items() for _ in range(n - (number < len(seen.sent)))))
    logs = Counter((bisect_right(seen.begins, number), partition, offset) for number, partition, offset in seen.places)
    findings.double("offsets", (place for place, n in logs.items() for _ in range(n - 1)))


def _judge_totals(seen: Seen, findings: Findings) -> None:
    expected = totals(seen.sent)
    got = {(day, customer): (n, cents) for day, customer, n, cents in seen.daily}
    findings.double("rows of orders_daily", (key for key, n in Counter((day, customer) for day, customer, *_ in seen.daily).items() if n > 1))
    findings.lose("totals", (f"{key}: {got.get(key)} of {value}" for key, value in expected.items() if got.get(key, (-1, -1)) < value))
    findings.double("totals", (f"{key}: {value} for {expected.get(key)}" for key, value in got.items() if value > expected.get(key, (-1, -1))))


def _judge_newest(seen: Seen, findings: Findings) -> None:
    expected = {order.customer: order.number for order in seen.sent}
    got = dict(seen.newest)
    findings.double("rows of newest", (key for key, n in Counter(key for key, _ in seen.newest).items() if n > 1))
    findings.lose("newest orders", (f"{key}: {got.get(key)} for {number}" for key, number in expected.items() if got.get(key) != number))
    findings.double("newest orders", got.keys() - expected.keys())


def _judge_events(seen: Seen, findings: Findings) -> None:
    first_appearances, events = list(dict.fromkeys(seen.published)), [event for event, _ in seen.outbox]
    findings.lose("events of the publisher", (event for event in events if event not in set(first_appearances)))
    findings.double("events of the publisher", set(first_appearances) - set(events))
    if set(first_appearances) == set(events):
        findings.stick("published out of order", (one for one, other in zip(first_appearances, events, strict=True) if one != other))
    findings.lose("events of the program", (event for event, asset in seen.outbox if asset == DAILY and event not in set(seen.told)))
    findings.double("events of the program", set(seen.told) - {event for event, asset in seen.outbox if asset == DAILY})


# ------------------------------------------------------------------------------------------------------------------ looking


def look(shop: Shop) -> Seen:
    """Ask the lake by a plain DuckDB, the state, and Kafka."""
    tables = [str(row["table_name"]) for row in shop.fetch("SELECT table_name FROM lake_main.ducklake_table WHERE end_snapshot IS NULL ORDER BY 1")]
    outbox = shop.fetch('SELECT event_id, asset FROM reactor.outbox WHERE changed ORDER BY "offset"')
    daily = _rows(shop, tables, "orders_daily", "SELECT _wm_partition, customer_id, orders, CAST(round(total * 100) AS BIGINT) FROM orders_daily")
    return Seen(
        sent=list(shop.orders.sent), begins=list(shop.orders.begins),
        places=_rows(shop, tables, "orders", "SELECT order_id, _source_partition, _offset FROM orders"), daily=daily,
        newest=_rows(shop, tables, "newest", "SELECT customer_id, order_id FROM newest"),
        unreadable=[table for table in tables if not _readable(shop, table)], outbox=[(str(row["event_id"]), str(row["asset"])) for row in outbox],
        published=published(shop.orders.bootstrap_servers, shop.events), told=[event for entry in shop.told() for event in entry["events"]],
        leftover=_leftover(shop))


def _rows(shop: Shop, tables: Sequence[str], table: str, query: str) -> list[tuple[Any, ...]]:
    """Of a table that cannot be read, none; that is said apart."""
    with suppress(duckdb.Error):
        return shop.rows(query)[0] if table in tables else []
    return []


def _readable(shop: Shop, table: str) -> bool:
    with suppress(duckdb.Error):
        shop.rows(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {table}")
        return True
    return False


def _leftover(shop: Shop) -> list[str]:
    runs = shop.fetch("SELECT id, consumer, state FROM reactor.run WHERE state IN ('queued', 'running')")
    ends = shop.orders.ends()
    known = {(r["consumer"], r["number"]): r["low"] for r in shop.fetch(LOWS)}
    lows = {(consumer, number): known.get((consumer, number)) for consumer in (ORDERS, NEWEST) for number in ends}
    return [
        *(f"run {r['id']} of {r['consumer']} is {r['state']}" for r in runs),
        *(f"{consumer} is at {low} of {ends[number]} in {number}" for (consumer, number), low in lows.items() if low != ends[number]),
        *(f"a run failed: {error}" for error in shop.failed_runs()),
    ]
