"""What a run says: kept while it runs, in chunks, the newest MiB of it, whatever the state does meanwhile."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.runs import RunId, new_run_id
from reactor.errors import Outage
from reactor.runtime.run_logs import RunLog, run_log
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio
RUN = new_run_id(1_800_000_000.0, bytes(10))


class Kept:
    """A state that keeps chunks, and is away now and then: before it has kept one, or before it has said so."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self.chunks: dict[int, str] = {}
        self._chance = chance

    async def append_log(self, run_id: RunId, chunk: int, text: str, keep_from: int) -> None:
        assert run_id == RUN
        self._perhaps_away()
        self.chunks.setdefault(chunk, text)
        self.chunks = {n: t for n, t in self.chunks.items() if n >= keep_from}
        self._perhaps_away()

    def _perhaps_away(self) -> None:
        if self._chance is not None and self._chance.random() < 0.4:
            raise Outage("away")

    @property
    def text(self) -> str:
        numbers = sorted(self.chunks)
        assert not numbers or numbers == list(range(numbers[0], numbers[-1] + 1))
        return "".join(self.chunks[n] for n in numbers)


async def flushed(log: RunLog) -> None:
    for _ in range(1000):
        try:
            await log.flush()
            await log.flush()
        except Outage:
            continue
        return
    raise AssertionError("never flushed")


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=30), st.booleans()), max_size=30), st.integers(0, 2**32))
def test_what_is_kept_is_the_end_and_nothing_twice(pieces: list[tuple[bytes, bool]], seed: int) -> None:
    async def lived() -> tuple[str, int]:
        kept = Kept(random.Random(seed))
        log = RunLog(kept, RUN, bytes_max=100)
        for data, flushes in pieces:
            log.write(data)
            if flushes:
                await flushed(log)
            assert log._waiting_bytes <= 100
        await flushed(log)
        return kept.text, max((len(text.encode()) for text in kept.chunks.values()), default=0)

    text, largest = asyncio.run(lived())
    whole = b"".join(data for data, _ in pieces)
    assert len(text.encode()) <= max(100, largest)
    if len(whole) <= 20 and all(data.isascii() for data, _ in pieces):
        assert text == whole.decode().replace("\0", "\ufffd")
    if all(data.isascii() for data, _ in pieces):
        assert whole.decode().replace("\0", "\ufffd").endswith(text)


async def test_a_character_may_come_in_two_pieces() -> None:
    kept = Kept()
    async with run_log(kept, RUN) as log:
        for byte in "žluťoučký kůň".encode():
            log.write(bytes([byte]))
            await log.flush()
    assert kept.text == "žluťoučký kůň"


async def test_it_is_kept_while_it_is_written_and_whole_when_it_breaks() -> None:
    kept = Kept()

    async def written() -> bool:
        return kept.text == "one\n"

    with pytest.raises(ValueError, match="broken"):  # noqa: PT012 - what is kept meanwhile is what this is about
        async with run_log(kept, RUN) as log:
            log.write(b"one\n")
            await until(written, "it is kept", 60.0)
            log.write(b"two\n")
            raise ValueError("broken")
    assert kept.text == "one\ntwo\n"
