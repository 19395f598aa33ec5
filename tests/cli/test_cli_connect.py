"""`reactor connect`: the printed lines run in a plain DuckDB; and who may read a catalog (FH-10)."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pytest

from reactor.errors import UsageError
from reactor.lake.connecting import CATALOG_VERSION, reader_of
from reactor.lake.extensions import extension_path
from reactor.lake.session import LakeSettings
from tests.cli.conftest import NUMBERS, Reactor
from tests.parts.postgres import execute

Online = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def extensions(tmp_path: Path) -> Path:
    """A home in which the extensions are installed already, so that INSTALL needs no network."""
    with plain(tmp_path / "home") as connection:
        for name in ("ducklake", "postgres_scanner"):
            connection.execute(f"INSTALL '{extension_path(name)}'")
    return tmp_path / "home"


@pytest.fixture
def filled(reactor: Reactor, online: Online) -> Path:
    folder = online({"numbers.sql": NUMBERS})
    assert reactor("run", "numbers.sql", "--project", folder).exit_code == 0
    return folder


def plain(extensions: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"extension_directory": str(extensions / ".duckdb" / "extensions"), "autoinstall_known_extensions": "false"})


def test_the_printed_statements_run_and_only_read(reactor: Reactor, filled: Path, extensions: Path) -> None:
    said = reactor("connect", "--project", filled)
    assert said.exit_code == 0
    of_duckdb = said.out.partition("-- DuckDB\n")[2].partition("# Python")[0]
    of_bi = said.out.partition("-- BI tools")[2].partition("\n")[2]
    for printed in (of_duckdb, of_bi):
        connection = plain(extensions)
        connection.execute(printed)
        assert connection.execute("SELECT count(*) FROM lake_main.numbers").fetchall() == [(10,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("INSERT INTO lake_main.numbers VALUES (1, 1)")
        connection.execute("DETACH lake_main")
        connection.close()


def test_the_printed_program_runs(reactor: Reactor, filled: Path, extensions: Path, tmp_path: Path) -> None:
    printed = reactor("connect", "--project", filled).out.partition("# Python")[2].partition("\n")[2].partition("-- BI tools")[0]
    program = tmp_path / "read.py"
    program.write_text(printed + 'print(lakes.sql("SELECT sum(n) FROM lake_main.numbers").fetchall())\n')
    done = subprocess.run([sys.executable, str(program)], env={**os.environ, "HOME": str(extensions)}, capture_output=True, text=True, check=True)
    assert done.stdout == "[(45,)]\n"


def test_as_json(reactor: Reactor, filled: Path) -> None:
    data = reactor("connect", "--project", filled, "--json").data
    assert [lake["database"] for lake in data["lakes"]] == ["lake_main"]
    assert data["duckdb"] == [*data["setup"], *(lake["attach"] for lake in data["lakes"])]
    assert data["password"] is None
    assert data["catalog_version"] == CATALOG_VERSION


def test_no_secret_is_printed_and_where_it_comes_from_is(
    reactor: Reactor, filled: Path, database: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = urlsplit(database)
    monkeypatch.setenv("MY_URL", f"postgresql://reactor:hush%27hush@{host.hostname}:{host.port}{host.path}?sslpassword=hushtoo")
    (filled / "reactor.toml").write_text('[state]\nurl = "env:MY_URL"\n')
    for argv in ((), ("--json",)):
        said = reactor("connect", "--project", filled, *argv)
        assert said.exit_code == 0
        assert "hush" not in said.out + said.err
        assert "reactor.toml:2, env:MY_URL" in said.out
        assert "PGPASSWORD" in said.out
    assert "user=''analysts''" in reactor("connect", "--user", "analysts", "--project", filled).out


def test_files_in_a_store_need_its_credentials() -> None:
    reader = reader_of("postgresql://u@h/d", {"main": LakeSettings("/files"), "cold": LakeSettings("s3://bucket/lake")})
    assert "CREATE SECRET (TYPE s3, PROVIDER credential_chain);" in reader.setup
    assert list(reader.lakes) == ["main", "cold"]


def test_without_the_embedded_database_it_is_unreachable(reactor: Reactor, tmp_path: Path) -> None:
    assert reactor("connect", "--project", tmp_path).exit_code == 3


def test_an_older_catalog_is_refused_and_migrated_only_when_told(reactor: Reactor, filled: Path, database: str) -> None:
    older = "UPDATE lake_main.ducklake_metadata SET value = '0.4' WHERE key = 'version'"
    execute(database, older)
    for argv in (("query", "SELECT 1"), ("run", "numbers.sql")):
        refused = reactor(*argv, "--project", filled, "--json")
        assert refused.exit_code == 2
        assert "another version than this DuckLake" in refused.problem["detail"]
        assert "reactor maintain --migrate-catalog" in refused.problem["hint"]
    migrate = ("maintain", "--migrate-catalog", "--project", filled, "--json")
    assert reactor(*migrate).exit_code == 2
    assert reactor(*migrate, "--dry-run").data == {"lake": "main", "was": "0.4", "now": CATALOG_VERSION, "changed": False}
    assert reactor("query", "SELECT 1", "--project", filled).exit_code == 2
    assert reactor(*migrate, "--confirm", "main").data["changed"] is True
    assert reactor(*migrate).data == {"lake": "main", "was": CATALOG_VERSION, "now": CATALOG_VERSION, "changed": False}
    assert reactor("query", "SELECT count(*) FROM numbers", "--project", filled).exit_code == 0
    assert reactor("run", "numbers.sql", "--project", filled).exit_code == 0


def test_what_maintain_cannot_do(reactor: Reactor, online: Online) -> None:
    folder = online({})
    assert reactor("maintain", "--project", folder).exit_code == 2
    assert reactor("maintain", "--migrate-catalog", "--lake", "gold", "--project", folder).exit_code == 2


def test_a_catalog_that_is_not_postgres() -> None:
    with pytest.raises(UsageError, match="PostgreSQL"):
        reader_of("mysql://h/d", {"main": LakeSettings("/files")})
