"""Scripts are edited while `serve` works under load (OP-12): whole graph or nothing, and every row once."""

import signal
from collections.abc import Callable

import pytest

from tests.integration.records import Load, OrderTopic
from tests.integration.served import Served
from tests.integration.shop import BEHIND, DAILY, NEWEST, ORDERS, Shop
from tests.parts.waiting import wait_until

pytestmark = pytest.mark.slow

MORE = """\
-- pipeline
-- on kafka://{topic}
-- batch order_id BIGINT, ordered_at TIMESTAMPTZ
-- materialize ducklake://main/more append
SELECT order_id FROM batch
"""


def reloaded(served: Served, count: int) -> None:
    wait_until(lambda: len(served.said("service_reloaded")) >= count or bool(served.said("reload_refused")) or served.ended, f"reloaded {count} times", 90.0)
    assert not served.ended, served.log()[-3000:]
    assert served.said("reload_refused") == []


def test_edited_under_load(shop: Shop) -> None:
    """Texts, another routing of the same slices, a renamed file; each edit is awaited, the load goes on."""
    shop.write_all_scripts()
    served = shop.serve(arguments=("--watch",))
    served.wait_until_ready()
    elsewhere = ORDERS.replace("daily event_time", "daily start=2020-01-01 event_time")
    with Load(shop.orders):
        for turn, text in enumerate([ORDERS.replace("-- pipeline", "-- pipeline\n-- debounce 1s"), elsewhere, ORDERS], start=1):
            shop.wait_until_committed(shop.committed() + 200)
            shop.write({"raw/orders.sql": text})
            reloaded(served, turn)
        shop.wait_until_committed(shop.committed() + 200)
        (shop.folder / "marts/orders_daily.sql").rename(shop.folder / "marts/per_day.sql")
        reloaded(served, 4)
        shop.wait_until_committed(shop.committed() + 200)
    shop.finish()
    assert shop.failed_runs() == []
    routings = {row["routing"] for row in shop.fetch("SELECT routing FROM reactor.position WHERE consumer = 'ducklake://main/orders' AND source LIKE 'kafka://%'")}
    assert len(routings) == 1
    scripts = {row["script"] for row in shop.fetch("SELECT script FROM reactor.run WHERE asset = 'ducklake://main/orders_daily'")}
    assert scripts == {"marts/orders_daily.sql", "marts/per_day.sql"}


def test_a_broken_edit_leaves_everything_as_it_was(shop: Shop) -> None:
    shop.write_all_scripts()
    served = shop.serve()
    served.wait_until_ready()
    with Load(shop.orders):
        shop.wait_until_committed(200)
        shop.write({"raw/orders.sql": ORDERS.replace("-- batch", "-- bath"), "marts/new.sql": DAILY.replace("SELECT", "SELEC"), "raw/newest.sql": NEWEST + "-- changed"})
        served.send(signal.SIGHUP)
        said = served.wait_until_said("reload_refused")["message"]
        assert "marts/new.sql" in said
        assert "the scripts of before go on" in said
        shop.wait_until_committed(shop.committed() + 200)
        shop.write({"raw/orders.sql": ORDERS})
        (shop.folder / "marts/new.sql").unlink()
        served.send(signal.SIGHUP)
        assert served.wait_until_said("service_reloaded")["message"] == "reloaded: changed: raw/newest.sql"
    shop.finish()
    assert shop.failed_runs() == []


def test_topics_come_and_go(shop: Shop, topic: Callable[[str], str]) -> None:
    more = OrderTopic(shop.orders.bootstrap_servers, topic("more"), 2)
    more.make()
    shop.write({"raw/orders.sql": ORDERS, "marts/orders_daily.sql": DAILY})
    served = shop.serve(arguments=("--watch",))
    served.wait_until_ready()
    asset = "ducklake://main/more"
    with Load(shop.orders):
        shop.wait_until_committed(200)
        more.send(100)
        shop.write({"raw/more.sql": MORE.replace("{topic}", more.name)})
        reloaded(served, 1)
        shop.wait_until_committed(100, asset)
        (shop.folder / "raw/more.sql").unlink()
        reloaded(served, 2)
        more.send(100)
        shop.wait_until_committed(shop.committed() + 200)
        assert shop.committed(asset) == 100
        shop.write({"elsewhere/more.sql": MORE.replace("{topic}", more.name)})
        reloaded(served, 3)
        shop.wait_until_committed(200, asset)
    (ids,) = shop.rows("SELECT order_id FROM more")
    assert sorted(row[0] for row in ids) == list(range(200))
    shop.wait_until_committed(len(shop.orders.sent))
    wait_until(lambda: shop.fetch(BEHIND) == [], "all updates are handled and published", 90.0)
    served.stop()
    shop.check()
    assert shop.failed_runs() == []
