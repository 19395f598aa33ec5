"""Both parts, seen from outside of the process that holds them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from reactor.embedded import EmbeddedParts
from reactor.embedded.broker import speaks_kafka
from reactor.embedded.child import command_as_child
from tests.parts.postgres import execute, value
from tests.parts.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.broker]
ROOT = Path(__file__).parents[2]
HOLDER = """
import asyncio, asyncpg, sys
from pathlib import Path
from reactor.embedded import EmbeddedParts

async def ask(url):
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval("SELECT 'still there'")
    finally:
        await connection.close()

with EmbeddedParts(Path(sys.argv[1])) as parts:
    try:
        print(parts.state_url, parts.bootstrap_servers, flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        print(asyncio.run(ask(parts.state_url)), flush=True)
"""


def standing_in(folder: Path) -> list[psutil.Process]:
    """The living processes whose working directory is in the folder."""

    def inside(process: psutil.Process) -> bool:
        try:
            return Path(process.cwd()).is_relative_to(folder)
        except psutil.Error:
            return False

    return [process for process in psutil.process_iter() if inside(process)]


@contextmanager
def holder(folder: Path, command: list[str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A process of its own session that holds both parts; its state URL and bootstrap servers."""
    command = command or [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            state_url, bootstrap_servers = process.stdout.readline().split()
            yield process, state_url, bootstrap_servers
        finally:
            process.kill()


def test_a_killed_holder_leaves_nothing_running_and_its_data_whole(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, state_url, bootstrap_servers):
        execute(state_url, "CREATE TABLE kept AS SELECT 42 AS answer")
        assert speaks_kafka(int(bootstrap_servers.rpartition(":")[2]))
        assert len(standing_in(tmp_path)) > 2
        process.kill()
        process.wait()
        wait_until(lambda: not standing_in(tmp_path), "both parts end with their holder", seconds=10)
    with EmbeddedParts(tmp_path) as parts:
        assert (parts.state_url, parts.bootstrap_servers) == (state_url, bootstrap_servers)
        assert value(state_url, "SELECT answer FROM kept") == 42


def test_a_start_right_after_a_kill_does_not_trip_over_the_dying(tmp_path: Path) -> None:
    for _ in range(2):
        with holder(tmp_path) as (process, state_url, _servers):
            process.kill()
            process.wait()
            with EmbeddedParts(tmp_path) as parts:
                assert parts.state_url == state_url
                assert value(state_url, "SELECT 1") == 1


def test_ctrl_c_reaches_the_holder_alone(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _url, _servers):
        assert process.stdout is not None
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == "still there\n"
        assert process.wait(30) == 0
        assert not standing_in(tmp_path)
    assert "database system is shut down" in (tmp_path / "postgres" / "postgres.log").read_text()


def test_an_ordinary_user_runs_both_directly(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests show it")
    tmp_path.chmod(0o700)
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    as_nobody = command_as_child(command, user="namespace", folder=tmp_path, death_signal=signal.SIGKILL)
    with holder(tmp_path, as_nobody) as (process, state_url, _servers):
        assert value(state_url, "SELECT 1") == 1
        process.kill()
        process.wait()
        wait_until(lambda: not standing_in(tmp_path), "both parts end with their holder", seconds=10)


def test_a_part_that_a_url_replaces_is_not_started(tmp_path: Path) -> None:
    with EmbeddedParts(tmp_path, postgres=False, broker=False) as parts:
        assert (parts.state_url, parts.bootstrap_servers, parts.ended()) == (None, None, None)
    assert not list(tmp_path.iterdir())
