# pipeline
# on ducklake://main/orders_daily
# on ducklake://main/customers
# debounce 2s max=10s
# retry 3 5s
"""Says what it was fired by: a line in `.reactor/demo/notify.txt` for each table, or day of it, that has changed."""

from pathlib import Path

LOG = Path(".reactor/demo/notify.txt")


def main(trigger: dict) -> None:
    """`trigger["events"]`: each update since the last run; `upstream_snapshots`: where the tables are now."""
    fired = {(event["asset"], event["partition"]): event["snapshot_id"] for event in trigger["events"]}
    now = {(table["asset"], table.get("partition")): table["snapshot_id"] for table in trigger["upstream_snapshots"]}
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a") as log:
        for (asset, day), snapshot_id in fired.items():
            name = " ".join(filter(None, (asset.rpartition("/")[2], day)))
            log.write(f"{trigger['fired_at']} {name}: fired by snapshot {snapshot_id}, now at {now.get((asset, day), snapshot_id)}\n")
