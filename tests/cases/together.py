"""Cases that run at once: each alone may fail."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path


async def each(cases: Collection[str], run: Callable[[str], Awaitable[str | None]], at_once: int = 8) -> Mapping[str, str | None]:
    """What is wrong with each case by id, or None; what it raises is wrong with this case alone."""
    turn = asyncio.Semaphore(at_once)

    async def one(case: str) -> str | None:
        async with turn:
            try:
                return await run(case)
            except Exception as error:  # noqa: BLE001  (whatever it raises is the failure of this case alone)
                return raised(error)

    return dict(zip(cases, await asyncio.gather(*map(one, cases)), strict=True))


def raised(error: BaseException) -> str:
    """An exception as a difference."""
    places = traceback.extract_tb(error.__traceback__)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        places = traceback.extract_tb(error.__traceback__) or places
    return f"raised {error!r} at {Path(places[-1].filename).name}:{places[-1].lineno}"
