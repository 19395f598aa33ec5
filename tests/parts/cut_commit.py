"""A proxy before a PostgreSQL that loses the answer to a COMMIT, or the COMMIT itself: python -m tests.parts.cut_commit SERVER_URL [WORD]

It speaks the plain protocol on loopback (a request for TLS is declined) and passes every message on. Armed, it waits for the next simple
query with the statement COMMIT. `after`: the server gets it and answers, the answer is dropped, and the client's connection is closed: the
client cannot know that it has committed. `before`: the connections are closed and the server never sees it. `stop`: the client's process is
frozen (SIGSTOP) and COMMIT waits here until it wakes. `kill`: the process is killed, and COMMIT arrives all the same. Each arming cuts once. With a
word only transactions are cut in which a simple query held it (`snapshot_changes`: what publishes in DuckLake; its looks end by COMMIT too).

As a program it prints the URL to use, arms itself with each line of its standard input and prints each cut. `Cutter` is that program.
"""

import asyncio
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Self, cast, get_args
from urllib.parse import urlsplit, urlunsplit

import psutil

from tests.parts.waiting import until, wait_until

Side = Literal["before", "after", "stop", "kill"]
COMMIT = re.compile(rb"(?:^|;)\s*COMMIT\s*(?:;|\0|$)", re.IGNORECASE)
NEGOTIATE = {80877103: "TLS", 80877104: "GSS"}
ASLEEP_SECONDS_MAX = 600.0


class CommitCutter:
    """`async with CommitCutter(server_url) as cutter`: clients connect to `cutter.url`; `cutter.arm("after")` cuts the next COMMIT."""

    def __init__(self, server_url: str, word: str = "") -> None:
        self._server_url, self._word = urlsplit(server_url), word.encode()
        self._armed: deque[Side] = deque()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._changed = asyncio.Condition()
        self.cuts: list[Side] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._listener.sockets[0].getsockname()[1]
        user = f"{name}@" if (name := self._server_url.netloc.rpartition("@")[0]) else ""
        self.url = urlunsplit(self._server_url._replace(netloc=f"{user}127.0.0.1:{port}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for client_out in self._connections.values():
            client_out.transport.abort()
        await asyncio.gather(*self._connections)

    def arm(self, side: Side = "after") -> None:
        """Cut one more COMMIT."""
        self._armed.append(side)

    async def wait_for_cuts(self, count: int) -> None:
        """Return once `count` cuts were made since the start."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.cuts) >= count)

    async def _accept(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = client_out
        try:
            await self._serve(client_in, client_out)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # one side has gone: so does the other
        finally:
            del self._connections[task]
            client_out.close()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        start = await _startup(client_in, client_out)
        server_in, server_out = await asyncio.open_connection(self._server_url.hostname, self._server_url.port)
        cut = asyncio.Event()
        try:
            server_out.write(start)
            ways = [
                asyncio.create_task(self._to_server(client_in, server_out, cut, client_out.get_extra_info("peername")[1])),
                asyncio.create_task(_to_client(server_in, client_out, cut)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                if cut.is_set():
                    await ways[1]  # it ends when the server has answered
                    await self._note("after")
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            server_out.close()

    async def _to_server(self, client_in: asyncio.StreamReader, server_out: asyncio.StreamWriter, cut: asyncio.Event, client: int) -> None:
        meant = False
        while True:
            kind, message = await _message(client_in)
            meant |= kind == b"Q" and self._word in message
            if kind == b"Q" and COMMIT.search(message[5:]):
                if self._armed and meant:
                    side = self._armed.popleft()
                    if side == "before":
                        await self._note(side)
                        return
                    if side == "after":
                        cut.set()
                    else:
                        await self._strike(client, side)
                meant = False
            server_out.write(message)
            await server_out.drain()

    async def _strike(self, client: int, side: Side) -> None:
        """At the process that has this port; returns when COMMIT may go on. Raises ConnectionError: it was killed in its sleep."""
        process = await asyncio.to_thread(_process_of, client)
        process.send_signal(signal.SIGSTOP if side == "stop" else signal.SIGKILL)

        async def stopped() -> bool:
            return process.status() == psutil.STATUS_STOPPED

        async def awake() -> bool:
            return not await stopped()

        try:
            if side == "stop":
                await until(stopped, "the client is frozen", ASLEEP_SECONDS_MAX)
            await self._note(side)
            if side == "stop":
                await until(awake, "the client wakes", ASLEEP_SECONDS_MAX)
        except psutil.NoSuchProcess:
            raise ConnectionError("killed in its sleep") from None

    async def _note(self, side: Side) -> None:
        async with self._changed:
            self.cuts.append(side)
            self._changed.notify_all()


async def _startup(client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> bytes:
    """The client's first real packet."""
    while True:
        size = await client_in.readexactly(4)
        body = await client_in.readexactly(int.from_bytes(size, "big") - 4)
        if int.from_bytes(body[:4], "big") not in NEGOTIATE:
            return size + body
        client_out.write(b"N")


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The next message after the start: its kind and all its bytes."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


async def _to_client(server_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, cut: asyncio.Event) -> None:
    """Pass answers on; once the cut is on its way, read them to the end (ReadyForQuery) and drop them."""
    while True:
        kind, message = await _message(server_in)
        if not cut.is_set():
            client_out.write(message)
            await client_out.drain()
        elif kind == b"Z":
            return


def _process_of(port: int) -> psutil.Process:
    """Whose end of a connection on loopback this is. Raises ConnectionError: nobody's any more."""
    for connection in psutil.net_connections("tcp4"):
        if connection.laddr and connection.laddr.port == port and connection.pid:
            return psutil.Process(connection.pid)
    raise ConnectionError(f"nobody has the port {port}")


class Cutter:
    """`cut_commit` as a process: it goes on while the test waits."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.url = self._out.readline().strip()
        self.cuts: list[Side] = []
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        for line in self._out:
            self.cuts.append(cast("Side", line.split()[1]))

    def arm(self, side: Side) -> None:
        """The next COMMIT."""
        self._in.write(side + "\n")
        self._in.flush()

    def cut(self, side: Side, seconds: float = 60.0) -> None:
        """The next COMMIT; returns when it is cut."""
        count = len(self.cuts) + 1
        self.arm(side)
        wait_until(lambda: len(self.cuts) >= count, f"a COMMIT is cut: {side}", seconds)


@contextmanager
def cutter(server_url: str, word: str = "") -> Iterator[Cutter]:
    """In its own process, before this server."""
    command = [sys.executable, "-m", "tests.parts.cut_commit", server_url, word]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Cutter(process)
        finally:
            process.kill()


async def _program(server_url: str, word: str = "") -> None:
    async with CommitCutter(server_url, word) as proxy:
        print(proxy.url, flush=True)  # noqa: T201  (a program's answer)
        saying = asyncio.create_task(_say_cuts(proxy))
        while line := await asyncio.to_thread(sys.stdin.readline):
            side = line.strip()
            proxy.arm(cast("Side", side) if side in get_args(Side) else "after")
        saying.cancel()


async def _say_cuts(proxy: CommitCutter) -> None:
    said = 0
    while True:
        await proxy.wait_for_cuts(said + 1)
        print("cut", proxy.cuts[said], flush=True)  # noqa: T201
        said += 1


if __name__ == "__main__":
    asyncio.run(_program(*sys.argv[1:]))
