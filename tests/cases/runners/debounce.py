"""When open slices become due: the engine on virtual time, with the script read by the real parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reactor.core.effects import Deferred, Outcome
from reactor.domain.assets import ProjectNames
from reactor.domain.project import check_project
from reactor.domain.scripts import Script
from tests.cases import Case
from tests.cases.comparing import Unknown, choices, is_right, nearest, unknown_fields
from tests.core.driver import Driver, Started, end_well, update

UNTIL_SECONDS = 10_000.0
TOLERANCE_SECONDS = 1e-6
"""Sums of decimal fractions are not exact."""
FIELDS = {"due", "completed_runs", "events_lost"}
Slice = tuple[str, tuple[str, ...]]
"""An asset partition and its events."""


def run(case: Case, setup: Case) -> str | None:
    driver = Driver([script_of(case, setup)], run_seconds=float(number(case.get("run_seconds", 0))))
    for step in texts(case.get("then", [])):
        driver.ends = ends_after(step, driver)
    sent = list(events_of(case["events"], str(setup["default_partition"])))
    for event in sent:
        driver.update_at(event["t"], update(str(event["id"]), partition=event["partition"], rows=event["rows"], size_bytes=event["bytes"]))
    driver.producers = {"ducklake://main/src": driver.scripts[0].header.partitioned}
    driver.engine.set_scripts(driver.scripts, driver.producers)
    driver.run_until(UNTIL_SECONDS + max((event["t"] for event in sent), default=0.0))
    return nearest([list(differences(expect, driver, len(sent))) for expect in choices(case["expect"])])


def script_of(case: Case, setup: Case) -> Script:
    lines = [line.replace("<debounce of the case>", str(case["debounce"])) for line in texts(setup["script"])]
    if "on" in case:
        lines = [str(case["on"]) if line.startswith("-- on ") else line for line in lines]
    checked = check_project({"x.sql": "\n".join(lines).encode()}, ProjectNames(clusters=("main",)))
    assert not checked.refused, checked.diagnostics
    return next(iter(checked.scripts.values()))


def ends_after(step: str, driver: Driver) -> Callable[[Started], Outcome]:
    """How runs end while and after the lake does not answer."""
    found = re.fullmatch(r"the first StartRun fails because the lake does not answer for ([\d.]+) s", step)
    if found is None:
        raise Unknown(f"runner does not know the step {step!r}")
    away_seconds = float(found[1])

    def end(started: Started) -> Outcome:
        away = started.at < driver.started[0].at + away_seconds
        return Deferred(started.run.ticket) if away else end_well(started)

    return end


def events_of(events: Any, partition: str) -> Iterator[Mapping[str, Any]]:
    if isinstance(events, Mapping):
        step, first, last = events["every_seconds"], events["from"], events["to"]
        ids = id_range(events["ids"])
        events = [{"id": i, "t": first + n * step} for n, i in enumerate(ids) if first + n * step <= last + TOLERANCE_SECONDS]
    for event in events:
        yield {"partition": partition, "rows": 1, "bytes": 1, **event, "t": float(event["t"])}


def id_range(text: Any) -> list[str]:
    if isinstance(text, str):
        first, last = text.split("..")
        return [str(i) for i in range(int(first), int(last) + 1)]
    return [str(i) for i in text]


def differences(expect: Mapping[str, Any], driver: Driver, sent: int) -> Iterator[str]:
    unknown_fields((name.removesuffix("_between") for name in expect), FIELDS)
    done = [started for started in driver.started if not isinstance(driver.ends(started), Deferred)]
    counts = {"completed_runs": len(done), "events_lost": sent - len({event for started in done for event in event_ids(started)})}
    for name in expect.keys() - {"due"}:
        got = counts[name.removesuffix("_between")]
        if not is_right(name, got, expect[name]):
            yield f"{name}: got {got} wanted {expect[name]}"
    if "due" in expect:
        begun = starts(driver, done)
        if not as_due(begun, expect["due"]):
            yield f"got {sorted((at, *one) for one, at in begun.items())}, wanted {expect['due']}"


def event_ids(started: Started) -> set[str]:
    return {event for events in started.events.values() for event in events}


def starts(driver: Driver, done: list[Started]) -> dict[Slice, float]:
    """When the run of each slice began that was written; a start that failed began it too."""
    begun = {}
    for started in done:
        for partition, events in started.events.items():
            tries = [other.at for other in driver.started if not set(events).isdisjoint(other.events.get(partition, ()))]
            begun[partition, tuple(sorted(events))] = min(tries)
    return begun


def as_due(begun: Mapping[Slice, float], due: Any) -> bool:
    """Whether just these slices began when they should; the order of those that are due together is free."""
    wanted: dict[float, dict[Slice, float]] = {}
    for one in due:
        of_slice = str(one["partition"]), tuple(sorted(id_range(one["events"])))
        wanted.setdefault(round(number(one["due"]), 6), {})[of_slice] = number(one.get("starts", one["due"]))
    if begun.keys() != {of_slice for together in wanted.values() for of_slice in together} or len(begun) != len(due):
        return False
    return all(
        abs(got - at) <= TOLERANCE_SECONDS
        for together in wanted.values()
        for got, at in zip(sorted(begun[of_slice] for of_slice in together), sorted(together.values()), strict=True)
    )


def texts(value: Any) -> list[str]:
    return [str(v) for v in value]


def number(value: Any) -> float:
    return float(value)
