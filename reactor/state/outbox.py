"""The outbox: what was committed, numbered by whoever reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from uuid import UUID

from asyncpg import Record

from reactor.domain.events import AssetUpdated
from reactor.state.database import Part

NEWEST = 2**63 - 1
"""Above every offset."""


class Outbox(Part):
    """Rows of `outbox`; each read numbers first what is committed and has no number."""

    async def outbox_next(self) -> int:
        """The next offset: *now*, for a new subscriber."""
        return int(await self._db.value("number", self._workspace))

    async def read_outbox(self, lo: int, limit: int) -> Sequence[AssetUpdated]:
        """The events at offsets >= lo, in order, internal ones (`changed` False) too."""
        return [_updated(row) for row in await self._read(lo, limit)]

    async def read_published(self, lo: int, limit: int) -> tuple[int, Sequence[Mapping[str, object]]]:
        """The CloudEvents of at most `limit` rows from offset `lo` on, and the offset behind those rows."""
        rows = await self._read(lo, limit)
        return (rows[-1]["offset"] + 1 if rows else lo), [row["event"] for row in rows if row["changed"]]

    async def events(self, asset: str | None = None, before: int = NEWEST, limit: int = 50) -> Sequence[tuple[int, Mapping[str, object]]]:
        """(offset, CloudEvent), newest first, below the offset `before`."""
        await self.outbox_next()
        return [(row["offset"], row["event"]) for row in await self._db.rows("list_events", self._workspace, before, asset, limit)]

    async def event(self, event_id: str) -> Mapping[str, object] | None:
        """One CloudEvent, with the lists that its size had emptied as long as its run is kept."""
        row = await self._db.row("event", event_id)
        if row is None:
            return None
        event: dict[str, object] = row["event"]
        whole = {"upstream_snapshots": row["upstream_snapshots"], "chain": row["chain"] and [*row["chain"], row["script"]]}
        data = dict(row["event"]["data"])
        for name in [n for n in data.get("truncated", ()) if whole[n] is not None]:
            data[name] = whole[name]
        return {**event, "data": data}

    async def _read(self, lo: int, limit: int) -> list[Record]:
        await self.outbox_next()
        return await self._db.rows("read_outbox", self._workspace, lo, limit)


def _updated(row: Record) -> AssetUpdated:
    data = row["event"]["data"]
    return AssetUpdated(
        offset=row["offset"], event_id=row["event_id"], asset=row["asset"], partition=row["partition"], snapshot_id=row["snapshot_id"],
        lake=row["lake"], committed_at=row["committed_at"].timestamp(), run_id=row["run_id"],
        root_run_id=data["root_run_id"] and UUID(data["root_run_id"]), script=data["script"], chain=tuple(row["chain"] or ()),
        changed=row["changed"], schema_changed=data["schema_changed"], cascade=row["cascade"],
        rows=(data["rows_inserted"] or 0) + (data["rows_deleted"] or 0), size_bytes=len(json.dumps(row["event"])))
