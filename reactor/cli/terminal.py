"""Where a view is shown: a screen for people, a line a look for files and pipes."""

from __future__ import annotations

import asyncio
import sys
import termios
import tty
from contextlib import ExitStack
from typing import Protocol, Self

from rich.live import Live

from reactor.cli import answers
from reactor.cli.live import View
from reactor.cli.screen import Frame, line, screen

QUIT_KEYS = b"qQ"


class Display(Protocol):
    """Shows views while it is entered (inside an event loop)."""

    quit: bool
    """Whether somebody has pressed the key that ends it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, view: View, frame: Frame) -> None:
        """This is so now."""
        ...


class Lines:
    """A line for each view on stdout."""

    quit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, view: View, frame: Frame) -> None:
        """One line."""
        print(line(view, frame), flush=True)  # noqa: T201 - stdout is the result


class Terminal:
    """The whole screen, drawn anew for each view; what was there before comes back at the end. `q` quits."""

    def __init__(self, *, color: bool) -> None:
        self.quit = False
        self._live = Live(console=answers.console(sys.stdout, color=color), screen=True, auto_refresh=False)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if sys.stdin.isatty():
                self._read_keys(stack)
            stack.enter_context(self._live)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, view: View, frame: Frame) -> None:
        """The screen."""
        self._live.update(screen(view, frame), refresh=True)

    def _read_keys(self, stack: ExitStack) -> None:
        keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        stack.callback(termios.tcsetattr, keyboard, termios.TCSADRAIN, termios.tcgetattr(keyboard))
        tty.setcbreak(keyboard)
        loop.add_reader(keyboard, self._key)
        stack.callback(loop.remove_reader, keyboard)

    def _key(self) -> None:
        keys = sys.stdin.buffer.raw.read(64) or b""
        self.quit |= any(key in QUIT_KEYS for key in keys)
