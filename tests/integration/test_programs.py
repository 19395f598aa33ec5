"""Programs as processes (OP-14, DP-9, SC-6): what they get, how they end, and that nothing of them is left."""

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.shop import ORDERS, Shop
from tests.parts.waiting import wait_until

pytestmark = pytest.mark.slow

ON_ORDERS = "# pipeline\n# on ducklake://main/orders\n"
FORKS = ON_ORDERS + """
sleep 300 &
echo $! > fork.pid
"""
HANGS = ON_ORDERS + """
trap '' TERM
sh -c 'trap "" TERM; while :; do sleep 1; done' &
echo $! > hang.pid
echo $$ >> hang.pid
while :; do sleep 1; done
"""
BREAKS = ON_ORDERS + """
import sys

print("lines before", "x" * 20_000)
print("the last line says why", file=sys.stderr)
sys.exit(3)
"""
GREEDY = ON_ORDERS + """
bytearray(2**30)
"""
DUMPS = ON_ORDERS + """
import json, os, pathlib

pathlib.Path("environment.json").write_text(json.dumps(dict(os.environ)))
"""
WAITS = ON_ORDERS + """
import json, os, pathlib, time

def main(trigger):
    with open("waits.jsonl", "a") as file:
        file.write(json.dumps([e["snapshot_id"] for e in trigger["events"]]) + "\\n")
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
"""
KEEPS = ON_ORDERS + """
import json, os, pathlib, time

whole, short = json.loads(pathlib.Path(os.environ["WM_TRIGGER_FILE"]).read_text()), json.loads(os.environ["WM_TRIGGER"])
with open("kept.jsonl", "a") as file:
    file.write(json.dumps({"file": whole, "variable": short}) + "\\n")
while not pathlib.Path("go").exists():
    time.sleep(0.02)
"""
BY_KEY = """\
-- pipeline
-- on kafka://{topic}
-- batch order_id BIGINT
-- partitioned dynamic key=$.order_id
-- materialize ducklake://main/orders append
-- debounce 1s rows=100000
SELECT order_id FROM batch
"""


def runs_of(shop: Shop, script: str) -> list[Any]:
    return shop.fetch("SELECT state, error, trigger FROM reactor.run WHERE script = $1 ORDER BY id", script)


def processes(shop: Shop, *files: str) -> list[psutil.Process]:
    """Those whose ids are written there, as far as they live."""
    pids = [int(line) for name in files for line in (shop.folder / name).read_text().split()]
    return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def test_they_end_whole_and_say_why(shop: Shop) -> None:
    shop.write({"raw/orders.sql": ORDERS, "fork.sh": FORKS, "hang.sh": HANGS, "break.py": BREAKS, "greedy.py": GREEDY, "dump.py": DUMPS})
    served = shop.serve(REACTOR_RUN__TIMEOUT_SECONDS="4", REACTOR_RUN__PROGRAM_MEMORY_BYTES_MAX=str(2**29), PLANTED_SECRET="swordfish", PGPASSWORD="swordfish")
    served.wait_until_ready()
    shop.orders.send(1)
    wait_until(lambda: sum(run["state"] in {"completed", "failed"} for run in shop.fetch(
        "SELECT state FROM reactor.run WHERE script <> 'raw/orders.sql'")) == 5, "all five have ended", 60.0)

    assert [run["state"] for run in runs_of(shop, "fork.sh")] == ["completed"]
    ((hung, why, _),) = runs_of(shop, "hang.sh")
    assert hung == "failed"
    assert why.splitlines()[0] == "hang.sh ran longer than 4 s and was stopped."
    ((broke, why, _),) = runs_of(shop, "break.py")
    assert broke == "failed"
    assert why.startswith("break.py exited with 3.\n")
    assert why.endswith("the last line says why")
    assert len(why) < 10_000
    ((greedy, why, _),) = runs_of(shop, "greedy.py")
    assert (greedy, why.splitlines()[-1]) == ("failed", "MemoryError")
    assert processes(shop, "fork.pid", "hang.pid") == []

    seen = json.loads((shop.folder / "environment.json").read_text())
    assert "swordfish" not in seen.values()
    known = {"PATH", "HOME", "PWD", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONUNBUFFERED"}
    of_the_run = {"WM_TRIGGER", "WM_TRIGGER_FILE", "WM_PARTITION", "WM_PARTITION_START", "WM_PARTITION_END"}
    assert of_the_run <= seen.keys() <= known | of_the_run
    assert not Path(seen["WM_TRIGGER_FILE"]).exists()
    served.stop()


def test_ten_events_during_one_run_are_the_next_payload(shop: Shop) -> None:
    shop.write({"raw/orders.sql": ORDERS, "wait.py": WAITS})
    served = shop.serve()
    served.wait_until_ready()
    waits = shop.folder / "waits.jsonl"
    shop.orders.send(1)
    wait_until(waits.exists, "it runs", 60.0)
    for count in range(2, 12):
        shop.orders.send(1)
        shop.wait_until_committed(count)
    commits = [row["snapshot_id"] for row in shop.fetch("SELECT snapshot_id FROM reactor.outbox WHERE changed ORDER BY \"offset\"")]
    (shop.folder / "go").touch()
    wait_until(lambda: len(runs_of(shop, "wait.py")) == 2 and runs_of(shop, "wait.py")[1]["state"] == "completed", "it has run again")
    assert [json.loads(line) for line in waits.read_text().splitlines()] == [commits[:1], commits[1:]]
    assert len(commits) == 11
    served.stop()


def test_five_thousand_events_are_whole_in_the_file(shop: Shop) -> None:
    shop.write({"raw/orders.sql": BY_KEY, "keep.py": KEEPS})
    served = shop.serve()
    served.wait_until_ready()
    shop.orders.send(1)
    wait_until((shop.folder / "kept.jsonl").exists, "it runs", 60.0)
    shop.orders.send(5000)
    shop.wait_until_committed(5001)
    (first,) = shop.fetch("SELECT event_id FROM reactor.outbox ORDER BY \"offset\" LIMIT 1")
    events = {row["event_id"] for row in shop.fetch("SELECT event_id FROM reactor.outbox WHERE changed")} - {first["event_id"]}
    assert len(events) == 5000
    decided = "SELECT count(*) AS events FROM reactor.decision WHERE script = 'keep.py'"
    wait_until(lambda: shop.fetch(decided)[0]["events"] == 5001, "all of them wait for it", 120.0)
    (shop.folder / "go").touch()
    wait_until(lambda: [run["state"] for run in runs_of(shop, "keep.py")] == ["completed"] * 2, "it has run again", 60.0)
    _, kept = (json.loads(line) for line in (shop.folder / "kept.jsonl").read_text().splitlines())
    assert sorted(event["event_id"] for event in kept["file"]["events"]) == sorted(events)
    assert "truncated" not in kept["file"]
    assert (kept["variable"]["events"], kept["variable"]["truncated"]) == ([], ["events"])
    assert kept["variable"]["run_id"] == kept["file"]["run_id"]
    served.stop()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_they_do_not_outlive_the_service(shop: Shop, sign: signal.Signals) -> None:
    shop.write({"raw/orders.sql": ORDERS, "hang.sh": HANGS})
    served = shop.serve(REACTOR_RUN__DRAIN_SECONDS="1")
    served.wait_until_ready()
    shop.orders.send(1)
    wait_until(lambda: (shop.folder / "hang.pid").exists() and len(processes(shop, "hang.pid")) == 2, "it runs", 60.0)
    served.send(sign)
    served.wait_until_ended()
    wait_until(lambda: processes(shop, "hang.pid") == [], "nothing of it is left", 15.0)
