"""The rules of the commit protocol, each broken in the core or in the fake lake: the world machine falls over every one.

The seventeen of the protocol's model, and what random lives taught beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from reactor.core import engine as engines
from reactor.core import ledger as ledgers
from reactor.core.edits import Edits
from reactor.core.engine import Engine
from reactor.core.ledger import Inflight, Ledger
from reactor.core.reading import Routed, route
from reactor.domain.spans import Piece, Position, PositionClaim, Token
from tests.mutants.mutant import Mutant, Patch, in_store

MACHINE, WALKS = (f"tests/properties/test_world.py::{name}" for name in ("TestWorldMachine::runTest", "test_lives_lose_double_and_leave_nothing"))
_claim, _take_own, _rebase = Ledger._claim, Ledger.take_own, Ledger.rebase

STORE = {
    "no_token": "a commit is accepted whatever it believes",
    "one_position_checked": "of several positions in a commit only the first is compared",
    "reset_keeps_token": "`positions reset` leaves the token as it was",
    "reset_keeps_fences": "`positions reset` leaves the rows of fence",
    "no_partition_token": "merges do not name the token of the asset partition",
    "partition_token_late": "the token of the asset partition is read after the lake transaction began",
}


def _claimed(ledger: Ledger, taken: Any, floor: int, keep: Callable[[str, int], bool]) -> Inflight:
    """The claim as `Ledger._claim` makes it, with another floor and only those fences that `keep` lets through."""
    honest = _claim(ledger, taken)
    after = {d: n for d, n in honest.after.items() if n != floor and keep(d, n)}
    rows = {d: after.get(d) for d in {*ledger.fences, *after} if ledger.fences.get(d) != after.get(d)}
    return Inflight(taken, PositionClaim(ledger.key, ledger.token, floor, rows), after)


def floor_over_open(patch: Patch) -> None:
    """The floor moves over slices that are still open."""
    patch.setattr(Ledger, "_claim", lambda self, taken: _claimed(self, taken, max(self.floor, self.head), lambda _d, _n: True))


def floor_over_blocked(patch: Patch) -> None:
    """No row is written for a blocked stream that the floor passes."""
    patch.setattr(Ledger, "_claim", lambda self, taken: _claimed(self, taken, (f := _claim(self, taken).claim.floor), lambda _d, n: n > f))


def ahead_forgotten(patch: Patch) -> None:
    """No row is written for a stream that is ahead of the floor: one fence per source partition instead of per stream."""
    patch.setattr(Ledger, "_claim", lambda self, taken: _claimed(self, taken, (f := _claim(self, taken).claim.floor), lambda _d, n: n < f))


def offset_not_stream(patch: Patch) -> None:
    """A record of two slices counts as settled when one of them is."""

    def claim(self: Ledger, taken: Any) -> Inflight:
        settled = {o for pieces, _ in taken.values() for piece in pieces for o in offsets(piece)}
        behind = {d for d in {*self.fences, *self.blocked} if d in self.blocked or self.at(d) < self.floor}
        waiting = {o for d, pieces in self.open.items() if d not in behind for piece in pieces for o in offsets(piece)} - settled
        floor = max(self.floor, min(waiting, default=self.head))
        return _claimed(self, taken, floor, lambda _d, _n: True)

    patch.setattr(Ledger, "_claim", claim)


def offsets(piece: Piece) -> Iterable[int]:
    assert isinstance(piece.payload, tuple)
    return (o for o in piece.payload if o >= piece.lo)


def to_is_head(patch: Patch) -> None:
    """A stream with a reader of its own claims up to the shared head."""
    patch.setattr(Ledger, "_reach", lambda self, _d: self.head)


def join_early(patch: Patch) -> None:
    """Back to the shared reader before the own one has reached it."""

    def take_own(self: Ledger, lo: int, hi: int, pieces: Any, shared_head: int) -> Any:
        accepted = _take_own(self, lo, hi, pieces, shared_head)
        self.detached = None
        return accepted

    def take(self: Ledger, _lo: int, hi: int, pieces: Any) -> Any:
        return self._route(hi, pieces) if self.detached is None else []

    patch.setattr(Ledger, "take_own", take_own)
    patch.setattr(Ledger, "take", take)


def rebase_blindly(patch: Patch) -> None:
    """After RF001 go on with what is in memory, even if the store is behind it."""

    def rebase(self: Ledger, stored: Position) -> bool:
        if not _rebase(self, stored):
            self.floor, self.token, self.fences = stored.floor, stored.token, dict(stored.fences)
            self.head = max(self.head, stored.floor)
        return True

    patch.setattr(Ledger, "rebase", rebase)


def keep_nothing_reread_nothing(patch: Patch) -> None:
    """After RF001 drop the slice and read on."""

    def put_back(self: Ledger) -> None:
        self._drop_inflight()

    rebase_blindly(patch)
    patch.setattr(Ledger, "put_back", put_back)


def old_outcome_settles(patch: Patch) -> None:
    """An outcome from before a reload is applied to what was loaded since."""
    honest = Ledger.committed
    newest: dict[Any, Ledger] = {}
    init = Ledger.__init__

    def remember(self: Ledger, key: Any, position: Position, **rest: Any) -> None:
        init(self, key, position, **rest)
        newest[key] = self

    def committed(self: Ledger, token: Token) -> None:
        current = newest[self.key]
        if current is not self and self.inflight is not None:
            current.floor, current.token, current.fences = self.inflight.claim.floor, token, dict(self.inflight.after)
            current.head = max(current.head, current.floor)
        honest(self, token)

    patch.setattr(Ledger, "__init__", remember)
    patch.setattr(Ledger, "committed", committed)


def no_settle(patch: Patch) -> None:
    """A floor that no run carries is never written."""
    patch.setattr(Engine, "settle", lambda _self, _lanes: [])


def switch_any_time(patch: Patch) -> None:
    """New routing while some stream is not at the floor."""
    in_store("switch_any_time")(patch)
    patch.setattr(Ledger, "at_cut", property(lambda self: self.inflight is None))
    patch.setattr(Edits, "stopped", lambda _self, lane, ledger: ledger.routing != lane.routing)


def held_forgotten(patch: Patch) -> None:
    """What the shared reader brought while another one caught up is dropped."""
    patch.setattr(ledgers.Catchup, "hold", lambda _self, _lo, _hi, _pieces: None)


def unsplit_is_empty(patch: Patch) -> None:
    """What was split by no routing of a reader's, while that was being loaded, is taken for empty."""
    patch.setattr(engines, "route", lambda *args: route(*args) or Routed({}, {}))


CORE: list[Callable[[Patch], None]] = [
    floor_over_open, floor_over_blocked, ahead_forgotten, offset_not_stream, to_is_head, join_early, rebase_blindly, keep_nothing_reread_nothing,
    old_outcome_settles, no_settle, switch_any_time, unsplit_is_empty,
]  # fmt: skip


def said(install: Callable[[Patch], None]) -> str:
    """Which rule a function breaks."""
    text = (install.__doc__ or "").strip().rstrip(".")
    return text[0].lower() + text[1:]


MUTANTS = [
    *(Mutant(name, breaks, "protocol", MACHINE, in_store(name)) for name, breaks in STORE.items()),
    *(Mutant(install.__name__, said(install), "protocol", MACHINE, install) for install in CORE),
    Mutant("held_forgotten", said(held_forgotten), "protocol", WALKS, held_forgotten),
]
