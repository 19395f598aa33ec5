"""The inbox: runs that somebody asked for, numbered in the short transaction that inserts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reactor.domain.events import RunRequested
from reactor.state.database import Part


class Inbox(Part):
    """Rows of `inbox`."""

    async def request_run(self, *, script: str, partition: str, actor: str, reason: str = "manual", cascade: bool = True,
                          replace_slice: bool = False, arguments: Mapping[str, object] | None = None) -> tuple[int, str]:
        """Ask for a run: its offset, and the event id that the trigger of its runs will name."""
        row = await self._db.one(
            "request_run", self._workspace, script, partition, actor, reason, cascade, replace_slice, dict(arguments or {}))
        return row["offset"], row["event_id"]

    async def inbox_next(self) -> int:
        """The offset that the next request will have."""
        return int(await self._db.value("inbox_next", self._workspace))

    async def read_inbox(self, lo: int, limit: int) -> Sequence[RunRequested]:
        """Runs asked for, at offsets >= lo, in order."""
        return [
            RunRequested(
                offset=row["offset"], event_id=row["event_id"], script=row["script"], partition=row["partition"],
                requested_at=row["requested_at"].timestamp(), actor=row["actor"], reason=row["reason"], cascade=row["cascade"],
                replace_slice=row["replace_slice"], arguments=row["arguments"])
            for row in await self._db.rows("read_inbox", self._workspace, lo, limit)]
