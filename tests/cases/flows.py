"""Logs as the cases of `kafka_flow` write them."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactor.domain.spans import SourcePartition
from reactor.testing import Record, ScriptedLogs
from tests.cases.comparing import Unknown, unknown_fields

_RANGE = re.compile(r"ids (\d+)\.\.(\d+)")
_DAYS = re.compile(r"(even|odd) ids (?:have ts )?on (\d{4}-\d\d-\d\d)")
_RECORD_FIELDS = {"key", "headers", "timestamp", "value"}
_TRANSACTION_FIELDS = {"control", "txn", "aborted", "id"}


@dataclass(frozen=True, slots=True)
class Content:
    """Of one source partition: what a reader of committed data gets, and the offsets that there are."""

    records: Sequence[Record]
    start: int
    end: int


def content(given: object, timestamp_ms: int) -> Content:
    """From `ids a..b`, or a list of [offset, value]. `timestamp_ms`: of records that say none."""
    entries = list(_ids(given)) if isinstance(given, str) else _list(given)
    records = [record(offset, value, timestamp_ms) for offset, value in entries if not _hidden(value)]
    offsets = [offset for offset, _ in entries]
    return Content(records, min(offsets, default=0), max(offsets, default=-1) + 1)


def _list(given: object) -> list[tuple[int, object]]:
    assert isinstance(given, list)
    return [(int(offset), value) for offset, value in given]


def _ids(text: str) -> Iterator[tuple[int, object]]:
    found = _RANGE.match(text)
    if found is None:
        raise Unknown(f"runner does not know the log {text!r}")
    days = days_of(text)
    for number in range(int(found[1]), int(found[2]) + 1):
        day = days.get("odd" if number % 2 else "even")
        yield number, json.dumps({"id": number, **({"ts": f"{day}T12:00:00Z"} if day else {"v": "x"})})


def days_of(text: str) -> dict[str, str]:
    """`even` and `odd` → the day of their event times."""
    return dict(_DAYS.findall(text))


def _hidden(value: object) -> bool:
    """Markers and aborted records: they take offsets and are never delivered."""
    if not isinstance(value, dict) or not value.keys() & _TRANSACTION_FIELDS:
        return False
    unknown_fields(value, _TRANSACTION_FIELDS)
    return "control" in value or bool(value.get("aborted"))


def record(offset: int, given: object, timestamp_ms: int) -> Record:
    """From `id n`, `base64:…`, other text, null, or an object."""
    if isinstance(given, dict) and "txn" in given:
        given = f"id {given['id']}"
    said: Mapping[str, Any] = given if isinstance(given, dict) else {"value": given}
    unknown_fields(said, _RECORD_FIELDS)
    headers = [(str(name), octets(text)) for name, text in said.get("headers", [])]
    return Record(offset, _value(said["value"]), octets(said.get("key")), headers, said.get("timestamp", timestamp_ms))


def _value(given: str | None) -> bytes | None:
    if given is not None and (found := re.fullmatch(r"id (\d+)", given)):
        return json.dumps({"id": int(found[1]), "v": "x"}).encode()
    return octets(given)


def octets(text: str | None) -> bytes | None:
    """Exact text, or `base64:…`."""
    if text is None or not text.startswith("base64:"):
        return None if text is None else text.encode()
    return base64.b64decode(text.removeprefix("base64:"))


def place(logs: ScriptedLogs, name: str) -> SourcePartition:
    """Of `orders/0`."""
    topic, _, number = name.rpartition("/")
    return logs.partition(topic, int(number))


def name_of(partition: SourcePartition) -> str:
    """`orders/0`."""
    return f"{partition.source.rpartition('/')[2]}/{partition.number}"


def id_list(wanted: object) -> list[int]:
    """A list, or `a..b once each`."""
    if isinstance(wanted, str):
        found = re.fullmatch(r"(\d+)\.\.(\d+)( once each)?", wanted)
        if found is None:
            raise Unknown(f"runner does not know ids {wanted!r}")
        return list(range(int(found[1]), int(found[2]) + 1))
    assert isinstance(wanted, list)
    return [int(one) for one in wanted]
