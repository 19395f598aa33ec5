"""Where a project's database is, and how its state is opened: for `wiring`, and for verbs that need nothing else and should not wait for more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reactor.embedded import running
from reactor.errors import Outage
from reactor.project import Project
from reactor.state import PostgresState
from reactor.state.database import Identity


def state_url(project: Project) -> str:
    """Where the database is. Raises `Outage` if it is the embedded one and nobody runs it."""
    if not project.settings.state.embedded:
        return project.settings.state.url.reveal()
    found = running.state_url(project.private_folder)
    if found is None:
        raise Outage(
            "the embedded PostgreSQL of this project is not running",
            hint="`reactor dev` starts it and serves; or set [state] url in reactor.toml to a PostgreSQL of yours",
        )
    return found


def identity_of(project: Project, replica: str = "") -> Identity:
    """The names that stand in every row."""
    return Identity(project.settings.installation, project.settings.workspace, replica)


@asynccontextmanager
async def opened_state(project: Project, replica: str = "", *, migrating: bool = True) -> AsyncIterator[PostgresState]:
    """The state, migrated; `migrating` False is for who only looks. Raises `Outage`, `UsageError`, `StateForbids` (not migrated yet)."""
    s = project.settings
    state = await PostgresState.open(
        state_url(project), installation=s.installation, workspace=s.workspace, replica=replica, migrating=migrating)
    try:
        yield state
    finally:
        await state.close()
