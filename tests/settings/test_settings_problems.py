"""What is wrong is said with its place, what is allowed, and what was meant; all of it at once."""

import pytest

from tests.settings.projects import Project


def test_every_problem_is_told_at_once_with_its_place(project: Project) -> None:
    project.file("""installation = "x y"
quiet_seconds = 3
[lakes.main]
  data_pth = "a"
[http]
port = 0
[publishers]
a = { kind = "kafak", types = ["reactor.asset.updated.v1", "other"] }
[stores.s]
[kafka.k]
security_protocol = "SASL_SSL"
bootstrap_servers = "h:1"
[resources]
threads = true
""").secret("run__drain_seconds", "soon")
    assert project.problems({"REACTOR_LOG__LEVEL": "wrning", "REACTOR_NO": ""}, log__format=3) == [
        "reactor.toml:2:1: quiet_seconds: no such setting; did you mean `debounce.quiet_seconds`?",
        "reactor.toml:4:3: lakes.main.data_pth: no such setting; did you mean `data_path`?",
        "reactor.toml:14:1: resources.threads: `true` is not allowed: a whole number from 1 to 1024",
        "environment REACTOR_NO: no such setting",
        "reactor.toml:1:1: installation: `x y` is not allowed: letters, digits and single `_` or `-` between them, at most 50",
        "reactor.toml:10:8: kafka.k.sasl_username: it is missing: SASL_SSL needs it",
        "reactor.toml:10:8: kafka.k.sasl_password: it is missing: SASL_SSL needs it",
        "reactor.toml:9:9: stores.s.bucket: it is missing, and there is no default",
        f"{project.secrets}/run__drain_seconds: run.drain_seconds: `soon` is not allowed: a number from 0 to 3600",
        "reactor.toml:6:1: http.port: `0` is not allowed: a whole number from 1 to 65535",
        "reactor.toml:8:7: publishers.a.kind: `kafak` is not allowed: one of `kafka`, `webhook`; did you mean `kafka`?",
        "reactor.toml:8:23: publishers.a.types: `other` is not allowed: `reactor.asset.updated.v1`",
        "flag log.format: log.format: `3` is not allowed: one of `auto`, `json`, `text`",
        "environment REACTOR_LOG__LEVEL: log.level: `wrning` is not allowed: one of `debug`, `info`, `warning`, `error`; did you mean `warning`?",
    ]


@pytest.mark.parametrize(("text", "said"), [
    ('a = "', "reactor.toml:1:6: it is no TOML: "),
    ("[http]\nport = \n", "reactor.toml:2:8: it is no TOML: "),
    ("[http]\n[http]\n", "reactor.toml:2:6: it is no TOML: "),
    ("port = 1\nport = 2", "reactor.toml:2:9: it is no TOML: "),
    ("a = " + 3000 * "[", "reactor.toml"),
    ("a = " + 5000 * "9", "reactor.toml"),
])
def test_what_is_no_toml(project: Project, text: str, said: str) -> None:
    (problem,) = project.file(text).problems()
    assert problem.startswith(said)


def test_files_that_cannot_be_read(project: Project) -> None:
    file = project.folder / "reactor.toml"
    file.write_bytes(b"[http]\n  port = '\xff'\n")
    assert project.problems() == ["reactor.toml:2:11: it is not UTF-8 here"]
    file.write_bytes(b"#" * 1_048_577)
    assert project.problems() == ["reactor.toml: it is larger than 1048576 bytes"]
    file.unlink()
    file.mkdir()
    assert project.problems() == ["reactor.toml: it cannot be read: Is a directory"]


def test_a_broken_file_does_not_hide_the_rest(project: Project) -> None:
    broken, other = project.file("a =").problems({"REACTOR_NO": ""}, profile="dev")
    assert broken.startswith("reactor.toml:1:4: it is no TOML: ")
    assert other == "environment REACTOR_NO: no such setting"


def test_windows_files_are_read(project: Project) -> None:
    (project.folder / "reactor.toml").write_bytes(b'\xef\xbb\xbf[http]\r\nport = 7\r\nprt = 7\r\n')
    assert project.problems() == ["reactor.toml:3:1: http.prt: no such setting; did you mean `port`?"]


@pytest.mark.parametrize(("text", "said"), [
    ("kafka = 5", "1:1: kafka: a section is needed: `[kafka.<name>]`"),
    ("[kafka]\nprod = 5", "2:1: kafka.prod: a section is needed: `[kafka.prod]`"),
    ("http = []", "1:1: http: a section is needed: `[http]`"),
    ("profiles = 5", "1:1: profiles: a section is needed: `[profiles.<name>]`"),
    ("[profiles]\ndev = 1", "2:1: profiles.dev: a section is needed: `[profiles.dev]`"),
    ("[http.port]\nx = 1", "1:7: http.port: this value is not allowed: a whole number from 1 to 65535"),
    ("[variables]\na = {}", "2:1: variables.a: this value is not allowed: `true` or `false` or a whole number or a number or a text"),
    ("[htp]", "1:2: htp: no such setting; did you mean `http`?"),
    ("[profile.dev]", "1:2: profile: no such setting; did you mean `profiles`?"),
    ("[profiles.dev.profiles]", "1:15: profiles.dev.profiles: no such setting"),
    ("[http]\nlisten = 1", "2:1: http.listen: no such setting; there is `host`, `port`, `health_port`, `tokens`, `oidc`"),
    ("[http]\ndrain_seconds = 1", "2:1: http.drain_seconds: no such setting; did you mean `run.drain_seconds`?"),
    ("[lakes.Main]", "1:8: lakes.Main: a lake's name is lower-case letters"),
    ("[lakes.a__b]", "1:8: lakes.a__b: a lake's name is lower-case letters"),
    ("[lakes.temp]", "1:8: lakes.temp: no lake can be called `temp`: DuckDB keeps that name for itself"),
    ("[lakes.system]", "1:8: lakes.system: no lake can be called"),
    ("[lakes.memory]", "1:8: lakes.memory: no lake can be called"),
    ("[lakes.sales]", "1:2: lakes.default: no lake `main` is configured; there is `sales`"),
    ("[lakes]\ndefault = 'x'", "2:1: lakes.default: no lake `x` is configured; there is `main`"),
    ("[kafka.'a b']", "1:8: kafka.a b: `a b` is not allowed: letters, digits"),
    ("[variables]\n'a-b' = 1", "2:1: variables.a-b: `a-b` is not allowed: letters, digits and `_`"),
    ("[runners.py]\ninterpreter = 'p'", "1:10: runners.py: the runner of such programs is called `python`"),
    ("[http]\nport = 8081", "health_port: `port` is 8081 too"),
    ("[http]\nhost = '0.0.0.0'", "2:1: http.host: 0.0.0.0 opens the API to other machines: set `tokens` or `oidc`"),
    ("[debounce]\nquiet_seconds = 60", "debounce.wait_max_seconds: 30 is less than `quiet_seconds`, 60"),
    ("[kafka.k]\nsecurity_protocol = 'SSL'", "2:1: kafka.k.security_protocol: the embedded broker speaks PLAINTEXT"),
    ("[kafka.k]\nkey_path = 'k'", "2:1: kafka.k.key_path: it is the key of a certificate: set `certificate_path`"),
    ("[publishers.p]\nkind = 'webhook'", "publishers.p.secret: it is missing: a webhook needs it"),
    ("[publishers.p]\nkind = 'webhook'\ntopic = 't'\nurl = 'https://h'\nsecret = 'file:/dev/null'", "publishers.p.topic: a publisher of kind `webhook` has none"),
    ("[publishers.p]\nkind = 'kafka'\nurl = 'https://h'", "3:1: publishers.p.url: a publisher of kind `kafka` has none"),
    ("[publishers.p]\nkind = 'kafka'", "publishers.p.cluster: it is missing, and not exactly one cluster is configured; there is none"),
    ("[kafka.a]\n[publishers.p]\nkind = 'kafka'\ncluster = 'b'", "4:1: publishers.p.cluster: no cluster `b` is configured; there is `a`"),
    ("[kafka.k]\n[publishers.p]\nkind = 'kafka'\nassets = ['ducklake://main']", "publishers.p.assets: `ducklake://main` is not allowed: the table is missing"),
])
def test_what_is_said(project: Project, text: str, said: str) -> None:
    assert said in "\n".join(project.file(text).problems())


def test_only_the_cause_is_told(project: Project) -> None:
    """A secret that was refused is not missing too."""
    project.file("[kafka.k]\nbootstrap_servers = 'h:1'\nsecurity_protocol = 'SASL_SSL'\nsasl_username = 'u'\nsasl_password = 'hunter2'\n")
    assert len(project.problems()) == 1
    text = "[profiles.p.kafka.k]\nsasl_password = 'hunter2'\n[kafka.k]\nbootstrap_servers = 'h:1'\nsecurity_protocol = 'SASL_SSL'\nsasl_username = 'u'\n"
    project.file(text)
    assert len(project.problems(profile="p")) == 1
    assert project.problems()[1:] == ["reactor.toml:3:8: kafka.k.sasl_password: it is missing: SASL_SSL needs it"]
    project.file("[notify.n]\nurl = 'env:ABSENT'\n")
    assert project.problems() == ["reactor.toml:2:1: notify.n.url: `env:ABSENT`: the environment has no such variable, or it is empty"]


BOUNDS: list[tuple[str, list[object], list[object]]] = [
    ("debounce.quiet_seconds", [0, 29.5], [-0.1, 86_401, "nan", "inf"]),
    ("debounce.wait_max_seconds", [2, 604_800], [-1, 604_801]),
    ("debounce.rows_max", [1, 100_000_000], [0, 100_000_001, 1.5]),
    ("debounce.bytes_max", [1024, 2**40], [1023, 2**40 + 1]),
    ("debounce.open_bytes_max", [1024, 2**40], [1023, 2**40 + 1]),
    ("run.timeout_seconds", [0.001, 604_800], [0, 604_801]),
    ("run.drain_seconds", [0, 3600], [-1, 3601]),
    ("run.skip_unchanged", ["true", "false"], [2, '"perhaps"']),
    ("http.port", [1, 65_535], [0, 65_536, -1, '"x"', 2**70]),
    ("http.health_port", [1, 65_535], [0, 65_536]),
    ("stores.x.reconcile_interval_seconds", [60, 604_800], [59, 604_801]),
    ("openlineage.queue_events_max", [1, 1_000_000], [0, 1_000_001]),
    ("resources.memory_limit_bytes", [67_108_864, 2**50], [67_108_863, 2**50 + 1]),
    ("resources.threads", [1, 1024], [0, 1025]),
    ("log.level", ['"debug"', '"error"'], ['"DEBUG"', 1]),
    ("log.format", ['"json"', '"text"', '"auto"'], ['"xml"']),
    ("installation", ['"a"', f'"{50 * "a"}"', '"A-b_c"'], ['""', f'"{51 * "a"}"', '"a__b"', '"-a"', '"a/b"', '"ä"', 1]),
    ("replica_id", ['"r-0"'], ['"r 0"']),
    ("state.url", ['"postgresql://u@h:5/d"', '"postgres:///d?host=/run"', '"embedded"'],
     ['"mysql://h/d"', '"sqlite.db"', '"postgresql://[h/d"', '""', '"Embedded"', 5]),
    ("lakes.main.data_path", ['"x"', '"/x"', '"s3://bucket/prefix/"'],
     ['""', '"~/x"', '"gs://b/x"', '"s3://k:s@b/x"', '"s3://"', '"."', '".."', '".reactor"', '"/"', '"a\\u0000b"', 5]),
    ("kafka.x.bootstrap_servers", ['"h"', '"h:1, [::1]:2"', '"10.0.0.1:65535"'], ['""', '"h:"', '"h:0"', '"h:65536"', '"h,"', '"kafka://h:1"', '"u:p@h:1"']),
    ("kafka.x.auto_offset_reset", ['"latest"'], ['"newest"', '"2026-01-01"', '"2026-01-01T00:00:00"', "2026-01-01", 5, '"0001-01-01T00:00:00+14:00"']),
    ("kafka.x.registry_url", ['"http://h:8081/a"'], ['"h:8081"', '"ftp://h"', '"http://"', '"http://h:x"']),
    ("stores.x.bucket", ['"abc"', f'"{63 * "a"}"'], ['"ab"', f'"{64 * "a"}"', '"A_b"']),
    ("variables.x", [1, 1.5, "true", '"x"'], ["[]", "2026-01-01", "nan"]),
]


def _with(name: str, value: object) -> str:
    *section, field = name.split(".")
    needed = 'bucket = "abc"\n' if "stores" in section and field != "bucket" else ""
    return f"[{'.'.join(section)}]\n{needed}{field} = {value}\n" if section else f"{field} = {value}\n"


@pytest.mark.parametrize(("name", "inside", "outside"), BOUNDS, ids=[name for name, *_ in BOUNDS])
def test_bounds(project: Project, name: str, inside: list[object], outside: list[object]) -> None:
    for value in inside:
        assert project.file(_with(name, value)).load().is_set(name), value
    for value in outside:
        (said,) = project.file(_with(name, value)).problems()
        assert f": {name}: " in said, value


@pytest.mark.parametrize(("one", "other", "fits"), [
    ("a", "a", False), ("a", "a/b", False), ("a/b/../c", "a/c", False), ("a", "ab", True), ("/x/a", "/x/b", True),
    ("s3://bucket/a", "s3://bucket/a/b/", False), ("s3://bucket", "s3://bucket/a", False), ("s3://bucket/a", "s3://bucket/ab", True),
    ("s3://bucket/a", "/bucket/a", True),
])
def test_no_lake_lies_in_another(project: Project, one: str, other: str, *, fits: bool) -> None:
    project.file(f'[lakes.main]\ndata_path = "{one}"\n[lakes.sales]\ndata_path = "{other}"\n')
    if fits:
        project.load()
    else:
        assert "cleaning one lake would delete files of the other" in project.problems()[0]


def test_a_link_does_not_hide_that_a_lake_lies_in_another(project: Project) -> None:
    (project.folder / "real").mkdir()
    (project.folder / "link").symlink_to("real")
    project.file('[lakes.main]\ndata_path = "real"\n[lakes.sales]\ndata_path = "link/sales"\n')
    assert len(project.problems()) == 1
