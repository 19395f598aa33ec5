"""CloudEvents 1.0 in the binary mode of its Kafka binding: attributes as headers, the data alone as the value. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

JSON = "application/json"
NO_HEADER = frozenset({"data", "datacontenttype"})
"""Members of the structured form that are no `ce_` header: the value, and what `content-type` says."""


class Message(NamedTuple):
    """One event on the wire: key = `partitionkey`, so that the events of an asset keep their order in any number of partitions."""

    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]]


def binary(event: Mapping[str, object]) -> Message:
    """The message of a structured event with JSON data. The value is never empty: an event without data has `{}`."""
    key = event.get("partitionkey")
    attributes = [(f"ce_{name}", _text(value)) for name, value in event.items() if name not in NO_HEADER and value is not None]
    value = json.dumps(event.get("data", {}), ensure_ascii=False, separators=(",", ":"))
    content_type = ("content-type", _text(event.get("datacontenttype", JSON)))
    return Message(None if key is None else _text(key), value.encode(), [content_type, *attributes])


def _text(value: object) -> bytes:
    """The canonical text of an attribute: the Kafka binding takes it as UTF-8, without any escapes."""
    return ("true" if value else "false").encode() if isinstance(value, bool) else str(value).encode()
