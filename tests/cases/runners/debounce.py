"""When open slices become due: the engine on virtual time, with the script read by the real parser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reactor.core.effects import Deferred, Outcome
from reactor.domain.assets import ProjectNames
from reactor.domain.project import check_project
from reactor.domain.scripts import Script
from tests.cases import Case
from tests.core.driver import Driver, Started, end_well, update

UNTIL_SECONDS = 10_000.0


def run(case: Case, setup: Case) -> str | None:
    driver = Driver([script_of(case, setup)], run_seconds=float(number(case.get("run_seconds", 0))))
    if "StartRun fails" in str(case.get("then")):
        driver.ends = fails_at_first
    for event in events_of(case["events"], str(setup["default_partition"])):
        driver.update_at(event["t"], update(str(event["id"]), partition=event["partition"], rows=event["rows"], size_bytes=event["bytes"]))
    driver.producers = {"ducklake://main/src": driver.scripts[0].header.partitioned}
    driver.engine.set_scripts(driver.scripts, driver.producers)
    driver.run_until(UNTIL_SECONDS)
    return compared(case["expect"], driver)


def script_of(case: Case, setup: Case) -> Script:
    lines = [line.replace("<debounce of the case>", str(case["debounce"])) for line in texts(setup["script"])]
    if "on" in case:
        lines = [str(case["on"]) if line.startswith("-- on ") else line for line in lines]
    checked = check_project({"x.sql": "\n".join(lines).encode()}, ProjectNames(clusters=("main",)))
    assert not checked.refused, checked.diagnostics
    return next(iter(checked.scripts.values()))


def fails_at_first(started: Started) -> Outcome:
    """The lake does not answer for ten seconds."""
    return Deferred(started.run.ticket) if started.at < 15.0 else end_well(started)


def events_of(events: Any, partition: str) -> Iterator[Mapping[str, Any]]:
    if isinstance(events, Mapping):
        step, first, last = events["every_seconds"], events["from"], events["to"]
        ids = id_range(events["ids"])
        events = [{"id": i, "t": first + n * step} for n, i in enumerate(ids) if first + n * step <= last]
    for event in events:
        yield {"partition": partition, "rows": 1, "bytes": 1, **event, "t": float(event["t"])}


def id_range(text: Any) -> list[int]:
    if isinstance(text, str):
        first, last = text.split("..")
        return list(range(int(first), int(last) + 1))
    return [int(i) for i in text]


def compared(expect: Any, driver: Driver) -> str | None:
    done = [s for s in driver.started if not isinstance(driver.ends(s), Deferred)]
    if "completed_runs" in expect and len(done) != expect["completed_runs"]:
        return f"got {len(done)} completed runs, wanted {expect['completed_runs']}"
    want = sorted((float(d.get("starts", d["due"])), str(d["partition"]), id_range(d["events"])) for d in expect["due"])
    first = {(d, *ids): s.at for s in reversed(driver.started) for d, ids in s.events.items()}
    got = sorted((at, d, [int(i) for i in ids]) for (d, *ids), at in first.items())
    if [w[0] for w in want] == [g[0] for g in got] and sorted(w[1:] for w in want) == sorted(g[1:] for g in got):
        return None  # the order of two that are due together is free
    return f"got {got}, wanted {want}"


def texts(value: Any) -> list[str]:
    return [str(v) for v in value]


def number(value: Any) -> float:
    return float(value)
