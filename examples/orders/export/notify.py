# pipeline
# on ducklake://main/orders_daily
# on ducklake://main/customers
# debounce 2s max=10s
# retry 3 5s
"""Tells what it was fired by: a line in `.reactor/demo/notify.txt` for each new state of a table."""

from pathlib import Path

LOG = Path(".reactor/demo/notify.txt")


def main(trigger: dict) -> None:
    """`trigger["events"]`: each update since the last run; `upstream_snapshots`: what the tables are at now."""
    now = {(u["asset"], u.get("partition")): u["snapshot_id"] for u in trigger["upstream_snapshots"]}
    newest = {(e["asset"], e["partition"]): e["snapshot_id"] for e in trigger["events"]}
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a") as log:
        for (asset, partition), snapshot_id in newest.items():
            at = now.get((asset, partition), snapshot_id)
            log.write(f"{trigger['fired_at']} {asset} {partition or ''} fired by snapshot {snapshot_id}, now at {at}\n")
