"""The fake lake with its state: what one database holds, and the rows of the table. `commit` is the trigger: all or nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from reactor.domain.spans import Position, PositionClaim, PositionKey, SourcePartition, Token
from reactor.ports import Epoch
from tests.properties.scene import fingerprint

if TYPE_CHECKING:
    from tests.properties.world import World


@dataclass
class Stored:
    """One position row, and for the checks which life of it this is: (reset by, started at)."""

    position: Position
    life: tuple[UUID, int]


class Store:
    """`broken`: the rule that a mutant breaks.

    `delivered`: rows and quarantine, as (source partition, life of its position, offset, asset partition). `outbox`: event ids in commit order.
    """

    broken: ClassVar[str | None] = None

    def __init__(self, world: World, sources: int) -> None:
        self.rows: dict[SourcePartition, Stored] = {}
        for p in range(sources):
            token = world.new_id()
            self.rows[world.partition(p)] = Stored(Position(0, Token(token), fingerprint(0), "0"), (token, 0))
        self.partition_token: dict[str, UUID] = {}
        self.table: dict[str, dict[tuple[UUID, Any], Any]] = {}
        self.delivered: list[tuple[SourcePartition, tuple[UUID, int], int, str]] = []
        self.outbox: list[str] = []
        self.publisher = Position(0, Token(world.new_id()), "")
        self.completed: set[UUID] = set()
        self.aborted: set[UUID] = set()

    def commit(self, run: UUID, claims: tuple[PositionClaim, ...], partitions: dict[str, UUID | None], diff: list[Any], rows: list[Any]) -> str:
        if run in self.completed or run in self.aborted:
            return "RF002"
        for i, claim in enumerate(sorted(claims, key=lambda c: c.key)):
            unchecked = self.broken == "no_token" or (i and self.broken == "one_position_checked")
            if self.rows[claim.key.source_partition].position.token != claim.believed and not unchecked:
                return "RF001"
        if any(self.partition_token.get(d) != t for d, t in partitions.items()) and self.broken != "no_partition_token":
            return "RF001 partition"
        if any(not deleted <= self.table.get(d, {}).keys() for d, deleted, _ in diff):
            return "conflict"
        for claim in claims:
            self.move(claim, run)
        for d, deleted, inserted in diff:
            self.table[d] = {r: k for r, k in self.table.get(d, {}).items() if r not in deleted} | inserted
        for d in partitions:
            self.partition_token[d] = run
        self.delivered += [(p, self.rows[p].life, o, d) for p, o, d in rows]
        self.outbox += [f"{run} {d}" for d in sorted({d for _, _, d in rows})]
        self.completed.add(run)
        return "committed"

    def move(self, claim: PositionClaim, run: UUID) -> None:
        q = self.rows[claim.key.source_partition]
        fences = {d: n for d, n in {**q.position.fences, **claim.rows}.items() if n is not None}
        q.position = Position(claim.floor, Token(run), q.position.routing, q.position.topic_id, fences=fences)

    def settle(self, claims: tuple[PositionClaim, ...], run: UUID) -> dict[PositionKey, Position | None]:
        refused: dict[PositionKey, Position | None] = {}
        for claim in claims:
            q = self.rows[claim.key.source_partition]
            if q.position.token == claim.believed:
                self.move(claim, run)
            else:
                refused[claim.key] = q.position
        return refused

    def reset(self, p: SourcePartition, run: UUID, floor: int, topic: str) -> None:
        """A new token, no fences."""
        q = self.rows[p]
        token = q.position.token if self.broken == "reset_keeps_token" else Token(run)
        fences = q.position.fences if self.broken == "reset_keeps_fences" else {}
        self.rows[p] = Stored(Position(floor, token, q.position.routing, topic, fences=fences), (run, floor))

    def switch(self, key: PositionKey, run: UUID, believed: UUID, routing: str) -> bool:
        """New routing at a common cut: every stream stands at the floor."""
        q = self.rows[key.source_partition]
        if q.position.token != believed or (q.position.fences and self.broken != "switch_any_time"):
            return False
        q.position = Position(q.position.floor, Token(run), routing, q.position.topic_id, fences=q.position.fences)
        return True


class Outbox:
    """What a publisher asks of the state, answered by the store of now: as much of `ports.State` as `Publishing` uses between two leases."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def epoch(self) -> Epoch:
        return Epoch(str(self.world.restores), 0)

    async def load(self, keys: Collection[PositionKey]) -> Mapping[PositionKey, Position]:
        return dict.fromkeys(keys, self.world.store.publisher)

    async def settle(self, claims: Collection[PositionClaim]) -> tuple[Token, frozenset[PositionKey]]:
        (claim,), token, store = claims, Token(self.world.new_id()), self.world.store
        if store.publisher.token != claim.believed:
            return token, frozenset({claim.key})
        store.publisher = Position(claim.floor, token, "")
        return token, frozenset()

    async def read_published(self, lo: int, limit: int) -> tuple[int, Sequence[Mapping[str, object]]]:
        events = self.world.store.outbox[lo : lo + limit]
        return lo + len(events), [{"id": event, "time": "1970-01-01T00:00:00.000Z"} for event in events]
