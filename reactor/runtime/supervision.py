"""Tasks that never end by themselves: one that does, or fails, ends the service with its reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from reactor.errors import ReactorError, Retryable
from reactor.runtime.loop import LoopEnded

logger = logging.getLogger(__name__)


class TaskEnded(ReactorError):
    """A task that should run for ever has ended."""


async def for_ever(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run an eternal task. Raises `TaskEnded` if it returns, or is hit by the cancellation of something that it waits for (which would end the
    others without a word); an error is logged with the task's name and raised.

    One that asks a loop that has ended ends with it: why it ended is the loop's to say.
    """
    try:
        await work()
    except LoopEnded:
        return
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        logger.critical("%s failed", name, exc_info=error, extra={"event": "task_failed"})
        raise TaskEnded(f"the task {name!r} was cancelled, and by nobody") from error
    except Exception as error:
        logger.critical("%s failed", name, exc_info=error, extra={"event": "task_failed"})
        raise
    raise TaskEnded(f"the task {name!r} ended")


async def periodically(name: str, seconds: float, work: Callable[[], Awaitable[None]], sleep: Callable[[float], Awaitable[None]]) -> None:
    """Do something now and then; an outage, or another writer who was first, only skips a turn."""
    while True:
        try:
            await work()
        except Retryable as error:
            logger.debug("%s skipped: %s", name, error.headline, extra={"event": "turn_skipped"})
        await sleep(seconds)
