"""Layers, origins, profiles, names of variables: what holds, and where it came from."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from reactor.settings import Settings, SettingsError, load
from tests.settings.projects import Project

# -- defaults


def test_without_a_file_the_defaults_hold(project: Project) -> None:
    loaded = project.load()
    settings = loaded.settings
    assert (settings.installation, settings.workspace, settings.state.embedded) == ("local", "prod", True)
    assert (settings.http.host, settings.http.port, settings.http.health_port) == ("127.0.0.1", 8080, 8081)
    assert {name: lake.data_path for name, lake in settings.lakes.named.items()} == {"main": f"{project.folder}/.reactor/lake/main"}
    assert settings.lakes.default == "main"
    assert (settings.kafka, settings.publishers, settings.replica_id) == ({}, {}, None)
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == ()


def test_the_numbers_of_the_conventions(project: Project) -> None:
    s = project.file('[kafka.k]\n[stores.s]\nbucket = "abc"').load().settings
    assert (s.debounce.quiet_seconds, s.debounce.wait_max_seconds, s.debounce.rows_max) == (2, 30, 100_000)
    assert (s.debounce.bytes_max, s.debounce.open_bytes_max) == (134_217_728, 268_435_456)
    assert (s.run.timeout_seconds, s.run.drain_seconds, s.run.skip_unchanged) == (3600, 90, True)
    assert (s.stores["s"].reconcile_interval_seconds, s.openlineage.queue_events_max) == (3600, 1000)
    assert (s.kafka["k"].bootstrap_servers, s.kafka["k"].embedded, s.kafka["k"].auto_offset_reset) == ("embedded", True, "earliest")


def test_an_empty_file_is_as_none(project: Project) -> None:
    assert project.file("").load().settings == project.load().settings


def test_a_missing_project_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such folder"):
        load(tmp_path / "none", flags={}, environ={})


# -- layers

@pytest.mark.parametrize("top", range(6))
def test_each_layer_wins_over_the_next(project: Project, top: int) -> None:
    environ: dict[str, str] = {}
    flags: dict[str, object] = {"installation": None}
    text = 'workspace = "w"\n'
    if top >= 1:
        text += 'installation = "by-file"\n'
    if top >= 2:
        text += '[profiles.dev]\ninstallation = "by-profile"\n'
        environ["REACTOR_PROFILE"] = "dev"
    if top >= 3:
        project.secret("installation", "by-secrets\n")
    if top >= 4:
        environ["REACTOR_INSTALLATION"] = "by-environment"
    if top >= 5:
        flags["installation"] = "by-flag"
    loaded = project.file(text).load(environ, None, **flags)
    values = ["local", "by-file", "by-profile", "by-secrets", "by-environment", "by-flag"]
    origins = ["default", "reactor.toml:2", "reactor.toml:4 (profile dev)", f"{project.secrets}/installation",
               "environment REACTOR_INSTALLATION", "flag installation"]
    assert loaded.settings.installation == values[top]
    assert loaded.origins["installation"] == origins[top]
    assert loaded.is_set("installation") == (top > 0)
    assert loaded.origins["workspace"] == "reactor.toml:1"


def test_layers_meet_in_one_section(project: Project) -> None:
    project.file('[kafka.prod]\nbootstrap_servers = "a:1"\ngroup_id = "g"\n').secret("kafka__prod__sasl_password", "s3cret\n")
    loaded = project.load({"REACTOR_KAFKA__PROD__SASL_USERNAME": "u"}, kafka__prod__security_protocol="SASL_SSL")
    prod = loaded.settings.kafka["prod"]
    assert (prod.bootstrap_servers, prod.group_id, prod.sasl_username, prod.security_protocol) == ("a:1", "g", "u", "SASL_SSL")
    assert prod.sasl_password is not None
    assert prod.sasl_password.reveal() == "s3cret"


def test_every_value_in_force_has_an_origin(project: Project) -> None:
    loaded = project.file('[lakes.sales]\n[lakes]\ndefault = "sales"\n[variables]\nregion = "eu"\n[http.oidc]\nissuer_url = "https://i"\naudience = "a"\n').load()
    shown = {line.name: (line.value, line.origin) for line in loaded.shown()}
    assert set(shown) == set(loaded.origins)
    assert shown["lakes.default"] == ("sales", "reactor.toml:3")
    assert shown["lakes.sales.data_path"] == (f"{project.folder}/.reactor/lake/sales", "default")
    assert shown["variables.region"] == ("eu", "reactor.toml:5")
    assert shown["http.oidc.audience"] == ("a", "reactor.toml:8")
    assert shown["http.port"] == (8080, "default")


def test_is_set_knows_what_the_user_chose_even_if_it_is_the_default(project: Project) -> None:
    loaded = project.load({"REACTOR_HTTP__PORT": "8080"})
    assert (loaded.is_set("http.port"), loaded.is_set("http.health_port")) == (True, False)


# -- profiles


def test_a_profile_is_laid_over_the_base(project: Project) -> None:
    project.file("""
[kafka.k]
bootstrap_servers = "prod:9092"
group_id = "g"
[profiles.dev.kafka.k]
bootstrap_servers = "embedded"
[profiles.dev.log]
level = "debug"
""")
    base, dev = project.load().settings, project.load(profile="dev").settings
    assert (base.kafka["k"].bootstrap_servers, base.log.level) == ("prod:9092", "info")
    assert (dev.kafka["k"].bootstrap_servers, dev.kafka["k"].group_id, dev.log.level) == ("embedded", "g", "debug")


def test_the_flag_wins_over_the_variable_in_the_choice_of_a_profile(project: Project) -> None:
    project.file('[profiles.a]\nworkspace = "wa"\n[profiles.b]\nworkspace = "wb"\n')
    assert project.load({"REACTOR_PROFILE": "a"}, "b").settings.workspace == "wb"
    assert project.load({"REACTOR_PROFILE": ""}).settings.workspace == "prod"


def test_an_unknown_profile_is_refused(project: Project) -> None:
    project.file("[profiles.dev]\n[profiles.test]\n")
    assert project.problems(profile="dve") == ["reactor.toml: profiles.dve: no such profile; there is `dev`, `test`; did you mean `dev`?"]
    assert project.file("").problems(profile="x") == ["reactor.toml: profiles.x: no such profile; there is none"]


def test_a_profile_that_is_not_chosen_is_checked_for_names_and_secrets_but_fetches_none(project: Project) -> None:
    project.file('[profiles.dev]\nworkspce = "x"\n[profiles.dev.kafka.k]\nsasl_password = "hunter2"\n')
    assert project.problems() == [
        "reactor.toml:2:1: profiles.dev.workspce: no such setting; did you mean `workspace`?",
        "reactor.toml:4:1: profiles.dev.kafka.k.sasl_password: a secret must not stand in the file: name it by `env:NAME` or `file:/path`",
    ]
    project.file('[profiles.dev.state]\nurl = "env:REACTOR_DEV_DATABASE"\n')
    assert project.load({"REACTOR_DEV_DATABASE": "is known"}).settings.state.embedded


# -- names of variables


def test_names_of_the_user_are_found_whatever_their_spelling(project: Project) -> None:
    project.file("[kafka.My-Cluster]\n[lakes.main]\n")
    settings = project.load({"REACTOR_KAFKA__MY_CLUSTER__GROUP_ID": "g", "REACTOR_LAKES__MAIN__DATA_PATH": "/data", "REACTOR_KAFKA__NEW__GROUP_ID": "n"}).settings
    assert {name: cluster.group_id for name, cluster in settings.kafka.items()} == {"My-Cluster": "g", "new": "n"}
    assert settings.lakes.named["main"].data_path == "/data"


@pytest.mark.parametrize("name", [
    "REACTOR_PORT", "REACTOR_PORT_8080_TCP_ADDR", "REACTOR_SERVICE_HOST", "REACTOR_SERVICE_PORT_HTTP", "REACTOR_CI", "REACTOR_TEST_POSTGRES_URL",
    "REACTOR_PARTS_CACHE", "REACTORX", "XREACTOR_STATE__URL", "reactor_state__url",
])
def test_variables_that_are_not_ours(project: Project, name: str) -> None:
    assert project.load({name: "tcp://10.0.0.1:80"}).settings == project.load().settings


@pytest.mark.parametrize(("name", "instead"), [
    ("REACTOR_LAKE__MAIN__DATA_PATH", "did you mean `REACTOR_LAKES__MAIN__DATA_PATH`?"),
    ("REACTOR_LAKES__MAIN__DATA_PTH", "did you mean `REACTOR_LAKES__MAIN__DATA_PATH`?"),
    ("REACTOR_LAKES_MAIN_DATA_PATH", "did you mean `REACTOR_LAKES__MAIN__DATA_PATH`?"),
    ("REACTOR_HTTP_PORT", "did you mean `REACTOR_HTTP__PORT`?"),
    ("REACTOR_STATE__ULR", "did you mean `REACTOR_STATE__URL`?"),
    ("REACTOR_DRAIN_SECONDS", "did you mean `REACTOR_RUN__DRAIN_SECONDS`?"),
    ("REACTOR_http__port", "did you mean `REACTOR_HTTP__PORT`?"),
    ("REACTOR_HTTP", "this is a section: a variable sets one of its fields; did you mean `REACTOR_HTTP__HOST`?"),
    ("REACTOR_KAFKA__X", "did you mean `REACTOR_KAFKA__X__BOOTSTRAP_SERVERS`?"),
    ("REACTOR_API_SERVICE_HOST", "`enableServiceLinks: false` in the pod keeps it away"),
    ("REACTOR_SOMETHING", "no such setting"),
    ("REACTOR_", "no such setting"),
    ("REACTOR_HTTP__PORT__X", "no such setting"),
    ("REACTOR_PROFILES__DEV__WORKSPACE", "no such setting"),
])
def test_an_unknown_variable_is_refused(project: Project, name: str, instead: str) -> None:
    (said,) = project.problems({name: "planted"})
    assert said.startswith(f"environment {name}: ")
    assert said.endswith(instead)
    assert "planted" not in said


def test_an_unknown_file_among_the_secrets_is_refused(project: Project) -> None:
    project.secret("state__ulr", "x").secret("..data", "Kubernetes' own")
    assert project.problems() == [f"{project.secrets}/state__ulr: no such setting; did you mean `REACTOR_STATE__URL`?"]


def test_secrets_in_files_are_called_like_variables_in_any_case(project: Project) -> None:
    project.secret("REACTOR_INSTALLATION", "a").secret("WORKSPACE", "b").secret("http__port", "7\n")
    settings = project.load().settings
    assert (settings.installation, settings.workspace, settings.http.port) == ("a", "b", 7)
    assert project.secret("workspace", "c").problems() == [f"{project.secrets}/workspace: another file here names the same setting"]


def test_unknown_flags_are_refused(project: Project) -> None:
    assert project.problems(http__prt=1, nothing=2, http=3, workspace="w") == [
        "flag http.prt: no such setting; did you mean `http.port`?", "flag nothing: no such setting", "flag http: this is a section: set one of its fields",
    ]


def test_lists_in_variables(project: Project) -> None:
    project.file('[kafka.k]\n[publishers.p]\nkind = "kafka"\n')
    for text in ("ducklake://main/a, ducklake://Main/main.b", '["ducklake://main/a", "ducklake://main/b"]'):
        assert project.load({"REACTOR_PUBLISHERS__P__ASSETS": text}).settings.publishers["p"].assets == ("ducklake://main/a", "ducklake://main/b")
    assert "publishers.p.assets" in project.problems({"REACTOR_PUBLISHERS__P__ASSETS": "[1"})[0]


# -- the tree


def test_the_tree_is_frozen(project: Project) -> None:
    settings: Any = project.file("[kafka.k]\n").load().settings
    with pytest.raises(ValidationError):
        settings.workspace = "x"
    with pytest.raises(ValidationError):
        settings.http.port = 1
    with pytest.raises(TypeError):
        settings.kafka["other"] = settings.kafka["k"]
    with pytest.raises(TypeError):
        settings.lakes.named["other"] = settings.lakes.named["main"]


def test_paths_start_at_the_project(project: Project) -> None:
    project.file("""
[lakes.main]
data_path = "lake"
[kafka.k]
bootstrap_servers = "h:1"
ca_path = "certificates/ca.pem"
[resources]
temp_path = "/spill"
[runners.python]
interpreter = "venv/bin/python"
[runners.ts]
interpreter = "node"
""")
    s = project.load().settings
    assert s.lakes.named["main"].data_path == str(project.folder / "lake")
    assert s.kafka["k"].ca_path == project.folder / "certificates/ca.pem"
    assert s.resources.temp_path == Path("/spill")
    assert {name: runner.interpreter for name, runner in s.runners.items()} == {"python": f"{project.folder}/venv/bin/python", "ts": "node"}


def test_settings_hold_without_any_file_or_folder() -> None:
    assert Settings().lakes.named["main"].data_path == ".reactor/lake/main"


def test_the_group_of_a_cluster(project: Project) -> None:
    settings = project.file('workspace = "w"\n[kafka.a]\n[kafka.b]\ngroup_id = "mine"\n').load().settings
    assert (settings.group_id("a"), settings.group_id("b")) == ("reactor-local-w", "mine")


@pytest.mark.parametrize(("given", "read"), [
    ('"latest"', "latest"), ('"2026-03-01T01:00:00+01:00"', "2026-03-01T00:00:00.000Z"), ("2026-03-01T00:00:00Z", "2026-03-01T00:00:00.000Z"),
])
def test_where_a_stream_starts(project: Project, given: str, read: str) -> None:
    assert project.file(f"[kafka.k]\nauto_offset_reset = {given}\n").load().settings.kafka["k"].auto_offset_reset == read


def test_what_is_not_active_yet_is_told_where_it_is_used(project: Project) -> None:
    project.file('[stores.a]\nbucket = "abc"\n[kafka.k]\nregistry_url = "http://h"\n[profiles.p.notify.x]\nurl = "https://h"\n')
    assert project.load({"REACTOR_OPENLINEAGE__QUEUE_EVENTS_MAX": "5"}).warnings == (
        "[stores] is known, not active yet (reactor.toml:1)",
        "[kafka.k] registry_url is known, not active yet (reactor.toml:4)",
        "[openlineage] is known, not active yet (environment REACTOR_OPENLINEAGE__QUEUE_EVENTS_MAX)",
    )


def test_what_is_shown_can_be_written_back(project: Project) -> None:
    """The names of `config show` are the paths of the file."""
    text = '[lakes.b]\n[lakes]\ndefault = "b"\n[run]\ndrain_seconds = 5\n'
    shown = {line.name: line.value for line in project.file(text).load().shown() if line.origin != "default"}
    assert shown == {"lakes.default": "b", "run.drain_seconds": 5.0}
    assert tomllib.loads(text)["run"]["drain_seconds"] == shown["run.drain_seconds"]
