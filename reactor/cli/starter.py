"""The project that `reactor init` writes: small, whole, and accepted by `check`."""

from collections.abc import Mapping
from typing import Final

SETTINGS: Final = """\
# Settings of this project. What does not stand here is a default. `reactor dev` brings the two parts that a laptop does not have: a private
# PostgreSQL (Reactor's state and the catalog of the lake) and a small broker that speaks Kafka's protocol and keeps everything in memory.

# A PostgreSQL of yours instead (an address with a password is a secret: only its place stands here):
# [state]
# url = "env:SHOP_STATE_URL"                  # postgresql://user:password@host:5432/database

[lakes.main]                                  # ducklake://main/<table> in scripts
data_path = ".reactor/lake/main"              # Parquet files; relative to this folder, or s3://bucket/prefix

[kafka.main]                                  # the only cluster, so kafka://orders is its topic `orders`
bootstrap_servers = "embedded"                # or brokers of yours: "broker1:9092,broker2:9092"

# Tell others of every new snapshot, as a CloudEvent:
# [publishers.events]
# kind = "kafka"
# topic = "reactor.asset.updated"
"""

ORDERS: Final = """\
-- pipeline
-- on kafka://orders
-- batch order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), ordered_at TIMESTAMPTZ
-- partitioned daily event_time=$.ordered_at
-- materialize ducklake://main/orders append
-- debounce 2s max=10s

-- Every order is a row, once. `batch` is what has come since the last run; what does not fit the types goes to `_reactor_quarantine`.
SELECT order_id, customer_id, amount, ordered_at
FROM batch
"""

ORDERS_DAILY: Final = """\
-- pipeline
-- on ducklake://main/orders
-- partitioned daily
-- materialize ducklake://main/orders_daily
-- retry 3 10s

-- A day is made anew whenever an order of that day has come.
SELECT customer_id, count(*) AS orders, sum(amount) AS total
FROM main.orders
WHERE wm_partition(ordered_at) = {partition}
GROUP BY customer_id
"""

NOTIFY: Final = '''\
# pipeline
# on ducklake://main/orders_daily
# partitioned daily
# retry 3 10s
"""Runs after each new snapshot of a day."""


def main(trigger: dict, partition: str) -> None:
    snapshots = [upstream["snapshot_id"] for upstream in trigger["upstream_snapshots"]]
    print(f"orders of {partition}: snapshot {snapshots}")
'''

IGNORED: Final = """\
.reactor/
"""

FILES: Final[Mapping[str, str]] = {
    "reactor.toml": SETTINGS, "raw/orders.sql": ORDERS, "marts/orders_daily.sql": ORDERS_DAILY, "export/notify.py": NOTIFY, ".gitignore": IGNORED,
}
"""Text by path."""
