"""The state in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import islice
from uuid import UUID, uuid4

from reactor.domain.decisions import Decision
from reactor.domain.events import AssetUpdated, RunRequested
from reactor.domain.runs import PartitionCounts, RunId, RunState, UpstreamSnapshot
from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, Token
from reactor.errors import Conflict
from reactor.ports import Arrival, Epoch, NewPosition, NewRun, PartitionTokens, Verdict
from reactor.testing.memory_database import MemoryDatabase, PartitionRow, RunRow, Tables, asset_of

DAY_SECONDS = 86_400


class MemoryState:
    """`ports.State` over a `MemoryDatabase`: one replica of those that share it, on one event loop. Each method is one transaction.

    It differs from the real one where nobody may lean on it: an event has its number at once, where PostgreSQL numbers what is committed as it is
    read (and then what changed nothing last); no event is too large; no error is cut; no other tool commits; an abort never has to wait for a commit.
    Of a decision it keeps only when it was taken.
    """

    def __init__(self, database: MemoryDatabase, replica: str = "") -> None:
        self._db, self.replica = database, replica or uuid4().hex
        with database.transaction() as tables:
            tables.seen[self.replica] = database.now()

    async def load(self, keys: Collection[PositionKey]) -> Mapping[PositionKey, Position]:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            return {key: tables.positions[key] for key in keys if key in tables.positions}

    async def insert_positions(self, positions: Collection[NewPosition]) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            for p in positions:
                new = Position(p.floor, Token(uuid4()), p.routing, p.topic_id, p.started_from, table_uuid=p.table_uuid)
                tables.positions.setdefault(p.key, new)

    async def settle(self, claims: Collection[PositionClaim]) -> tuple[Token, frozenset[PositionKey]]:
        """See `ports.State`."""
        me = Token(uuid4())
        return me, self._db.move(me, claims)

    async def reset(self, key: PositionKey, floor: int, topic_id: str | None, started_from: str, reason: str, *,  # noqa: ARG002 - the reason is for who looks
                    believed: Token | None = None, table_uuid: UUID | None = None) -> bool:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            stored = tables.positions.get(key)
            if stored is None or believed not in {None, stored.token}:
                return False
            tables.positions[key] = Position(floor, Token(uuid4()), stored.routing, topic_id, started_from, table_uuid=table_uuid)
            return True

    async def arrive(self, consumer: Consumer, arrivals: Sequence[Arrival], claims: Collection[PositionClaim]) -> Token:
        """See `ports.State`."""
        me = Token(uuid4())
        with self._db.transaction() as tables:
            if self._db.move(me, claims):
                raise Conflict("reactor RF001: position")
            for arrival in sorted(arrivals, key=lambda a: (a.asset_partition, a.event_id)):
                tables.arrivals.setdefault((consumer, arrival.asset_partition, arrival.event_id), arrival)
        return me

    async def arrivals(self, consumer: Consumer) -> Sequence[Arrival]:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            return [arrival for (of, *_), arrival in tables.arrivals.items() if of == consumer]

    async def switch(self, key: PositionKey, believed: Token, routing: str) -> bool:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            stored = tables.positions.get(key)
            if stored is None or stored.token != believed or stored.fences:
                return False
            tables.positions[key] = replace(stored, token=Token(uuid4()), routing=routing)
            return True

    async def record_gap(self, key: PositionKey, lo: int, hi: int, reason: str) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            tables.gaps.setdefault((key, lo, hi), reason)

    async def partition_tokens(self, asset: str, asset_partitions: Collection[str]) -> PartitionTokens:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            rows = {name: tables.partitions.get((asset, name)) for name in asset_partitions}
            uuids = (p.table_uuid for key, p in tables.positions.items()
                     if key.consumer == asset and p.table_uuid and not key.source_partition.source.startswith("inbox://"))
            materialized = frozenset(name for name, row in rows.items() if row and row.snapshot_id is not None)
            return PartitionTokens({name: row.token if row else None for name, row in rows.items()}, self._epoch(), next(uuids, None), materialized)

    async def epoch(self) -> Epoch:
        """See `ports.State`."""
        with self._db.transaction():
            return self._epoch()

    def _epoch(self) -> Epoch:
        return Epoch(str(self._db.life), 0)

    async def upstream_snapshots(self, assets: Collection[str]) -> Sequence[UpstreamSnapshot]:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            newest = {e.asset: e for e, _ in tables.outbox.values() if e.changed}
            return [UpstreamSnapshot(asset, e.snapshot_id, e.partition or None)
                    for asset in assets if (e := newest.get(asset)) and e.snapshot_id is not None]

    async def insert_run(self, run: NewRun) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            self._insert(tables, run)

    def _insert(self, tables: Tables, run: NewRun) -> None:
        if (there := tables.runs.get(run.run_id)) is None:
            tables.runs[run.run_id] = RunRow(run, self.replica, dict(run.timings))
        elif there.state == "running":
            tables.runs[run.run_id] = replace(there, run=run, timings=dict(run.timings))
        self._decide(tables, run.decisions)

    async def complete(self, run_id: RunId, counts: Sequence[PartitionCounts]) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            row = tables.runs.get(run_id)
            if row is None or (row.state, row.snapshot_id) != ("completed", None):
                self._db.complete(run_id, counts)

    async def append_log(self, run_id: RunId, chunk: int, text: str, keep_from: int) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            for of, number in list(tables.logs):
                if of == run_id and number < keep_from:
                    del tables.logs[of, number]
            if run_id in tables.runs:
                tables.logs.setdefault((run_id, chunk), text)

    async def verdict(self, run_id: RunId, lake: str, snapshot_before: int) -> Verdict:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            row = tables.runs.get(run_id)
            if row is None:
                return Verdict("gone")
            if row.state == "completed":
                began = [n for n, schema in enumerate(tables.schemas.get(asset_of(row.run), ()), 1) if schema.run_id == run_id]
                return Verdict("completed", row.snapshot_id, row.snapshot_id is not None, began[0] if began else None)
            if row.state != "running":
                return Verdict("ended")
            marked = run_id in tables.snapshots[lake][snapshot_before + 1:]
            return Verdict("trigger_missing" if marked or lake in self._db.untriggered else "running")

    async def last_snapshot(self, lake: str) -> int:
        """See `ports.State`."""
        with self._db.transaction():
            return self._db.last_snapshot(lake)

    async def abort(self, run_id: RunId) -> RunState | None:
        """See `ports.State`."""
        self._abort(lambda row: row.run.run_id == run_id)
        with self._db.transaction() as tables:
            return tables.runs[run_id].state if run_id in tables.runs else None

    def _abort(self, wanted: Callable[[RunRow], bool]) -> Collection[RunId]:
        with self._db.transaction() as tables:
            gone = {run_id: replace(row, state="aborted") for run_id, row in tables.runs.items() if row.state == "running" and wanted(row)}
            tables.runs |= gone
            return list(gone)

    async def note_timings(self, run_id: RunId, timings: Mapping[str, float]) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            if (row := tables.runs.get(run_id)) is not None:
                tables.runs[run_id] = replace(row, timings={**row.timings, **timings})

    async def purge_runs(self, days: int, rows_max: int) -> int:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            oldest = (self._db.now() - days * DAY_SECONDS) * 1000
            ended = sorted(r for r, row in tables.runs.items() if row.state not in {"queued", "running"} and r.int >> 80 < oldest)
            for run_id in ended[:rows_max]:
                del tables.runs[run_id]
            for key in [key for key in tables.logs if key[0] not in tables.runs]:
                del tables.logs[key]
            return len(ended[:rows_max])

    async def fail(self, run_id: RunId | None, run: NewRun | None, error: str, *, final: bool) -> None:
        """See `ports.State`. What somebody else has moved on since is left alone."""
        with self._db.transaction() as tables:
            if run_id is None and run is not None:
                self._insert(tables, run)
                run_id = run.run_id
            row = tables.runs.get(run_id) if run_id is not None else None
            if row is None or row.state != "running":
                return
            run = row.run
            tables.runs[run.run_id] = replace(row, state="failed", error=error)
            if final and all(c.key not in tables.positions or tables.positions[c.key].token == c.believed for c in run.positions):
                self._fail_partitions(tables, run)

    def _fail_partitions(self, tables: Tables, run: NewRun) -> None:
        me = Token(run.run_id)
        for claim in run.partitions:
            stored = tables.partitions.get((asset_of(run), claim.asset_partition))
            if stored is None or not claim.compare or stored.token == claim.believed:
                tables.partitions[asset_of(run), claim.asset_partition] = replace(stored or PartitionRow(me), token=me, status="failed")

    async def write_decisions(self, decisions: Sequence[Decision]) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            self._decide(tables, decisions)

    def _decide(self, tables: Tables, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            tables.decisions.setdefault(decision.key, self._db.now())

    async def purge_decisions(self, days: int, limit: int) -> int:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            old = (key for key, decided_at in tables.decisions.items() if decided_at < self._db.now() - days * DAY_SECONDS)
            gone = list(islice(old, limit))
            for key in gone:
                del tables.decisions[key]
            return len(gone)

    async def heartbeat(self) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            tables.seen[self.replica] = self._db.now()

    async def abort_silent_runs(self, silent_seconds: float = 30.0) -> Collection[RunId]:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            heard = {replica for replica, at in tables.seen.items() if at > self._db.now() - silent_seconds}
            return self._abort(lambda row: row.replica not in heard)

    async def abort_own_runs(self) -> None:
        """See `ports.State`."""
        self._abort(lambda row: row.replica == self.replica)

    async def pauses(self) -> Collection[Consumer]:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            return set(tables.pauses)

    @asynccontextmanager
    async def commit_lock(self, lake: str, timeout_seconds: float) -> AsyncIterator[bool]:
        """See `ports.State`."""
        lock = self._db.commit_locks[lake]
        held = False
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                held = await lock.acquire()
        try:
            yield held
        finally:
            if held:
                lock.release()

    async def lease(self, name: str, holder: str, seconds: float = 15.0) -> bool:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            now = self._db.now()
            held_by, expires_at = tables.leases.get(name, (holder, now))
            if held_by != holder and expires_at > now:
                return False
            tables.leases[name] = holder, now + seconds
            return True

    async def release(self, name: str, holder: str) -> None:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            if tables.leases.get(name, ("", 0.0))[0] == holder:
                del tables.leases[name]

    async def read_outbox(self, lo: int, limit: int) -> Sequence[AssetUpdated]:
        """See `ports.State`."""
        return [update for update, _ in self._told(lo, limit)]

    async def read_published(self, lo: int, limit: int) -> tuple[int, Sequence[Mapping[str, object]]]:
        """See `ports.State`."""
        told = self._told(lo, limit)
        return lo + len(told), [event for update, event in told if update.changed]

    def _told(self, lo: int, limit: int) -> Sequence[tuple[AssetUpdated, Mapping[str, object]]]:
        with self._db.transaction() as tables:
            return [tables.outbox[offset] for offset in range(lo, min(lo + limit, len(tables.outbox)))]

    async def outbox_next(self) -> int:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            return len(tables.outbox)

    async def request_run(self, *, script: str, partition: str, actor: str, reason: str = "manual", cascade: bool = True,
                          replace_slice: bool = False, arguments: Mapping[str, object] | None = None) -> tuple[int, str]:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            asked = RunRequested(
                len(tables.inbox), uuid4().hex, script, partition, self._db.now(), actor, reason, cascade, replace_slice, dict(arguments or {}))
            tables.inbox[asked.offset] = asked
            return asked.offset, asked.event_id

    async def read_inbox(self, lo: int, limit: int) -> Sequence[RunRequested]:
        """See `ports.State`."""
        with self._db.transaction() as tables:
            return [tables.inbox[offset] for offset in range(lo, min(lo + limit, len(tables.inbox)))]
