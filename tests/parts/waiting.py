"""Waiting for a condition: the only way in which tests let time pass."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

FIRST_POLL_SECONDS, LAST_POLL_SECONDS = 0.01, 0.1
"""What is soon there is soon seen, and what takes longer is not slowed down by being looked at."""


def _polls(last_seconds: float) -> Iterator[float]:
    pause = FIRST_POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.25, last_seconds)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 90.0, *, last_poll_seconds: float = LAST_POLL_SECONDS) -> None:
    """Return once `condition()` is true; raise TimeoutError, naming `what`, after the time."""
    deadline, polls = time.monotonic() + seconds, _polls(last_poll_seconds)
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(next(polls))


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 90.0) -> None:
    """The same on an event loop."""
    deadline, polls = time.monotonic() + seconds, _polls(LAST_POLL_SECONDS)
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(next(polls))


async def pace(seconds: float) -> None:
    """Between two pieces of a load that is made all the time: nobody waits for anything here."""
    await asyncio.sleep(seconds)
