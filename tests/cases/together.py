"""Cases that run at once: each alone may fail."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path

from tests.harness import Product


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


async def while_it_lives(product: Product, cases: Collection[str], run: Callable[[str], Awaitable[str | None]]) -> Mapping[str, str | None]:
    """As `each`; of those that have met the death of the product, only one that was alone has an answer."""
    sound: set[str] = set()

    async def one(case: str) -> str | None:
        if not product.living:
            raise AssertionError("the service has ended by itself")
        try:
            return await run(case)
        finally:
            if product.living:
                sound.add(case)

    answers = await each(cases, one)
    return answers if len(cases) == 1 else {case: answer for case, answer in answers.items() if case in sound}


def raised(error: BaseException) -> str:
    """An exception as a difference."""
    places = traceback.extract_tb(error.__traceback__)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        places = traceback.extract_tb(error.__traceback__) or places
    return f"raised {error!r} at {Path(places[-1].filename).name}:{places[-1].lineno}"
