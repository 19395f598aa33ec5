"""`reactor config`: each value with its origin, and the schema."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.conftest import Reactor

SETTINGS = """\
installation = "shop"
[kafka.main]
bootstrap_servers = "b:9092"
security_protocol = "SASL_SSL"
sasl_username = "ada"
sasl_password = "env:PLANTED"
[state]
url = "file:url.txt"
[profiles.dev.http]
port = 9090
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings in every layer, with two planted secrets."""
    (tmp_path / "reactor.toml").write_text(SETTINGS)
    (tmp_path / "url.txt").write_text("postgresql://ada:hunter2@db:5432/shop")
    (tmp_path / "broken.sql").write_text("-- partitoned daily\n-- materialize ducklake://main/x\nSELECT 1")
    monkeypatch.setenv("PLANTED", "hunter3")
    monkeypatch.setenv("REACTOR_RUN__DRAIN_SECONDS", "7")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(reactor: Reactor, *argv: str) -> Mapping[str, tuple[Any, str]]:
    said = reactor("config", "show", *argv, "--json")
    assert (said.exit_code, said.answer["schema"]) == (0, "reactor.cli.config.show.v1")
    return {line["name"]: (line["value"], line["origin"]) for line in said.data}


@pytest.mark.usefixtures("folder")
def test_each_value_names_its_origin(reactor: Reactor) -> None:
    found = shown(reactor, "--profile", "dev", "--workspace", "stage")
    assert found["workspace"] == ("stage", "flag workspace")
    assert found["run.drain_seconds"] == (7.0, "environment REACTOR_RUN__DRAIN_SECONDS")
    assert found["http.port"] == (9090, "reactor.toml:10 (profile dev)")
    assert found["installation"] == ("shop", "reactor.toml:1")
    assert found["http.health_port"] == (8081, "default")
    assert found["kafka.main.sasl_password"] == ("***", "reactor.toml:6, env:PLANTED")
    assert shown(reactor)["http.port"] == (8080, "default")


@pytest.mark.usefixtures("folder")
def test_secrets_are_shown_nowhere(reactor: Reactor) -> None:
    for argv in (["config", "show"], ["config", "show", "--json"], ["config", "schema"]):
        said = reactor(*argv)
        assert "hunter" not in said.out + said.err
    assert shown(reactor)["state.url"][0] == "postgresql://db:5432/***"


@pytest.mark.usefixtures("folder")
def test_names_choose(reactor: Reactor) -> None:
    assert shown(reactor, "http", "kafka.main.group_id").keys() == {
        "http.host", "http.port", "http.health_port", "http.oidc", "kafka.main.group_id"}
    assert shown(reactor, "--set").keys() == {
        "installation", "kafka.main.bootstrap_servers", "kafka.main.security_protocol", "kafka.main.sasl_username", "kafka.main.sasl_password", "state.url",
        "run.drain_seconds"}
    unknown = reactor("config", "show", "htp.port", "--json")
    assert (unknown.exit_code, unknown.problem["hint"]) == (2, "did you mean http.port?")


@pytest.mark.usefixtures("folder")
def test_for_eyes(reactor: Reactor) -> None:
    lines = reactor("config", "show", "installation", "kafka.main.sasl_password", "http.port").out.splitlines()
    assert [line.split() for line in lines] == [
        ["setting", "value", "from"], ["installation", '"shop"', "reactor.toml:1"], ["kafka.main.sasl_password", '"***"', "reactor.toml:6,", "env:PLANTED"],
        ["http.port", "8080", "default"]]


def test_wrong_settings_are_said(reactor: Reactor, folder: Path) -> None:
    (folder / "reactor.toml").write_text("[http]\nprot = 1\n")
    said = reactor("config", "show", "--json")
    assert (said.exit_code, said.problem["type"]) == (2, "urn:reactor:problem:settings")
    assert said.problem["errors"][0]["suggestion"] == "port"


def test_the_schema_is_one_and_takes_the_starter(reactor: Reactor, tmp_path: Path) -> None:
    schema = json.loads(reactor("config", "schema", "--project", tmp_path).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"lakes": {"main": {"data_path": "lake"}}, "profiles": {"dev": {"http": {"port": 1}}}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"htp": {}}, schema)
    assert reactor("config", "schema", "--json", "--project", tmp_path).data == schema
