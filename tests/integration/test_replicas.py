"""Two processes on one project (OP-5): each does its part, the other takes over, and one that slept through it writes nothing."""

import signal
from itertools import pairwise

import pytest

from tests.integration.records import Load
from tests.integration.served import Served
from tests.integration.shop import LOWS, Shop
from tests.parts.waiting import wait_until

pytestmark = pytest.mark.slow

ALONE = ("ducklake://main/newest", "ducklake://main/orders_daily", "export/tell.py")
"""Lanes that run once over all replicas."""
READERS = """
SELECT p->>'source_partition' AS number, count(DISTINCT r.replica) AS readers FROM reactor.run r, jsonb_array_elements(r.trigger->'positions') p
 WHERE r.consumer = 'ducklake://main/orders' AND r.created_at > $1 AND r.state = 'completed' GROUP BY 1
"""


def both_assigned(shop: Shop, *replicas: Served) -> bool:
    """Whether each has two of the four source partitions, by the newest word of each."""
    said = [r.said("source_assigned", source=f"kafka://main/{shop.orders.name}") for r in replicas]
    return all(lines and lines[-1]["message"] == "assigned 2 source partitions" for lines in said)


def first_of_two(shop: Shop, failpoint: str = "") -> Served:
    """Which goes down; the second, in which nothing is armed, stays."""
    shop.write_all_scripts()
    first, second = shop.serve(replica_id="", failpoint=failpoint), shop.serve(replica_id="")
    wait_until(lambda: both_assigned(shop, first, second), "each has two source partitions", 90.0)
    return first


def test_each_source_partition_has_one_reader_and_each_lane_one_run(shop: Shop) -> None:
    first_of_two(shop)
    since = shop.value("SELECT clock_timestamp()")
    with Load(shop.orders):
        wait_until(lambda: len(shop.fetch(READERS, since)) == 4 and shop.committed() > 2000, "all source partitions are read")
    shop.wait_until_whole()
    assert {row["readers"] for row in shop.fetch(READERS, since)} == {1}
    assert shop.value("SELECT count(DISTINCT replica) FROM reactor.run") == 2
    for consumer in ALONE:
        runs = shop.fetch("SELECT created_at, finished_at FROM reactor.run WHERE consumer = $1 ORDER BY created_at", consumer)
        assert all(before["finished_at"] <= after["created_at"] for before, after in pairwise(runs)), consumer
    shop.finish()
    assert shop.failed_runs() == []


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_the_second_takes_over_when_the_first_ends(shop: Shop, sign: signal.Signals) -> None:
    first = first_of_two(shop)
    with Load(shop.orders):
        shop.wait_until_committed(500)
        first.send(sign)
        assert first.wait_until_ended() == (0 if sign == signal.SIGTERM else -sign)
        if sign == signal.SIGKILL:
            shop.time_passes()
        after = len(shop.orders.sent) + 500
        wait_until(lambda: len(shop.orders.sent) > after, "the load goes on")
    shop.finish()
    assert shop.failed_runs() == []


def test_one_that_slept_in_its_commit_writes_nothing_when_it_wakes(shop: Shop) -> None:
    first = first_of_two(shop, failpoint="before_commit:stop:3")
    with Load(shop.orders):
        first.wait_until_frozen()
        shop.time_passes()
        sent = len(shop.orders.sent)
        wait_until(lambda: min(row["low"] for row in shop.fetch(LOWS)) > sent // 4, "the second has taken over", 60.0)
    first.send(signal.SIGCONT)
    first.wait_until_said("commit_refused")
    shop.orders.send(500)
    shop.finish()
    assert shop.failed_runs() == []
