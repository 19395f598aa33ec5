"""What is marked as not active yet is read by nothing, and what is not marked is read by something."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor.settings.schema import json_schema

CODE = "\n".join(
    file.read_text() for room in ("reactor", "connectors") for file in sorted(Path(room).rglob("*.py")) if not file.is_relative_to("reactor/settings"))


def leaves(schema: dict[str, Any], defs: dict[str, dict[str, Any]], at: str = "", *, active: bool = True) -> Iterator[tuple[str, bool]]:
    """(dotted name, whether it is active) of each field."""
    schema = resolved(schema, defs)
    active = active and schema.get("x-active") is not False
    below = [*schema.get("patternProperties", {}).values(), *([more] if isinstance(more := schema.get("additionalProperties"), dict) else [])]
    named = [entry for entry in below if resolved(entry, defs).get("properties")]
    for name, inner in schema.get("properties", {}).items():
        if name != "profiles":  # the same once more
            yield from leaves(inner, defs, f"{at}.{name}".strip("."), active=active and inner.get("x-active") is not False)
    for entry in named:
        yield from leaves(entry, defs, at, active=active)
    if not named and "properties" not in schema:
        yield at, active


def resolved(schema: dict[str, Any], defs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    reference = schema.get("$ref")
    return {**defs[str(reference).rpartition("/")[2]], **schema} if reference else schema


SCHEMA = json_schema()
FIELDS = dict(leaves(SCHEMA, SCHEMA["$defs"]))


def test_the_walk_finds_them() -> None:
    assert {"lakes.watch_external", "run.skip_unchanged", "run.timeout_seconds", "kafka.registry_url", "http.port"} <= FIELDS.keys()


@pytest.mark.parametrize("name", sorted(name for name, active in FIELDS.items() if active))
def test_an_active_setting_is_read(name: str) -> None:
    assert re.search(rf"\.{re.escape(name.rpartition('.')[2])}\b", CODE)


@pytest.mark.parametrize("name", ["kafka.registry_url", "http.port", "http.oidc", "publishers.secret", "openlineage.url", "alerting.alertmanager_url"])
def test_these_wait(name: str) -> None:
    assert not any(active for field, active in FIELDS.items() if field == name or field.startswith(f"{name}."))
