"""What a line of the log may be (conventions 5)."""

import json
from collections.abc import Iterable
from typing import Any

import jsonschema

from reactor.telemetry import EVENTS, FIELDS, SEVERITIES

NUMBERS = {"snapshot_id", "attempt", "rows"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["timestamp", "severity", "event", "message"],
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "integer"} if name in NUMBERS else {"type": "string", "minLength": 1} for name in FIELDS},
        "timestamp": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
        "severity": {"enum": sorted(SEVERITIES.values())},
        "event": {"enum": sorted(EVENTS)},
        "message": {"type": "string", "minLength": 1},
        "duration_seconds": {"type": "number", "minimum": 0},
    },
}
_LIBPQ = "FATAL:  "
"""How a line begins that PostgreSQL's client library, inside DuckDB, writes to stderr by itself when a server dies that nobody asks just then."""
_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def wrong_lines(lines: Iterable[str]) -> list[str]:
    """Those that no line of the log may be, each with why."""
    return [f"{why}: {line[:500]}" for line in lines if not line.startswith(_LIBPQ) and (why := _wrong(line))]


def _wrong(line: str) -> str:
    try:
        read = json.loads(line)
    except ValueError:
        return "no JSON"
    return "; ".join(error.message for error in _VALIDATOR.iter_errors(read))
