"""An invented shop that sends its orders, and its customers when they sign up or move, to Kafka.

    python generator.py --bootstrap-servers 127.0.0.1:9092 --rate 30 --seed 7

The same seed, start and rate always make the same records. Of 200 orders six come a day late, four are sent twice (as after a lost
acknowledgement) and one is followed by a broken copy. Once a second a line of JSON says how many records of each kind the broker has
acknowledged so far; SIGTERM and `--seconds` end it with a last line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

Kind = Literal["order", "late", "duplicate", "malformed", "customer"]

ORDERS, CUSTOMERS = "orders", "customers"
TOPIC_PARTITIONS = 2
RATE_MAX = 1000
"""Orders a second; an order's number is its start's second and three digits."""
CUSTOMERS_COUNT = 500
MOVING_SHARE = 0.03
"""Of the orders: how many are by somebody who has moved before."""
LATE_SECONDS = 86_400
DECK = ["late"] * 6 + ["duplicate"] * 4 + ["malformed"] + ["order"] * 189
"""What 200 orders are; shuffled for each 200, so that the shares are exact."""

FIRST_NAMES = (
    "Ada", "Bela", "Carmen", "Dario", "Edith", "Farid", "Greta", "Hiro", "Ines", "Jonas",
    "Kaja", "Liam", "Mira", "Noor", "Olga", "Pavel", "Rosa", "Sven", "Tara", "Umar",
)  # fmt: skip
LAST_NAMES = (
    "Abel", "Bauer", "Costa", "Dvorak", "Eriksen", "Fischer", "Garcia", "Horak", "Ivanov", "Jensen", "Kovacs", "Lindt", "Moreau",
    "Novak", "Okafor", "Petit", "Quist", "Rossi", "Silva", "Tanaka", "Urban", "Vesely", "Weber", "Yilmaz", "Zeman",
)  # fmt: skip
COUNTRIES = ("AT", "CZ", "DE", "ES", "FR", "IT", "JP", "NO", "PT", "SE")

TICK_SECONDS = 0.1
REPORT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Record:
    """What is sent. The key is the customer's number, so one customer's records keep their order."""

    topic: str
    key: bytes
    value: bytes
    kind: Kind


class Shop:
    """Makes records, order after order. `started_at`: POSIX seconds; it gives the orders' times and numbers."""

    def __init__(self, seed: int, started_at: float, rate: float) -> None:
        self._random, self._started_at, self._rate = random.Random(seed), started_at, rate  # noqa: S311  (an invented shop, repeatable)
        self._deck: list[str] = []
        self._countries: dict[int, str] = {}
        self._number = 0

    def __iter__(self) -> Iterator[Sequence[Record]]:
        """For ever, the records of one order: who has not ordered before signs up first."""
        while True:
            if not self._deck:
                self._deck = self._random.sample(DECK, len(DECK))
            yield list(self._next(self._deck.pop()))
            self._number += 1

    def _next(self, card: str) -> Iterator[Record]:
        at = self._started_at + self._number / self._rate
        customer_id = self._random.randint(1, CUSTOMERS_COUNT)
        if customer_id not in self._countries or self._random.random() < MOVING_SHARE:
            self._countries[customer_id] = self._random.choice(COUNTRIES)
            yield self._customer(customer_id, at)
        order = {
            "order_id": int(self._started_at) * RATE_MAX + self._number, "customer_id": customer_id, "country": self._countries[customer_id],
            "amount": self._random.randint(100, 50_000) / 100, "ordered_at": _rfc3339(at - LATE_SECONDS if card == "late" else at),
        }  # fmt: skip
        key, value = str(customer_id).encode(), json.dumps(order).encode()
        yield Record(ORDERS, key, value, "late" if card == "late" else "order")
        if card == "duplicate":
            yield Record(ORDERS, key, value, "duplicate")
        if card == "malformed":
            yield Record(ORDERS, key, self._broken(order, value), "malformed")

    def _customer(self, customer_id: int, at: float) -> Record:
        name = f"{FIRST_NAMES[customer_id % len(FIRST_NAMES)]} {LAST_NAMES[customer_id // len(FIRST_NAMES) % len(LAST_NAMES)]}"
        customer = {"customer_id": customer_id, "name": name, "country": self._countries[customer_id], "updated_at": _rfc3339(at)}
        return Record(CUSTOMERS, str(customer_id).encode(), json.dumps(customer).encode(), "customer")

    def _broken(self, order: dict[str, object], value: bytes) -> bytes:
        """Cut off, of a wrong type, without its time, or no text at all."""
        timeless = {name: field for name, field in order.items() if name != "ordered_at"}
        return self._random.choice([
            value[:-20], json.dumps(order | {"amount": "twelve"}).encode(), json.dumps(timeless).encode(), b"\xff\xfe" + value,
        ])  # fmt: skip


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def make_topics(bootstrap_servers: str) -> None:
    """Make both topics if they are absent."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        absent = {ORDERS, CUSTOMERS} - set(await admin.list_topics())
        if absent:
            await admin.create_topics([NewTopic(name, TOPIC_PARTITIONS, replication_factor=1) for name in sorted(absent)])
    finally:
        await admin.close()


async def send(producer: AIOKafkaProducer, shop: Shop, started_at: float, rate: float, stopping: asyncio.Event) -> None:
    """Send what is due, ten times a second, until `stopping`. A burst after a pause is one second's worth at most."""
    orders, sent, acknowledged, reported_at = iter(shop), 0, Counter[str](), 0.0
    while not stopping.is_set():
        due = min(int((time.time() - started_at) * rate) - sent, int(rate) + 1)
        records = [record for _ in range(due) for record in next(orders)]
        await asyncio.gather(*[await producer.send(r.topic, r.value, r.key) for r in records])
        sent += max(due, 0)
        acknowledged.update(r.kind for r in records)
        if time.monotonic() - reported_at >= REPORT_SECONDS:
            reported_at = time.monotonic()
            report(acknowledged)
        await asyncio.sleep(TICK_SECONDS)
    report(acknowledged)


def report(acknowledged: Counter[str]) -> None:
    """A line of JSON: records by kind, since the start."""
    sys.stdout.write(json.dumps(acknowledged) + "\n")
    sys.stdout.flush()


async def run(bootstrap_servers: str, *, rate: float, seed: int, seconds: float | None) -> None:
    """Until `seconds` have passed or SIGTERM or SIGINT comes."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stopping.set)
    if seconds is not None:
        loop.call_later(seconds, stopping.set)
    await make_topics(bootstrap_servers)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
        started_at = time.time()
        await send(producer, Shop(seed, started_at, rate), started_at, rate, stopping)


def main() -> None:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description="Sends the orders of an invented shop to Kafka.")
    parser.add_argument("--bootstrap-servers", required=True, help="host:port of the brokers")
    parser.add_argument("--rate", type=float, default=30.0, help=f"orders a second, above 0, at most {RATE_MAX} (default 30)")
    parser.add_argument("--seed", type=int, default=7, help="which shop (default 7)")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so long (default: at SIGTERM)")
    given = parser.parse_args()
    if not 0 < given.rate <= RATE_MAX:
        parser.error(f"--rate is above 0 and at most {RATE_MAX}: the embedded broker keeps everything in memory")
    asyncio.run(run(given.bootstrap_servers, rate=given.rate, seed=given.seed, seconds=given.seconds))


if __name__ == "__main__":
    main()
