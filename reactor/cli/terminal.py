"""Where a view is shown: a screen for people, a line a look for files and pipes."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Protocol, Self

from rich.live import Live

from reactor.cli import answers
from reactor.cli.live import View
from reactor.cli.screen import Frame, line, screen

QUIT_KEYS, KEYS_MAX = b"qQ", 64


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
    """A line for each view on stdout, and one for each place that is new."""

    quit = False

    def __init__(self) -> None:
        self._places: Mapping[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, view: View, frame: Frame) -> None:
        """One line, and what can be found where, once."""
        new = [f"{name}: {place}" for name, place in frame.places.items() if self._places.get(name) != place]
        self._places = frame.places
        print(*new, line(view, frame), sep="\n", flush=True)  # noqa: T201 - stdout is the result


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
        stack.callback(termios.tcsetattr, keyboard, termios.TCSANOW, termios.tcgetattr(keyboard))
        tty.setcbreak(keyboard)
        loop.add_reader(keyboard, self._key, keyboard)
        stack.callback(loop.remove_reader, keyboard)

    def _key(self, keyboard: int) -> None:
        keys = b""
        with suppress(OSError):
            keys = os.read(keyboard, KEYS_MAX)
        if not keys:  # the terminal is gone: it would be readable for ever
            asyncio.get_running_loop().remove_reader(keyboard)
        self.quit |= not keys or any(key in QUIT_KEYS for key in keys)
