"""The JSON Schema that `config schema` prints: whole, documented, and in accord with what is loaded."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reactor.settings import json_schema
from reactor.settings.shape import Leaf, at, leaves
from tests.settings.projects import Project

CONVENTIONS = """
installation workspace state.url lakes.default lakes.*.data_path lakes.*.watch_external kafka.*.bootstrap_servers kafka.*.group_id
kafka.*.auto_offset_reset kafka.*.registry_url stores.*.endpoint_url stores.*.bucket stores.*.reconcile_interval_seconds debounce.quiet_seconds
debounce.wait_max_seconds debounce.rows_max debounce.bytes_max debounce.open_bytes_max run.timeout_seconds run.drain_seconds run.skip_unchanged
http.host http.port http.health_port http.tokens.*.sha256 http.oidc.issuer_url publishers.*.kind publishers.*.cluster publishers.*.topic
publishers.*.url publishers.*.secret publishers.*.assets publishers.*.types openlineage.url openlineage.queue_events_max alerting.alertmanager_url
log.format log.level resources.memory_limit_bytes resources.threads resources.temp_path runners.*.interpreter variables.* notify.*.url
"""


def test_everything_that_was_agreed_on_can_be_set() -> None:
    assert {tuple(name.split(".")) for name in CONVENTIONS.split()} <= set(leaves())


def properties() -> Iterator[tuple[str, Mapping[str, Any]]]:
    schema = json_schema()
    for title, definition in [("", schema), *schema["$defs"].items()]:
        for name, field in definition["properties"].items():
            yield f"{title}.{name}", field


def test_every_field_and_section_is_documented() -> None:
    schema = json_schema()
    for name, field in properties():
        described = field.get("description") or [schema["$defs"][ref]["description"] for ref in re.findall(r"#/\$defs/(\w+)", str(field))]
        assert described, name


def test_every_number_has_its_unit_in_its_name_and_its_bounds() -> None:
    for path in leaves():
        leaf = at(path)
        assert isinstance(leaf, Leaf)
        if path == ("variables", "*") or not (leaf.takes("integer") or leaf.takes("number")):
            continue
        assert re.search(r"(_seconds|_bytes|_max|port|threads)$", path[-1]), path
        (schema,) = [option for option in leaf.schema.get("anyOf", [leaf.schema]) if option["type"] != "null"]
        assert {"minimum", "exclusiveMinimum"} & schema.keys(), path
        assert "maximum" in schema, path


def test_what_is_not_active_is_marked() -> None:
    marked = {name for name, field in properties() if field.get("x-active") is False}
    assert {".stores", ".openlineage", ".alerting", ".notify", "Kafka.registry_url"} <= marked


ACCEPTED = """
installation = "x"
[lakes]
default = "sales"
[lakes.sales]
data_path = "s3://bucket/x"
[kafka.k]
sasl_password = "env:P"
auto_offset_reset = "latest"
[publishers.p]
kind = "kafka"
types = ["reactor.asset.updated.v1"]
[variables]
a = 1
b = "x"
[profiles.dev.lakes.sales]
data_path = "here"
"""
REFUSED = ["x = 1", "[http]\nport = 0", "[http]\nprt = 1", "[kafka.k]\nsasl_password = 'literal'", "[kafka.'a b']", "[profiles.dev]\nx = 1", "[variables]\na = []"]


def test_the_schema_accepts_what_is_loaded(project: Project) -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(tomllib.loads(ACCEPTED))
    project.file(ACCEPTED).load({"P": "x"})


@pytest.mark.parametrize("text", REFUSED)
def test_the_schema_refuses_what_is_refused(project: Project, text: str) -> None:
    assert not Draft202012Validator(json_schema()).is_valid(tomllib.loads(text))
    assert project.file(text).problems()
