"""The state, whole: one pool, every part."""

from __future__ import annotations

from uuid import uuid4

from reactor.state.database import Database, Identity
from reactor.state.decisions import Decisions
from reactor.state.inbox import Inbox
from reactor.state.lakes import Lakes
from reactor.state.leases import Leases
from reactor.state.listing import Listing
from reactor.state.outbox import Outbox
from reactor.state.pauses import Pauses
from reactor.state.positions import Positions
from reactor.state.runs import Runs

POOL_SIZE_MAX = 10
"""Connections of one replica, those of the commit locks aside."""


class PostgresState(Positions, Runs, Decisions, Outbox, Inbox, Leases, Pauses, Lakes, Listing):
    """`ports.State` on PostgreSQL."""

    @classmethod
    async def open(
        cls, url: str, *, installation: str, workspace: str, replica: str = "", migrating: bool = True, pool_size_max: int = POOL_SIZE_MAX,
    ) -> PostgresState:
        """Migrate and connect; `migrating` False is for who only looks. `replica` names this process (one name a start).

        Raises `Outage`, `UsageError` (another identity, a newer schema, a refused login), `StateForbids` (an older schema, not migrating).
        """
        identity = Identity(installation, workspace, replica or uuid4().hex)
        state = cls(await Database.open(url, identity, pool_size_max=pool_size_max, migrating=migrating))
        await state.heartbeat()
        return state

    async def close(self) -> None:
        """Close all connections."""
        self.close_locks()
        await self._db.pool.close()
