"""The given cases of event times: the instant of a record, and its slice in the calendar of the case, or why it has none."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reactor.domain.partitions import NoSlice, calendar_of
from reactor.domain.scripts import HeaderField, JsonPath, Partitioning
from reactor.lake.decoding.event_time import read_event_times
from tests.lake.decoding.reading import span_records

Case = Mapping[str, Any]
CASES: Sequence[Case] = json.loads((Path(__file__).parents[2] / "cases" / "event_time.json").read_text(encoding="utf-8"))["cases"]
DEFAULT_TIMESTAMP = 1772366400000
NEIGHBOUR = "2026-03-01T12:00:00Z"


def partitioning_of(case: Case) -> Partitioning:
    kind, *options = case.get("options", "daily event_time=$.ts").split()
    said = dict(option.split("=", 1) for option in options)
    start = date.fromisoformat(said["start"]) if "start" in said else None
    return Partitioning(kind, said.get("tz", "UTC"), start=start, event_time=source_of(said.get("event_time")))


def source_of(said: str | None) -> JsonPath | HeaderField | None:
    if said is None:
        return None
    if said.startswith("$."):
        return tuple(said.removeprefix("$.").split("."))
    return HeaderField(said.removeprefix("header:"))


def neighbour(source: JsonPath | HeaderField | None) -> tuple[str, list[tuple[str, str]]]:
    if isinstance(source, tuple):
        value: object = NEIGHBOUR
        for name in reversed(source):
            value = {name: value}
        return json.dumps(value), []
    return "{}", [(source.name, NEIGHBOUR)] if source else []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_event_time(case: Case) -> None:
    partitioning = partitioning_of(case)
    source, expect = partitioning.event_time, case["expect"]
    beside, headers = neighbour(source)
    records = span_records(
        [beside, case["value"], beside],
        headers=[headers, [(name, value) for name, value in case.get("headers", [])], headers],
        timestamps=[DEFAULT_TIMESTAMP, case.get("timestamp", DEFAULT_TIMESTAMP), DEFAULT_TIMESTAMP],
    )
    found = read_event_times(records, source)
    assert [found.reasons[i].as_py() for i in (0, 2)] == [None, None]
    assert found.micros[0] == found.micros[2] == DEFAULT_TIMESTAMP * 1000
    micros, reason = int(found.micros[1]), found.reasons[1].as_py()
    if reason is None:
        try:
            identity = calendar_of(partitioning).slice_of(micros).identity
        except NoSlice as none:
            reason = none.reason
    if "quarantine" in expect:
        assert reason == expect["quarantine"]
    else:
        assert (reason, identity) == (None, expect["partition"])
        assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros) == datetime.fromisoformat(expect["instant"])
