"""Answers of a broker where the socket has written them: the record batches of a fetch are views of its frame.

By a stream reader each byte is copied four times before it is decoded: from the loop's buffer, into the reader's, out of that, out of the answer.

    Response => size int32, then that many bytes
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import numpy as np

SIZE = struct.Struct(">i")
VIEWED_BYTES_MIN = 4096
"""What is shorter is copied out of a frame: it would hold all of it, to save nothing."""


class Frames(asyncio.BufferedProtocol):
    """Takes a connection over from a protocol that has read to the end of an answer, and that is still told how the connection fares.

    `take`: each frame, without its size. `lost`: why there will be no more; maybe more than once. The broker sends nothing that it was not asked
    for, so what waits here is bounded by what was asked.
    """

    def __init__(self, before: asyncio.Protocol, take: Callable[[memoryview], None], lost: Callable[[Exception], None]) -> None:
        self._before, self._take, self._lost = before, take, lost
        self._begin(SIZE.size, of_size=True)

    def _begin(self, size_bytes: int, *, of_size: bool) -> None:
        self._frame, self._at, self._is_size = np.empty(size_bytes, np.uint8).data, 0, of_size

    def get_buffer(self, _sizehint: int, /) -> memoryview:
        """What is missing of the frame, or of its size."""
        return self._frame[self._at :]

    def buffer_updated(self, nbytes: int, /) -> None:
        """So much of it has come."""
        self._at += nbytes
        if self._at < len(self._frame):
            return
        frame, is_size = self._frame, self._is_size
        try:
            if is_size and (size_bytes := SIZE.unpack(frame)[0]):
                self._begin(size_bytes, of_size=False)
            else:
                self._begin(SIZE.size, of_size=True)
                self._take(frame[:0] if is_size else frame)
        except Exception as error:  # noqa: BLE001 - a size below 0, an answer to nothing: whatever it is, nothing behind it can be read
            self._lost(error)

    def eof_received(self) -> bool:
        """Nothing more comes, and we close, too."""
        self._before.eof_received()
        self._lost(EOFError("the broker has closed the connection"))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed, by whomever."""
        self._before.connection_lost(exc)
        self._lost(exc or EOFError("the connection was closed"))

    def pause_writing(self) -> None:
        """Who writes is told by the protocol before."""
        self._before.pause_writing()

    def resume_writing(self) -> None:
        """Likewise."""
        self._before.resume_writing()


class Answer:
    """A frame that is read as a file is; what is long is a view of it."""

    def __init__(self, frame: memoryview) -> None:
        self._frame, self._at = frame, 0

    def read(self, size_bytes: int) -> bytes | memoryview:
        """The next bytes; fewer where it ends."""
        part = self._frame[self._at : self._at + size_bytes]
        self._at += len(part)
        return part if len(part) >= VIEWED_BYTES_MIN else part.tobytes()
