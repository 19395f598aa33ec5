"""`reactor serve` and `reactor dev` as processes."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from reactor.embedded import EmbeddedParts, running
from reactor.embedded.folder import free_port
from tests.cli.conftest import NUMBERS, REFUSED, WAITING, Reactor, project_at
from tests.parts.postgres import value
from tests.parts.waiting import wait_until

PROGRAM = "# on ducklake://main/numbers\ndef main(trigger):\n    open('fired.txt', 'a').write(trigger['reason'] + '\\n')\n"
TYPO = "# on ducklake://main/elsewhere\n# retyr 5\n"
HOLDER = "SELECT holder FROM reactor.lease WHERE name = 'inbox:' AND expires_at > clock_timestamp()"
Online = Callable[[Mapping[str, str]], Path]


@dataclass
class Process:
    """A `reactor` that runs on, with its log."""

    folder: Path
    argv: Sequence[str]
    process: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> Self:
        self.log_path = self.folder.parent / f"{self.argv[0]}-{len(list(self.folder.parent.glob('*.log')))}.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "reactor", "--project", str(self.folder), *self.argv], stdout=log, stderr=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.communicate()

    @property
    def lines(self) -> list[Mapping[str, Any]]:
        """What it has logged."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines() if line.startswith("{") and line.endswith("}")]

    def said(self, event: str) -> list[str]:
        """The messages of an event."""
        return [line["message"] for line in self.lines if line["event"] == event]

    def wait_for(self, event: str, seconds: float = 60.0) -> str:
        """The message of the first such event."""
        wait_until(lambda: bool(self.said(event)) or self.process.poll() is not None, f"{self.argv} says {event}", seconds)
        assert self.said(event), (self.log_path.read_text(), self.process.stderr and self.process.stderr.read())
        return self.said(event)[0]

    def health(self, path: str) -> tuple[int, Any]:
        """The answer of a health endpoint."""
        found = re.search(r"http://\S+", self.wait_for("service_started"))
        assert found is not None
        try:
            with urllib.request.urlopen(f"{found[0]}{path}", timeout=10) as answer:  # noqa: S310 - a loopback server of this test
                body = answer.read().decode()
                return answer.status, body if path == "/metrics" else json.loads(body)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def ends(self, number: signal.Signals, seconds: float = 60.0) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(seconds)


def test_a_replica_starts_serves_and_stops_in_order(online: Online, reactor: Reactor, database: str) -> None:
    """It carries out what is asked of it, what that fires too, and after SIGKILL a new one goes on where it stood."""
    folder = online({"numbers.sql": NUMBERS, "tell.py": PROGRAM, "waiting.sql": WAITING, "refused.sql": REFUSED, "typo.py": TYPO})
    with Process(folder, ["serve"]) as served:
        served.wait_for("service_ready")
        assert served.health("/readyz")[0] == served.health("/livez")[0] == served.health("/startupz")[0] == 200
        assert 'reactor_runs{asset="ducklake://main/numbers",state="running"} 0.0' in served.health("/metrics")[1]
        assert {line["script"] for line in served.lines if line["event"] == "script_refused"} == {"waiting.sql", "refused.sql"}
        assert served.said("lines_dropped") == ["typo.py runs without 1 line that cannot be understood: reactor check typo.py"]
        ran = reactor("run", "numbers.sql", "--json", "--project", folder)
        assert (ran.exit_code, ran.data["by_replica"], ran.data["changed"]) == (0, True, True)
        wait_until((folder / "fired.txt").exists, "the program was fired")
        killed = value(database, HOLDER)
        assert served.ends(signal.SIGKILL) == -signal.SIGKILL
    (folder / "numbers.sql").write_text(NUMBERS.replace("range(10)", "range(11)"))
    with Process(folder, ["serve"]) as served:
        served.wait_for("service_ready")
        wait_until(lambda: value(database, HOLDER) not in {killed, None}, "the lease of the killed one has run out, and the new one has it")
        again = reactor("run", "numbers.sql", "--json", "--project", folder)
        assert (again.exit_code, again.data["rows_inserted"], again.data["by_replica"]) == (0, 11, True)
        wait_until(lambda: (folder / "fired.txt").read_text() == "asset\nasset\n", "the program was fired once more")
        unknown = folder / "new.sql"
        unknown.write_text(NUMBERS.replace("numbers", "others"))
        said = reactor("run", "new.sql", "--project", folder)
        assert (said.exit_code, "does not know new.sql" in said.err) == (1, True)
        assert served.ends(signal.SIGTERM) == 0
        assert served.said("service_draining")
        assert served.said("service_stopped") == ["stopped"]
    assert reactor("run", "new.sql", "--project", folder).exit_code == 0, "without a replica this process does it"


def test_every_line_of_the_log_is_an_object_with_the_fields_of_all(online: Online) -> None:
    with Process(online({"numbers.sql": NUMBERS}), ["serve"]) as served:
        served.wait_for("service_ready")
        assert served.ends(signal.SIGINT) == 0
        lines = [json.loads(line) for line in served.log_path.read_text().splitlines()]
    assert all({"timestamp", "severity", "event", "message"} <= line.keys() for line in lines)
    assert [line["reason"] for line in lines if line["event"] == "signal_received"] == ["SIGINT"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"]) for line in lines)
    assert [line["event"] for line in lines if line["event"] in {"service_started", "service_ready", "service_draining", "service_stopped"}] == [
        "service_started", "service_ready", "service_draining", "service_stopped"]


def test_what_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    """PostgreSQL: alive, and not ready, until it answers. Then the second signal ends at once."""
    folder = project_at(tmp_path / "project", None, {"numbers.sql": NUMBERS})
    with Process(folder, ["serve"]) as served:
        assert "PostgreSQL of this project is not running" in served.wait_for("start_waits")
        assert served.health("/livez")[0] == 200
        code, report = served.health("/readyz")
        assert (code, report["status"], "PostgreSQL" in report["checks"][0]["message"]) == (503, "down", True)
        assert served.health("/startupz")[0] == 503
        with parts(folder):
            served.wait_for("service_ready")
            assert served.health("/readyz")[0] == 200
        wait_until(lambda: served.health("/readyz")[0] == 503, "not ready without PostgreSQL")
        assert served.health("/livez")[0] == 200
        served.process.send_signal(signal.SIGTERM)
        served.wait_for("service_draining")
        assert served.ends(signal.SIGTERM) == 130


@contextmanager
def parts(folder: Path) -> Iterator[None]:
    with EmbeddedParts(folder / ".reactor", broker=False):
        yield


def test_a_start_that_waits_can_be_stopped(offline: Online) -> None:
    with Process(offline({"numbers.sql": NUMBERS}), ["serve"]) as served:
        served.wait_for("start_waits")
        assert served.ends(signal.SIGTERM) == 0


def test_a_start_that_waits_too_long_is_given_up(offline: Online) -> None:
    with Process(offline({"numbers.sql": NUMBERS}), ["serve", "--timeout", "1", "--json"]) as served:
        assert served.process.stderr is not None
        said = served.process.stderr.read()
        assert served.process.wait(60) == 4, said
        assert json.loads(said)["type"] == "urn:reactor:problem:timeout"


def test_strict_starts_only_if_every_script_runs(reactor: Reactor, offline: Online) -> None:
    for text in (WAITING, REFUSED):
        folder = offline({"numbers.sql": NUMBERS, "other.sql": text})
        said = reactor("serve", "--strict", "--project", folder)
        assert (said.exit_code, "other.sql" in said.err) == (2, True)


def test_a_port_that_was_set_and_is_taken_is_said(reactor: Reactor, offline: Online) -> None:
    folder = offline({"numbers.sql": NUMBERS})
    with Process(folder, ["serve"]) as served:
        port = int(re.findall(r":(\d+)$", served.wait_for("service_started"))[0])
        with Process(folder, ["serve"]) as second:
            assert int(re.findall(r":(\d+)$", second.wait_for("service_started"))[0]) != port
        (folder / "reactor.toml").write_text((folder / "reactor.toml").read_text() + f"[http]\nhealth_port = {port}\n")
        said = reactor("serve", "--project", folder)
        assert (said.exit_code, str(port) in said.err) == (1, True)


def test_tags_say_which_scripts_a_replica_runs(online: Online, reactor: Reactor) -> None:
    folder = online({"a.sql": "-- tag eu\n" + NUMBERS, "b.sql": NUMBERS.replace("numbers", "others")})
    with Process(folder, ["serve", "--tags", "eu,us"]) as served:
        assert served.wait_for("service_ready") == "ready: 1 script"
        assert reactor("run", "a.sql", "--json", "--project", folder).data["by_replica"] is True
        assert reactor("run", "b.sql", "--json", "--project", folder).data["by_replica"] is False
        assert served.ends(signal.SIGTERM) == 0


# ---------------------------------------------------------------------------------------------------------------- dev


def embedded_project(tmp_path: Path) -> Path:
    folder = project_at(tmp_path / "project", None, {"numbers.sql": NUMBERS})
    (folder / "reactor.toml").write_text('[kafka.main]\nbootstrap_servers = "embedded"\n')
    return folder


def children(process: subprocess.Popen[bytes]) -> dict[str, psutil.Process]:
    found = {}
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it is just ending
            found["serve" if "serve" in child.cmdline() else child.name()] = child
    return found


def test_dev_starts_everything_and_ends_it_in_order(tmp_path: Path, reactor: Reactor) -> None:
    folder = embedded_project(tmp_path)
    with Process(folder, ["dev"]) as dev:
        dev.wait_for("service_ready")
        started = children(dev.process)
        assert {"serve", "postgres", "tansu"} <= started.keys()
        assert reactor("run", "numbers.sql", "--json", "--project", folder).data["by_replica"] is True
        assert dev.ends(signal.SIGINT) == 0
        assert dev.said("service_stopped") == ["stopped"], "serve had its parts to the end"
        assert dev.said("signal_received") == ["asked to stop: what runs is ended in order"], "nobody has sent what serve was sent"
    assert not any(child.is_running() for child in started.values())
    assert running.state_url(folder / ".reactor") is None


def test_dev_ends_by_itself_after_its_time(tmp_path: Path) -> None:
    with Process(embedded_project(tmp_path), ["dev", "--seconds", "0"]) as dev:
        assert dev.process.wait(60) == 0


def test_dev_restarts_nothing(tmp_path: Path) -> None:
    with Process(embedded_project(tmp_path), ["dev"]) as dev:
        dev.wait_for("service_ready")
        started = children(dev.process)
        started["serve"].kill()
        assert dev.process.wait(60) not in {0, 130}
        assert dev.process.stderr is not None
        assert b"serve ended by itself" in dev.process.stderr.read()
    assert not any(child.is_running() for child in started.values())


def test_dev_killed_leaves_nothing(tmp_path: Path) -> None:
    with Process(embedded_project(tmp_path), ["dev"]) as dev:
        dev.wait_for("service_started")
        started = children(dev.process)
        dev.ends(signal.SIGKILL)
        wait_until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in started.values()), "the children are gone")


def test_dev_does_not_start_what_settings_name(tmp_path: Path, database: str) -> None:
    folder = project_at(tmp_path / "project", database, {"numbers.sql": NUMBERS})
    (folder / "reactor.toml").write_text(f'[state]\nurl = "{database}"\n[http]\nhealth_port = {free_port()}\n')
    with Process(folder, ["dev"]) as dev:
        dev.wait_for("service_ready")
        assert children(dev.process).keys() == {"serve"}
        assert dev.ends(signal.SIGTERM) == 0


def test_dev_with_wrong_settings_starts_nothing(tmp_path: Path, reactor: Reactor) -> None:
    (tmp_path / "reactor.toml").write_text("[stat]\n")
    assert reactor("dev", "--project", tmp_path).exit_code == 2
    assert not (tmp_path / ".reactor").exists()
