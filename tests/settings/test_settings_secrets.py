"""A secret is named where it must not stand, fetched at load, and printed by nobody."""

from __future__ import annotations

import copy
import io
import json
import traceback
from pathlib import Path

import pytest
from rich.console import Console

from reactor.settings import Loaded, Secret, Settings, SettingsError, Url
from tests.settings.projects import Project

PLANTED = "hunter2"
SECRETS = """
[state]
url = "env:DATABASE_URL"
[kafka.k]
bootstrap_servers = "h:1"
security_protocol = "SASL_SSL"
sasl_username = "u"
sasl_password = "file:password"
registry_url = "env:REGISTRY"
[publishers.p]
kind = "webhook"
url = "env:HOOK"
secret = "env:REACTOR_HOOK_SECRET"
[notify.n]
url = "env:HOOK"
"""
ENVIRON = {
    "DATABASE_URL": f"postgresql://u:{PLANTED}@h:5/d?sslpassword={PLANTED}", "REGISTRY": f"https://{PLANTED}@r/x", "HOOK": f"https://h/services/{PLANTED}",
    "REACTOR_HOOK_SECRET": PLANTED, "REACTOR_OPENLINEAGE__URL": f"https://u:{PLANTED}@h/{PLANTED}?api_key={PLANTED}",
}


@pytest.fixture
def loaded(project: Project) -> Loaded:
    (project.folder / "password").write_text(f"{PLANTED}\r\n")
    return project.file(SECRETS).secret("alerting__alertmanager_url", f"http://{PLANTED}:{PLANTED}@h/{PLANTED}").load(ENVIRON)


def test_secrets_are_fetched(loaded: Loaded) -> None:
    settings = loaded.settings
    password, secret = settings.kafka["k"].sasl_password, settings.publishers["p"].secret
    assert password is not None
    assert secret is not None
    assert (settings.state.url.reveal(), password.reveal(), secret.reveal()) == (ENVIRON["DATABASE_URL"], PLANTED, PLANTED)
    assert settings.notify["n"].url.reveal() == ENVIRON["HOOK"]


def test_origins_name_what_a_secret_was_fetched_by(loaded: Loaded) -> None:
    assert loaded.origins["state.url"] == "reactor.toml:3, env:DATABASE_URL"
    assert loaded.origins["kafka.k.sasl_password"] == "reactor.toml:8, file:password"


def test_secrets_are_printed_nowhere(loaded: Loaded) -> None:
    settings, text = loaded.settings, io.StringIO()
    Console(file=text, width=1000).print(settings, loaded, settings.kafka["k"].sasl_password, [settings.state.url], {"a": settings.publishers})
    printed = [
        repr(settings), str(settings), f"{settings.kafka['k'].sasl_password} {settings.state.url!r} {settings.state.url:}", str(settings.notify["n"].url),
        settings.model_dump_json(), json.dumps(settings.model_dump(mode="json")), repr(settings.model_dump()), repr(loaded), repr(loaded.shown()),
        repr(dict(settings)), repr(copy.deepcopy(settings.kafka["k"])), text.getvalue(),
    ]
    for one in printed:
        assert PLANTED not in one
    assert settings.model_dump()["kafka"]["k"]["sasl_password"].reveal() == PLANTED


def test_what_is_shown_instead(loaded: Loaded) -> None:
    shown = {line.name: line.value for line in loaded.shown()}
    assert shown["kafka.k.sasl_password"] == shown["publishers.p.secret"] == "***"
    assert shown["state.url"] == "postgresql://h:5/***"
    assert shown["kafka.k.registry_url"] == "https://r/***"
    assert shown["notify.n.url"] == "https://h/***"
    assert shown["openlineage.url"] == "https://h/***"
    assert shown["alerting.alertmanager_url"] == "http://h/***"


LITERALS = [
    f'[kafka.k]\nsasl_password = "{PLANTED}"',
    f'[kafka.k]\nsasl_password = "file:///run/{PLANTED}"',
    f'[publishers.p]\nkind = "webhook"\nurl = "https://h"\nsecret = "{PLANTED}"',
    f'[state]\nurl = "postgresql://u:{PLANTED}@h/d"',
    f'[state]\nurl = "postgresql://u:p@{PLANTED}@h/d"',
    f'[state]\nurl = "postgresql://u:p/{PLANTED}?@h/d"',
    f'[state]\nurl = "postgresql://h/d?user=u&password={PLANTED}"',
    f'[state]\nurl = "postgresql://h/d?sslpassword={PLANTED}"',
    f'[openlineage]\nurl = "https://{PLANTED}@h/"',
    f'[openlineage]\nurl = "https://h/?api_key={PLANTED}"',
    f'[notify.n]\nurl = "https://h/?token={PLANTED}"',
    f'[profiles.dev.kafka.k]\nsasl_password = "{PLANTED}"',
]


@pytest.mark.parametrize("text", LITERALS)
def test_a_literal_secret_in_the_file_is_refused_and_not_repeated(project: Project, text: str) -> None:
    said = "\n".join(project.file(text).problems())
    assert "must not stand in the file: name it by `env:NAME` or `file:/path`" in said
    assert PLANTED not in said


WRONG = [
    (f'[kafka.k]\nsasl_pasword = "{PLANTED}"', {}), (f'sasl_password = "{PLANTED}"', {}), (f'[state]\nurl = "mysql://h/{PLANTED}"', {}),
    (f'[state]\nurl = "{PLANTED}"', {}), ("", {"REACTOR_STATE__URL": f"mysql://u:{PLANTED}@h"}), ("", {"REACTOR_STATE__ULR": PLANTED}),
    ("", {"REACTOR_STATE__URL": f"{PLANTED}:{PLANTED}"}), (f'[kafka.k]\nbootstrap_servers = "SASL://u:{PLANTED}@h:1"', {}),
    (f'[kafka.k]\nsasl_password = ["{PLANTED}"]', {}), (f'[state]\nurl = {{ x = "{PLANTED}" }}', {}),
    ('[state]\nurl = "env:U"', {"U": f"postgresql://[{PLANTED}"}), ('[kafka.k]\nregistry_url = "env:U"', {"U": f"http://u:{PLANTED}@h:port"}),
    (f'[state]\nurl = "{PLANTED}', {}), ('[http]\nport = "env:P"', {"P": PLANTED}),
]


@pytest.mark.parametrize(("text", "environ"), WRONG)
def test_errors_repeat_no_secret_and_carry_no_other_error(project: Project, text: str, environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as raised:
        project.file(text).load(environ)
    error = raised.value
    assert PLANTED not in "".join(traceback.format_exception(error)) + repr(error) + repr(error.problems)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_secrets_come_by_name_from_the_command_line_too(project: Project) -> None:
    named = project.load({"P": "x"}, kafka__k__sasl_password="env:P").settings.kafka["k"].sasl_password
    assert named == Secret("x")
    assert project.problems(kafka__k__sasl_password=PLANTED) == [
        "flag kafka.k.sasl_password: kafka.k.sasl_password: a secret must not stand on the command line: name it by `env:NAME` or `file:/path`"]


def test_the_environment_holds_secrets_or_names_them(project: Project) -> None:
    for environ in ({"REACTOR_KAFKA__K__SASL_PASSWORD": "x"}, {"REACTOR_KAFKA__K__SASL_PASSWORD": "env:REACTOR_OTHER", "REACTOR_OTHER": "x"}):
        assert project.load(environ).settings.kafka["k"].sasl_password == Secret("x")


def test_a_file_among_the_secrets_is_the_secret_whatever_it_says(project: Project) -> None:
    assert project.secret("kafka__k__sasl_password", "env:HOME\n").load().settings.kafka["k"].sasl_password == Secret("env:HOME")


def test_an_address_without_a_secret_may_stand_in_the_file(project: Project) -> None:
    loaded = project.file('[state]\nurl = "postgresql://reactor@h:5432/d?sslmode=require&sslkey=/k"\n[kafka.k]\nregistry_url = "http://h/a?page=1"\n').load()
    shown = {line.name: line.value for line in loaded.shown()}
    assert (shown["state.url"], shown["kafka.k.registry_url"]) == ("postgresql://h:5432/d", "http://h/a")


@pytest.mark.parametrize(("reference", "said"), [
    ("env:ABSENT", "`env:ABSENT`: the environment has no such variable, or it is empty"),
    ("env:EMPTY", "`env:EMPTY`: the environment has no such variable, or it is empty"),
    ("file:absent", "`file:absent`: it cannot be read: No such file or directory"),
    ("file:.", "`file:.`: it cannot be read: Is a directory"),
    ("file:empty", "`file:empty`: it is empty"),
    ("file:binary", "`file:binary`: it cannot be read as text"),
    ("file:large", "`file:large`: it is larger than 65536 bytes"),
    ("file:a\\u0000b", "`file:a\\x00b`: it cannot be read as text"),
])
def test_a_secret_that_cannot_be_had(project: Project, reference: str, said: str) -> None:
    for name, content in {"empty": b"\n", "binary": b"\xff", "large": 65_537 * b"x"}.items():
        (project.folder / name).write_bytes(content)
    project.file(f'[kafka.k]\nsasl_password = "{reference}"\n')
    assert project.problems({"EMPTY": ""}) == [f"reactor.toml:2:1: kafka.k.sasl_password: {said}"]


def test_what_is_no_secret_is_not_named_as_one(project: Project) -> None:
    """Else the name would be taken for the value, in silence."""
    project.file('[kafka.k]\nsasl_username = "env:USER"\n[lakes.main]\ndata_path = "file:/x"\n[variables]\na = "file:///data"\n')
    said = "only secrets and addresses are named by `env:` or `file:`: write the value itself, or set"
    assert project.problems() == [
        f"reactor.toml:2:1: kafka.k.sasl_username: {said} REACTOR_KAFKA__K__SASL_USERNAME",
        f"reactor.toml:4:1: lakes.main.data_path: {said} REACTOR_LAKES__MAIN__DATA_PATH",
    ]


@pytest.mark.parametrize(("text", "shown"), [
    ("postgresql://u:p@h:1,i:2/d?x=1#f", "postgresql://h:1,i:2/d"), ("http://h", "http://h"), ("embedded", "embedded"), ("u:p@h", "***"),
    ("postgresql://u:p/w@h/d", "postgresql://***"), ("https://h/?mail=a@b", "https://***"), ("postgresql://a:b@c@h/d", "postgresql://h/d"),
])
def test_how_an_address_is_shown(text: str, shown: str) -> None:
    assert str(Url(text)) == repr(Url(text)) == shown


def test_secrets_are_values() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("http://h") != Url("http://h")
    assert len({Secret("a"), Secret("a"), Url("a")}) == 2
    assert str(copy.deepcopy(Url("http://h/a", hidden=True))) == "http://h/***"


def test_a_tree_can_be_made_from_plain_texts() -> None:
    tree = Settings.model_validate({"state": {"url": f"postgresql://u:{PLANTED}@h/d"}, "kafka": {"k": {"sasl_password": PLANTED}}})
    assert PLANTED not in repr(tree)
    assert tree.kafka["k"].sasl_password == Secret(PLANTED)


def test_a_folder_of_secrets_that_is_none(project: Project, tmp_path: Path) -> None:
    project.secrets.write_text("")
    assert project.problems() == [f"{tmp_path}/secrets: it cannot be read: Not a directory"]
