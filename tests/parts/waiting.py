"""Waiting for a condition: the only way in which tests let time pass."""

import asyncio
import time
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 90.0) -> None:
    """Return once `condition()` is true; raise TimeoutError, naming `what`, after the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(POLL_SECONDS)


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 90.0) -> None:
    """The same on an event loop."""
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(POLL_SECONDS)


async def pace(seconds: float) -> None:
    """Between two pieces of a load that is made all the time: nobody waits for anything here."""
    await asyncio.sleep(seconds)
