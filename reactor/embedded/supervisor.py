"""Both parts as one context."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from reactor.embedded.broker import EmbeddedBroker
from reactor.embedded.postgres import EmbeddedPostgres


class EmbeddedParts:
    """`with EmbeddedParts(project / ".reactor", postgres=True, broker=False) as parts`: the parts that no setting replaces.

    Enter it on the main thread, before the event loop: it blocks for about a second. `state_url` and `bootstrap_servers` are None for a
    part that was not asked for. Raises what the parts raise; after that nothing runs.
    """

    state_url: str | None = None
    bootstrap_servers: str | None = None

    def __init__(self, folder: Path, *, postgres: bool = True, broker: bool = True) -> None:
        self._postgres = EmbeddedPostgres(folder / "postgres") if postgres else None
        self._broker = EmbeddedBroker(folder / "broker") if broker else None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._postgres is not None:
                self.state_url = stack.enter_context(self._postgres)
            if self._broker is not None:
                self.bootstrap_servers = stack.enter_context(self._broker)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ended(self) -> str | None:
        """What to say if a part has ended by itself; None while all live. Ask it every second or so."""
        parts = (part for part in (self._postgres, self._broker) if part is not None)
        return next((said for part in parts if (said := part.ended()) is not None), None)
