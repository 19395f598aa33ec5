"""Which consumers are paused, by whom and why. Every replica asks now and then, and starts no run of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from reactor.domain.spans import Consumer
from reactor.state.database import Part


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """Why a consumer is paused."""

    consumer: str
    reason: str
    actor: str
    paused_at: datetime


class Pauses(Part):
    """Rows of `pause`."""

    async def pause(self, consumer: Consumer, *, reason: str, actor: str) -> bool:
        """Start no run of it from now on. False: it is paused already, and stays so with the reason of then."""
        return await self._db.row("pause", self._workspace, consumer, reason, actor) is not None

    async def resume(self, consumer: Consumer) -> bool:
        """Start runs of it again. False: it is not paused."""
        return await self._db.row("resume", self._workspace, consumer) is not None

    async def pauses(self) -> Mapping[Consumer, PauseRecord]:
        """All that are paused now."""
        found = [PauseRecord(**row) for row in await self._db.rows("list_pauses", self._workspace)]
        return {Consumer(record.consumer): record for record in found}
