"""PostgreSQL away, or a lake that is needed to find out what a commit has left: ask until it answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from reactor.errors import Outage

logger = logging.getLogger(__name__)
T = TypeVar("T")

WAIT_MIN_SECONDS, WAIT_MAX_SECONDS = 0.1, 5.0


async def until_it_answers(call: Callable[[], Awaitable[T]]) -> T:
    """The answer of a call that may be repeated, however long the outage is."""
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(Outage), wait=wait_random_exponential(WAIT_MIN_SECONDS, WAIT_MAX_SECONDS), before_sleep=_say
    ):
        with attempt:
            return await call()
    raise AssertionError("unreachable: it is asked for ever")


def _say(asked: RetryCallState) -> None:
    attempts, error = asked.attempt_number, asked.outcome and asked.outcome.exception()
    if isinstance(error, Outage) and attempts & (attempts - 1) == 0:  # the first, second, fourth, eighth time: an outage must not fill the log
        logger.warning("waiting, nothing is lost (asked %d times): %s", attempts, error.args[0], extra={"event": "state_away"})
