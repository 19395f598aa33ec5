"""The three parts, and how each goes away and comes back."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reactor.embedded import EmbeddedBroker
from tests.integration.own_postgres import OwnPostgres
from tests.integration.shop import Shop
from tests.parts import PartMissing
from tests.parts.kafka import KafkaCluster

Checks = dict[str, tuple[str, str]]
"""Of `/readyz`: name → status and message."""


@dataclass(frozen=True, slots=True)
class Cut:
    """`leave` takes a part away, `come_back` brings it back. `noticed`: whether `/readyz` (its HTTP status, its checks) says what it has to."""

    name: str
    leave: Callable[[], None]
    come_back: Callable[[], None]
    noticed: Callable[[int, Checks], bool]


@dataclass(frozen=True, slots=True)
class Parts:
    """`kafka` goes away by the first, and comes back by the second."""

    postgres: OwnPostgres
    bootstrap_servers: str
    kafka: tuple[Callable[[], None], Callable[[], None]]
    broker: str
    idempotent: bool


@contextmanager
def parts(folder: Path, *, small_broker: bool) -> Iterator[Parts]:
    """Both of our own. Raises UsageError, PartMissing."""
    with ExitStack() as stack:
        postgres = stack.enter_context(OwnPostgres(folder / "postgres"))
        if not small_broker:
            try:
                cluster = stack.enter_context(KafkaCluster(folder / "kafka"))
            except PartMissing:
                small_broker = True
            else:
                yield Parts(postgres, cluster.bootstrap_servers, (cluster.kill, cluster.start), "Apache Kafka", idempotent=True)
        if small_broker:
            broker = EmbeddedBroker(folder / "broker")
            servers = stack.enter_context(broker)
            yield Parts(postgres, servers, _frozen(broker), "the small broker", idempotent=False)


def _frozen(broker: EmbeddedBroker) -> tuple[Callable[[], None], Callable[[], None]]:
    """A broker that keeps nothing is stopped where it stands: connections stay, and nothing answers."""
    child = broker._server._child
    assert child is not None
    return lambda: os.kill(child.pid, signal.SIGSTOP), lambda: os.kill(child.pid, signal.SIGCONT)


def cuts(shop: Shop, stand: Parts) -> Sequence[Cut]:
    """In the order in which they go."""
    lake, away = shop.folder / "lake", shop.folder / "lake-away"

    def lake_leaves() -> None:
        lake.rename(away)

    def lake_comes_back() -> None:
        if lake.exists():  # a file that somebody has written there meanwhile is a file that the lake has lost
            shutil.rmtree(lake)
        away.rename(lake)

    source = "source kafka://main"
    return (
        Cut("PostgreSQL", stand.postgres.kill, stand.postgres.start, lambda status, checks: status == 503 and checks["postgres"][0] == "down"),
        Cut("Kafka", *stand.kafka, lambda status, checks: status == 200 and checks[source][0] == "degraded"),
        Cut("the lake's folder", lake_leaves, lake_comes_back, lambda status, checks: status == 503 and "away" in checks["lakes"][1]),
    )
