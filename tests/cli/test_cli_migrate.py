"""`reactor migrate`: forward, said before it is done; who is too old ends with 2; a role that reads and cannot write (OP-8, FH-14)."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import duckdb
import pytest

from reactor.state.migrations import shipped
from tests.cli.conftest import NUMBERS, Reactor
from tests.cli.test_cli_connect import extensions, plain
from tests.parts.postgres import execute

__all__ = ["extensions"]
Online = Callable[[Mapping[str, str]], Path]
WAIT_SECONDS = 120.0


def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    async def fetched() -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return asyncio.run(fetched())


def test_it_is_said_before_it_is_done(reactor: Reactor, online: Online, database: str) -> None:
    folder = online({})
    names = [(m.version, m.name) for m in shipped()]
    dry = reactor("migrate", "--dry-run", "--project", folder, "--json")
    assert (dry.exit_code, dry.answer["schema"]) == (0, "reactor.cli.migrate.v1")
    assert [(m["version"], m["name"]) for m in dry.data["migrations"]] == names
    assert "create table reactor.position" in reactor("migrate", "--dry-run", "--project", folder).out
    assert fetch(database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'reactor'") == [(0,)]
    done = reactor("migrate", "--project", folder, "--json").data
    assert ([(m["version"], m["name"]) for m in done["migrations"]], done["applied"]) == (names, True)
    assert "the schema is the newest" in reactor("migrate", "--project", folder).out
    assert reactor("migrate", "--dry-run", "--project", folder, "--json").data["migrations"] == []


def test_who_is_older_than_the_schema_ends_with_2(reactor: Reactor, online: Online, database: str) -> None:
    folder = online({"numbers.sql": NUMBERS})
    assert reactor("migrate", "--project", folder).exit_code == 0
    execute(database, "INSERT INTO reactor.migration (version, name) VALUES (999, 'from_the_future')")
    for argv in (("migrate",), ("migrate", "--dry-run"), ("run", "numbers.sql"), ("runs", "list")):
        said = reactor(*argv, "--project", folder, "--json")
        assert said.exit_code == 2
        assert "schema version 999" in said.problem["detail"]
    served = subprocess.run(
        [sys.executable, "-m", "reactor", "serve", "--project", str(folder)], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert served.returncode == 2
    assert "schema version 999" in served.stderr


# -- readers


@pytest.fixture
def role(database: str) -> Iterator[str]:
    """A role of this test's own, which may log in."""
    name = f"reader {uuid.uuid4().hex[:8]}"
    execute(database, f'CREATE ROLE "{name}" LOGIN')
    yield name
    execute(database, f'DROP OWNED BY "{name}"')
    execute(database, f'DROP ROLE "{name}"')


@pytest.fixture
def as_role(database: str, role: str) -> str:
    """The URL of the database for that role."""
    where = urlsplit(database)
    return where._replace(netloc=f"{role.replace(' ', '%20')}@{where.hostname}:{where.port}").geturl()


def test_a_reader_reads_and_cannot_write(reactor: Reactor, online: Online, role: str, as_role: str, extensions: Path) -> None:
    folder = online({"numbers.sql": NUMBERS, "later.sql": NUMBERS.replace("numbers", "later")})
    assert reactor("run", "numbers.sql", "--project", folder).exit_code == 0
    dry = reactor("migrate", "--reader", role, "--dry-run", "--project", folder, "--json").data["reader"]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        fetch(as_role, "SELECT * FROM lake_main.ducklake_table")
    done = reactor("migrate", "--reader", role, "--project", folder)
    assert done.exit_code == 0
    assert all(f"{statement};" in done.out for statement in dry["statements"])
    assert f"read and list {folder}/.reactor/lake/main/" in done.out
    assert reactor("run", "later.sql", "--project", folder).exit_code == 0  # a table that is made after the grant

    statements = reactor("connect", "--user", role, "--project", folder, "--json").data["duckdb"]
    reading = plain(extensions)
    for statement in statements:
        reading.execute(statement)
    assert reading.execute("SELECT (SELECT count(*) FROM lake_main.numbers), (SELECT count(*) FROM lake_main.later)").fetchall() == [(10, 10)]
    reading.execute("DETACH lake_main")
    reading.execute(statements[-1].replace(", READ_ONLY", ""))
    with pytest.raises(duckdb.Error, match="permission denied"):
        reading.execute("INSERT INTO lake_main.numbers VALUES (1, 1)")
    reading.execute("DETACH lake_main")
    reading.close()
    assert reactor("query", "SELECT count(*) AS n FROM numbers", "--project", folder, "--json").data["rows"] == [{"n": 10}]
    for refused in ("SELECT * FROM reactor.run", "DELETE FROM lake_main.ducklake_table", "CREATE TABLE lake_main.mine (a int)",
                    "INSERT INTO lake_main.ducklake_snapshot_changes (snapshot_id) VALUES (99)", "SELECT reactor.watched('main')"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            fetch(as_role, refused)


def test_a_lake_that_is_not_there_yet_is_said(reactor: Reactor, online: Online, role: str) -> None:
    said = reactor("migrate", "--reader", role, "--project", online({}), "--json")
    assert said.exit_code == 0
    assert "lake `main` does not exist yet" in said.answer["warnings"][0]
    assert said.data["reader"]["files"] == []


@pytest.mark.parametrize(("name", "says"), [("nobody", "has no role"), ("reactor", "may write whatever is granted")])
def test_roles_that_are_no_readers(reactor: Reactor, online: Online, name: str, says: str) -> None:
    said = reactor("migrate", "--reader", name, "--project", online({}), "--json")
    assert said.exit_code == 1
    assert says in said.problem["detail"]
