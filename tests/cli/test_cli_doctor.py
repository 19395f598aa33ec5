"""`reactor doctor`: all is well, and each broken one named with its cause and the next step (CLI-8)."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from reactor.cli import doctor
from reactor.lake import storage
from reactor.lake.extensions import EXTENSIONS
from reactor.state import seen
from tests.cli.conftest import NUMBERS, READS_BATCH, Reactor, Said
from tests.parts.postgres import execute

Online = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def folder(reactor: Reactor, online: Online, database: str, embedded_broker: str) -> Path:
    """A project in which everything is well: it has run."""
    folder = online({"numbers.sql": NUMBERS, "orders.sql": READS_BATCH})
    write_settings(folder, database, embedded_broker)
    assert reactor("run", "numbers.sql", "--project", folder).exit_code == 0
    return folder


def write_settings(folder: Path, url: str, bootstrap_servers: str, *more: str) -> None:
    (folder / "reactor.toml").write_text(
        "\n".join(["[state]", f'url = "{url}"', "[kafka.main]", f'bootstrap_servers = "{bootstrap_servers}"', *more, ""]))


def looked(reactor: Reactor, folder: Path) -> tuple[Said, Mapping[str, Mapping[str, str]]]:
    said = reactor("doctor", "--project", folder, "--json")
    assert said.answer["schema"] == "reactor.cli.doctor.v1"
    return said, {check["name"].partition(" /")[0]: check for check in said.data["checks"]}


def broken(reactor: Reactor, folder: Path) -> Mapping[str, Mapping[str, str]]:
    """What is not well; each has a cause and a next step."""
    said, checks = looked(reactor, folder)
    found = {name: check for name, check in checks.items() if check["status"] not in {"ok", "skipped"}}
    assert all(check["message"] and check["hint"] for check in found.values())
    statuses = {check["status"] for check in found.values()}
    assert said.exit_code == (3 if "unreachable" in statuses else 1 if found else 0)
    return found


def test_all_is_well(reactor: Reactor, folder: Path) -> None:
    said, checks = looked(reactor, folder)
    assert {check["status"] for check in checks.values()} == {"ok"}, said.out
    assert list(checks) == [
        "extensions", "postgres", "migrations", "clock", "installation", "catalog main", "trigger main", "storage main", "kafka main", "disk"]
    assert said.exit_code == 0
    assert "orders" in checks["kafka main"]["message"]  # not there yet
    assert len(reactor("doctor", "--project", folder).out.splitlines()) == len(said.data["checks"])
    assert not list((folder / ".reactor" / "lake" / "main").glob(f"{storage.PROBE}*"))


def test_before_the_first_start_nothing_is_broken(reactor: Reactor, online: Online, database: str, embedded_broker: str) -> None:
    folder = online({"numbers.sql": NUMBERS})
    write_settings(folder, database, embedded_broker)
    _, checks = looked(reactor, folder)
    assert not broken(reactor, folder)
    assert all("first start" in checks[name]["message"] for name in ("migrations", "installation", "catalog main"))


@pytest.mark.parametrize(("statement", "name", "says"), [
    ("UPDATE lake_main.ducklake_metadata SET value = '0.4' WHERE key = 'version'", "catalog main", "maintain --migrate-catalog"),
    ("DROP TRIGGER reactor_commit ON lake_main.ducklake_snapshot_changes", "trigger main", "reactor serve"),
    ("ALTER TABLE lake_main.ducklake_snapshot_changes DISABLE TRIGGER reactor_commit", "trigger main", "reactor serve"),
    ("INSERT INTO reactor.migration (version, name) VALUES (999, 'from_the_future')", "migrations", "newer version of Reactor"),
    ("DELETE FROM reactor.migration WHERE version = (SELECT max(version) FROM reactor.migration)", "migrations", "reactor migrate"),
    ("UPDATE reactor.installation SET workspace = 'dev'", "installation", "set installation and workspace back"),
])
def test_what_is_wrong_in_the_database(reactor: Reactor, folder: Path, database: str, statement: str, name: str, says: str) -> None:
    execute(database, statement)
    found = broken(reactor, folder)
    assert list(found) == [name]
    assert says in found[name]["hint"]
    assert says in reactor("doctor", "--project", folder).out


def test_postgres_that_does_not_answer(reactor: Reactor, folder: Path, embedded_broker: str) -> None:
    write_settings(folder, "postgresql://reactor@127.0.0.1:1/nowhere", embedded_broker)
    said, checks = looked(reactor, folder)
    assert said.exit_code == 3
    assert checks["postgres"]["status"] == "unreachable"
    assert {checks[name]["status"] for name in ("migrations", "clock", "catalog main", "trigger main")} == {"skipped"}
    assert {checks[name]["status"] for name in ("extensions", "storage main", "kafka main", "disk")} == {"ok"}


def test_a_database_that_is_not_there(reactor: Reactor, folder: Path, database: str, embedded_broker: str) -> None:
    write_settings(folder, urlsplit(database)._replace(path="/nowhere").geturl(), embedded_broker)
    said, checks = looked(reactor, folder)
    assert (said.exit_code, checks["postgres"]["status"]) == (1, "failed")


def test_an_embedded_database_that_does_not_run(reactor: Reactor, tmp_path: Path) -> None:
    said, checks = looked(reactor, tmp_path)
    assert said.exit_code == 3
    assert "reactor dev" in checks["postgres"]["hint"]
    assert "the first start makes it" in checks["storage main"]["message"]
    assert list(tmp_path.iterdir()) == []


def test_kafka_that_does_not_answer(reactor: Reactor, folder: Path, database: str) -> None:
    write_settings(folder, database, "127.0.0.1:1")
    found = broken(reactor, folder)
    assert list(found) == ["kafka main"]
    assert "bootstrap_servers" in found["kafka main"]["hint"]


def test_a_folder_that_cannot_be_written(reactor: Reactor, folder: Path) -> None:
    lake = folder / ".reactor" / "lake" / "main"
    lake.rename(lake.with_name("away"))
    lake.touch()
    found = broken(reactor, folder)
    assert list(found) == ["storage main"]
    assert "[lakes.main] data_path" in found["storage main"]["hint"]


def test_a_folder_that_is_away(reactor: Reactor, folder: Path) -> None:
    lake = folder / ".reactor" / "lake" / "main"
    lake.rename(lake.with_name("away"))
    assert broken(reactor, folder)["storage main"]["status"] == "unreachable"
    assert not lake.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_folder_that_cannot_be_made(reactor: Reactor, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    _, checks = looked(reactor, tmp_path)
    assert (checks["storage main"]["status"], "[lakes.main] data_path" in checks["storage main"]["hint"]) == ("failed", True)


def test_a_folder_that_a_file_is_in_the_way_of(reactor: Reactor, folder: Path, database: str, embedded_broker: str) -> None:
    (folder / "taken").write_text("")
    (folder / "taken").chmod(0o700)
    write_settings(folder, database, embedded_broker, "[lakes.main]", "[lakes.cold]", 'data_path = "taken/lake"')
    found = broken(reactor, folder)
    assert list(found) == ["storage cold"]
    assert "cannot be made in" in found["storage cold"]["message"]


def test_a_store_that_does_not_answer(
    reactor: Reactor, folder: Path, database: str, embedded_broker: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "x", "DUCKDB_S3_ENDPOINT": "127.0.0.1:1",
                        "DUCKDB_S3_USE_SSL": "false"}.items():
        monkeypatch.setenv(name, value)
    write_settings(folder, database, embedded_broker, "[lakes.main]", "[lakes.cold]", 'data_path = "s3://bucket/cold"')
    found = broken(reactor, folder)
    assert list(found) == ["storage cold"]
    assert "put" in found["storage cold"]["message"]


def test_an_extension_that_is_missing(reactor: Reactor, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTENSIONS", (*EXTENSIONS, "nonesuch"))
    found = broken(reactor, folder)
    assert list(found) == ["extensions"]
    assert "pip install duckdb-extension-nonesuch" in found["extensions"]["hint"]


def test_a_runner_that_is_not_there(reactor: Reactor, folder: Path, database: str, embedded_broker: str) -> None:
    write_settings(folder, database, embedded_broker, "[runners.shell]", 'interpreter = "/bin/sh"', "[runners.python]", 'interpreter = "no/such/python"')
    found = broken(reactor, folder)
    assert list(found) == ["runner python"]
    assert "[runners.python]" in found["runner python"]["hint"]


@pytest.mark.parametrize(("seconds", "says"), [(60.0, "ahead of"), (-60.0, "behind")])
def test_a_clock_that_is_wrong(reactor: Reactor, folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, says: str) -> None:
    class Shifted:
        @staticmethod
        def time() -> float:
            return time.time() + seconds

    monkeypatch.setattr(seen, "time", Shifted)
    found = broken(reactor, folder)
    assert list(found) == ["clock"]
    assert says in found["clock"]["message"]


def test_a_disk_that_is_full(reactor: Reactor, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DISK_FREE_BYTES_MIN", 2**60)
    found = broken(reactor, folder)
    assert list(found) == ["disk"]


def test_a_server_that_is_too_old(reactor: Reactor, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SERVER_MAJOR_MIN", 99)
    assert list(broken(reactor, folder)) == ["postgres"]
