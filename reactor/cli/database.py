"""The project's database for the time of a verb: if it is the embedded one and nobody runs it, this process does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

from reactor.cli.call import Call
from reactor.embedded import EmbeddedParts, running
from reactor.errors import Outage
from reactor.opening import opened_state
from reactor.project import Project
from reactor.state import PostgresState


@contextmanager
def at_hand(call: Call, project: Project, *, making: bool = False) -> Iterator[None]:
    """The database answers while this is open. Enter it on the main thread, outside of the event loop.

    `making`: also if there has never been one; who only looks finds nothing in a new one. Raises `Outage`.
    """
    if not project.settings.state.embedded or running.state_url(project.private_folder) is not None:
        yield
        return
    if not making and not (project.private_folder / "postgres" / "data").exists():
        raise Outage("nothing has run in this project yet: its PostgreSQL has never been started", hint="`reactor dev` starts it and serves")
    call.note("the project's PostgreSQL does not run: it is started for this command")
    with EmbeddedParts(project.private_folder, postgres=True, broker=False):
        yield


def looked_at(project: Project) -> AbstractAsyncContextManager[PostgresState]:
    """The state as it is: nothing is migrated, by whatever verb but `migrate` and `serve`. Raises `Outage`, `StateForbids`, `UsageError`."""
    return opened_state(project, migrating=False)
