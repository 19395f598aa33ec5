"""`serve` on a terminal: one screen, the log beside it, `q` ends it in order."""

import errno
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reactor.cli.onlooker import LogLines, Onlooker
from reactor.project import open_project
from reactor.telemetry import Telemetry
from reactor.web.health import Health
from reactor.wiring import WallClock
from tests.cli.conftest import NUMBERS, Reactor
from tests.cli.test_cli_serve import Process
from tests.parts.waiting import wait_until

Online = Callable[[Mapping[str, str]], Path]
WAIT_SECONDS = 90.0


@dataclass
class OnTerminal:
    """A `reactor` whose stdin, stdout and stderr are a terminal. `drawn`: all that it has written there."""

    process: subprocess.Popen[bytes]
    keyboard: int
    drawn: bytearray = field(default_factory=bytearray)

    def read(self) -> None:
        """Until it is gone."""
        with suppress(OSError):
            while piece := os.read(self.keyboard, 65_536):
                self.drawn += piece

    def shows(self, text: str) -> bool:
        """Whether it has ever drawn this, whatever stands between the words."""
        plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b" ", bytes(self.drawn)).decode(errors="replace")
        return text in " ".join(plain.split())

    def wait_until_shown(self, text: str) -> None:
        """Fails if it ends before."""
        wait_until(lambda: self.shows(text) or self.process.poll() is not None, f"{text} is shown", WAIT_SECONDS)
        assert self.shows(text), bytes(self.drawn[-3000:])


@contextmanager
def on_terminal(folder: Path, *argv: str) -> Iterator[OnTerminal]:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "LINES": "40", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "reactor", "--project", str(folder), *argv], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    terminal = OnTerminal(process, ours)
    reading = threading.Thread(target=terminal.read)
    reading.start()
    try:
        yield terminal
    finally:
        process.kill()
        process.wait()
        reading.join()
        os.close(ours)


def test_a_screen_shows_what_it_does_and_q_ends_it_in_order(reactor: Reactor, online: Online) -> None:
    folder = online({"numbers.sql": NUMBERS})
    with on_terminal(folder, "serve") as terminal:
        terminal.wait_until_shown("running")
        terminal.wait_until_shown("main/numbers - - - idle")
        said = reactor("--project", folder, "run", "numbers.sql", "--json")
        assert said.exit_code == 0, said
        terminal.wait_until_shown("main/numbers 10")
        terminal.wait_until_shown("log:")
        os.write(terminal.keyboard, b"q")
        assert terminal.process.wait(WAIT_SECONDS) == 0
        assert b"\x1b[?1049l" in terminal.drawn  # what was there before is back
    log = (folder / ".reactor/serve.log").read_text()
    assert "numbers completed" in log
    assert log.splitlines()[-1].endswith("stopped")


def test_a_database_that_is_away_is_said_on_the_screen(offline: Online) -> None:
    with on_terminal(offline({"numbers.sql": NUMBERS}), "serve") as terminal:
        terminal.wait_until_shown("not ready")
        terminal.wait_until_shown("PostgreSQL does not answer")
        os.write(terminal.keyboard, b"q")
        assert terminal.process.wait(WAIT_SECONDS) == 0


def test_without_the_screen_the_log_is_on_the_terminal(online: Online) -> None:
    with on_terminal(online({"numbers.sql": NUMBERS}), "serve", "--no-live") as terminal:
        terminal.wait_until_shown("ready: 1 script")
        assert b"\x1b[?1049h" not in terminal.drawn
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(WAIT_SECONDS) == 0


def test_off_a_terminal_a_line_of_the_log_says_how_far_it_is(online: Online) -> None:
    with Process(online({}), ["serve"]) as served:
        served.wait_for("no_script")
        wait_until(lambda: len([said for said in served.said("service_progress") if "running: rows=0 runs=0" in said]) >= 2, "two lines", WAIT_SECONDS)


class Torn(LogLines):
    """A terminal that is gone."""

    def show(self, *_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.anyio
async def test_a_screen_that_cannot_be_drawn_ends_nothing_else(offline: Online, caplog: pytest.LogCaptureFixture) -> None:
    opened = open_project(offline({"numbers.sql": NUMBERS}), flags={}, environ={})
    await Onlooker(lambda: opened, (), Telemetry(), Health(WallClock(), ["main"]), Torn(), 1.0, "", None, lambda: None).run()
    assert [getattr(record, "event", "log") for record in caplog.records] == ["view_failed"]


@pytest.mark.parametrize("flag", ["--live"])
def test_a_screen_needs_a_terminal(reactor: Reactor, offline: Online, flag: str) -> None:
    said = reactor("--project", offline({"numbers.sql": NUMBERS}), "serve", flag)
    assert said.exit_code == 2
    assert "needs a terminal" in said.err
