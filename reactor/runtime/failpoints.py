"""Places where a process can be ended or frozen on purpose, so that a test of crashes hits the same one every time. Off unless armed.

`REACTOR_FAILPOINT=before_commit:kill` sends `serve` SIGKILL when it first gets there, `before_commit:kill:3` the third time; `stop` freezes it
(SIGSTOP, until SIGCONT), `interrupt` is a Ctrl-C. Only `serve` reads the variable, once, at its start.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

from reactor.errors import UsageError

VARIABLE: Final = "REACTOR_FAILPOINT"

Place = Literal["before_commit", "after_commit", "before_complete", "before_publish", "after_publish"]
"""COMMIT is about to be sent, the transaction is open; it has come back, and nobody has asked what it did; a run without a snapshot is about to
be completed (a program has exited); events are about to be sent; they are acknowledged, and their position has not moved.
"""
SIGNALS: Final[Mapping[str, signal.Signals]] = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}


class Armed(NamedTuple):
    """What happens at a place the time whose `turn` it is, from 1."""

    place: str
    sends: signal.Signals
    turn: int


_armed: list[Armed] = []


def arm(text: str) -> None:
    """Arm one place, or with an empty text none. Raises `UsageError` for a text that names no place or no action."""
    _armed.clear()
    if not text:
        return
    place, _, action = text.partition(":")
    name, _, turn = action.partition(":")
    if place not in get_args(Place) or name not in SIGNALS or not (turn or "1").isdigit():
        raise UsageError(
            f"{VARIABLE}={text} cannot be understood", hint=f"<place>:<action>[:<turn>], one of {', '.join(get_args(Place))}; {', '.join(SIGNALS)}")
    _armed.append(Armed(place, SIGNALS[name], int(turn or 1)))


def reach(place: Place) -> None:
    """Pass by, unless this place is armed and its turn has come."""
    for armed in [a for a in _armed if a.place == place]:
        _armed.clear()
        if armed.turn > 1:
            _armed.append(armed._replace(turn=armed.turn - 1))
        else:
            os.kill(os.getpid(), armed.sends)
