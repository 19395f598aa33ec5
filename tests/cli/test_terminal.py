import asyncio
import os
import pty
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reactor.cli.live import View
from reactor.cli.screen import Frame
from reactor.cli.terminal import Lines, Terminal
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio


@contextmanager
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """(ours, the program's): both ends of a terminal that is stdin and stdout meanwhile."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "r+b", buffering=0), open(theirs, closefd=False) as stdin, open(theirs, "w") as stdout:  # noqa: PTH123 - descriptors
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stdout", stdout)
        yield ours, theirs
        monkeypatch.undo()


async def test_a_screen_is_drawn_until_q_is_pressed_and_the_terminal_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with keyboard(monkeypatch) as (ours, theirs):
        await drawn_until_q(ours, theirs)


async def drawn_until_q(ours: int, theirs: int) -> None:
    before = termios.tcgetattr(theirs)
    with Terminal(color=False) as display:
        assert termios.tcgetattr(theirs) != before
        display.show(View(), Frame("the title", "running", 1.0))
        os.write(ours, b"x")
        await asyncio.sleep(0)
        assert not display.quit
        os.write(ours, b"q")

        async def pressed() -> bool:
            return display.quit

        await until(pressed, "the key is seen")
    assert termios.tcgetattr(theirs) == before
    assert b"the title" in os.read(ours, 65_536)


async def test_lines_tell_a_place_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as display:
        for places in ({}, {"metrics": "http://here"}, {"metrics": "http://here"}):
            display.show(View(), Frame("", "running", 1.0, places))
    line = "0:01 running: rows=0 runs=0 snapshots=0 cascades=0 quarantined=0 lag=0\n"
    assert capsys.readouterr().out == f"{line}metrics: http://here\n{line}{line}"
