"""`reactor check` of a large project, and how fast the command line starts.

    python bench/check.py [--scripts 1000] [--rounds 3] [--json PATH] [--profile]

The project: a tenth of the scripts read a topic each (append, by key, the latest of a key; daily or whole), the others one or two tables made
before (replace, by key, Python programs), in chains and fans. Each command is a process of its own from start to exit, with files
that were read before; the best of some rounds counts.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reactor.cli import main as reactor

SETTINGS = '[lakes.main]\ndata_path = "lake"\n[kafka.main]\nbootstrap_servers = "embedded"\n'
STREAMS = (" append", " key=order_id", " key=order_id latest=at")
TABLES = ("", " key=customer")


def stream(number: int) -> str:
    """A table of a topic."""
    partitioned = "" if number % 3 == 2 else "-- partitioned daily event_time=$.at\n"
    return f"""-- pipeline
-- on kafka://main/topic{number}
-- batch order_id BIGINT, customer VARCHAR, amount DECIMAL(12,2), at TIMESTAMP
{partitioned}-- materialize ducklake://main/t{number}{STREAMS[number % len(STREAMS)]}
SELECT order_id, customer, amount, at, amount * 1.19 AS gross, upper(customer) AS name
FROM batch WHERE amount > 0
"""


def table(number: int, streams: int) -> str:
    """A table of tables: each tenth reads the one before it (a chain), the others one of the streams (a fan), some both."""
    first = f"main.t{number - 1 if number % 10 == 0 else number % streams}"
    second = f" LEFT JOIN main.t{number // 2} AS b USING (customer)" if number % 4 == 1 else ""
    return f"""-- pipeline
-- materialize ducklake://main/t{number}{TABLES[number % len(TABLES)]}
-- retry 3 10s
WITH big AS (SELECT * FROM {first} WHERE amount > {number})
SELECT a.customer, count(*) AS orders, sum(a.amount) AS amount, max(a.at) AS at,
       CASE WHEN sum(a.amount) > 1000 THEN 'large' ELSE 'small' END AS class
FROM big AS a{second} GROUP BY ALL
"""


def program(number: int, streams: int) -> str:
    return f"""# pipeline
# on ducklake://main/t{number % streams}
def main(trigger):
    print(trigger)
"""


def write_project(folder: Path, scripts: int) -> None:
    (folder / "reactor.toml").write_text(SETTINGS)
    streams = max(scripts // 10, 1)
    for number in range(scripts):
        if number < streams:
            name, text = f"streams/t{number}.sql", stream(number)
        elif number % 20 == 7:
            name, text = f"programs/p{number}.py", program(number, streams)
        else:
            name, text = f"tables/{number % 10}/t{number}.sql", table(number, streams)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def measured(folder: Path, *arguments: str, rounds: int) -> dict[str, float | int]:
    """Wall and processor seconds, and the exit code, of the fastest of some runs."""
    found = []
    for _ in range(rounds):
        before, began = os.times(), time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "reactor", *arguments], cwd=folder, capture_output=True, timeout=600, check=False)
        wall, after = time.perf_counter() - began, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        found.append({"wall_seconds": round(wall, 2), "cpu_seconds": round(cpu, 2), "exit_code": done.returncode})
    return min(found, key=lambda row: row["wall_seconds"])


def main() -> None:
    arguments = argparse.ArgumentParser(description="How long `reactor check` of a large project takes")
    arguments.add_argument("--scripts", type=int, default=1_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--profile", action="store_true", help="where the time of `check` goes, instead")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_project(folder, asked.scripts)
        if asked.profile:
            profile = cProfile.Profile()
            sys.argv[1:] = ["check", "--project", str(folder)]
            profile.runcall(reactor)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(80)
            return
        commands = {"check": ("check",), "list": ("list",), "--help": ("--help",), "--version": ("--version",)}
        rows = {name: measured(folder, *command, rounds=asked.rounds) for name, command in commands.items()}
    print(f"{f'{asked.scripts} scripts':16}{'wall s':>10}{'cpu s':>10}{'exit':>6}")
    for name, row in rows.items():
        print(f"{name:16}{row['wall_seconds']:10.2f}{row['cpu_seconds']:10.2f}{row['exit_code']:6}")
    if asked.json:
        asked.json.write_text(json.dumps({"check": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
