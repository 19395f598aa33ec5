"""What a run says, on its way into the state: `reactor runs logs --follow` shows it within a second.

A program's output comes in pieces of a moment each (*chunks*), numbered from 0. At most `LOG_BYTES_MAX` of a run are kept, the newest: the end
tells why it failed. A program that says more than the state takes never waits for it. While PostgreSQL is away as much is kept here, and no more.
"""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from reactor.domain.runs import RunId
from reactor.runtime.outages import until_it_answers

LOG_BYTES_MAX = 1024 * 1024
FLUSH_SECONDS = 0.3


class LogState(Protocol):
    """Where logs are kept."""

    async def append_log(self, run_id: RunId, chunk: int, text: str, keep_from: int) -> None:
        """Once more for the same chunk changes nothing; chunks below `keep_from` go. Raises `Outage`."""
        ...


class RunLog:
    """Bytes in, chunks out."""

    def __init__(self, state: LogState, run_id: RunId, bytes_max: int = LOG_BYTES_MAX) -> None:
        self._state, self._run_id, self._bytes_max = state, run_id, bytes_max
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._sending = ""
        self._sizes: deque[int] = deque()
        self._chunk = self._keep_from = 0

    def write(self, data: bytes) -> None:
        """More of what it says; never waits."""
        self._waiting.append(data[-self._bytes_max:])
        self._waiting_bytes += len(self._waiting[-1])
        while self._waiting_bytes > self._bytes_max:
            self._waiting_bytes -= len(self._waiting.popleft())

    async def flush(self) -> None:
        """Keep what has been written until now. Raises `Outage`: nothing is lost by asking again."""
        self._sending = self._sending or self._taken()
        if not self._sending:
            return
        self._make_room(len(self._sending.encode()))
        await self._state.append_log(self._run_id, self._chunk, self._sending, self._keep_from)
        self._chunk, self._sending = self._chunk + 1, ""

    def _taken(self) -> str:
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return self._decoder.decode(data).replace("\0", "\ufffd")

    def _make_room(self, size_bytes: int) -> None:
        """Forget the oldest chunks, so that with this one all fit."""
        if self._chunk == self._keep_from + len(self._sizes):
            self._sizes.append(size_bytes)
        while sum(self._sizes) > self._bytes_max and len(self._sizes) > 1:
            self._sizes.popleft()
            self._keep_from += 1


@asynccontextmanager
async def run_log(state: LogState, run_id: RunId) -> AsyncIterator[RunLog]:
    """A log that is kept while it is written; whole when this is left, however it is left."""
    log = RunLog(state, run_id)
    flushing = asyncio.ensure_future(_flush(log))
    try:
        yield log
    finally:
        flushing.cancel()
        await asyncio.wait([flushing])
        await until_it_answers(log.flush)  # what was on its way
        await until_it_answers(log.flush)


async def _flush(log: RunLog) -> None:
    while True:
        await until_it_answers(log.flush)
        await asyncio.sleep(FLUSH_SECONDS)
