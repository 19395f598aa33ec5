"""Leases: one replica at a time does a job. A lease saves work; the tokens keep the truth."""

from __future__ import annotations

from reactor.state.database import Part


class Leases(Part):
    """Rows of `lease`."""

    async def lease(self, name: str, holder: str, seconds: float = 15.0) -> bool:
        """Take or renew a lease by the database's clock; False: somebody else holds it."""
        return bool(await self._db.value("lease", name, holder, seconds))

    async def lease_holder(self, name: str) -> str | None:
        """Who holds it now."""
        holder: str | None = await self._db.value("lease_holder", name)
        return holder

    async def release(self, name: str, holder: str) -> None:
        """Give it back, if it is ours."""
        await self._db.value("release", name, holder)
