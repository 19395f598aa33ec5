"""What one consumer has read of one source partition, and what it may claim in a commit. The rules are those of `commit.md` 1, 2 and 5.

*Believed* is exactly what is stored, or the next commit is refused: `floor`, `token`, `fences`. *Read* is everything of a stream from its
fence up to its reach: it lies in `open`, in the run in flight, or is settled. `head` is how far the records are routed.

    stored:  floor ───────────────┬── fence of a stream that is ahead        (a row above the floor)
             fence of a blocked ──┘   (a row below: it waits, and holds nobody)
    memory:  open pieces [fence, reach) of each stream            reach = head, or how far the blocked stream's own reader is

The ledger is *attached* while the shared reader feeds it. Detached (new, at its cap, loaded behind the shared reader) it is read by a
reader of its own up to where the shared one is: what that one brings meanwhile is held, so the two meet. A blocked stream's rows leave
memory; it is read again by a reader of its own, in pieces. Every load has a new ledger: outcomes of older runs settle nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from reactor.domain.spans import Piece, Position, PositionClaim, PositionKey, Token

HELD_BYTES_MAX = 16 * 1024 * 1024
"""Of records that the shared reader brings while another one catches up: beyond it, they are dropped and read again."""

Pieces = Mapping[str, Piece]
"""Asset partition → piece, of one span."""
Accepted = list[tuple[str, Piece]]


@dataclass(slots=True)
class Catchup:
    """A reader of one's own goes to `target`; from there on the shared reader's pieces are `held`.

    `held` None: they became too much, so the target moves when it is reached. `asked`: a read is out.
    """

    target: int
    held: list[tuple[int, Pieces]] | None = field(default_factory=list)
    held_bytes: int = 0
    asked: bool = False

    def hold(self, lo: int, hi: int, pieces: Pieces) -> None:
        """The shared reader brought `[lo, hi)`."""
        if self.held is None or lo < self.target:
            return
        self.held.append((hi, pieces))
        self.held_bytes += sum(p.size_bytes for p in pieces.values())
        if self.held_bytes > HELD_BYTES_MAX:
            self.held = None

    def retarget(self, head: int) -> None:
        """Aim at the shared reader again: what was held is read again."""
        self.target, self.held, self.held_bytes = head, [], 0


@dataclass(slots=True)
class Blocked:
    """A stream whose run failed for good. `at`: all before it is read again (its fence, until a retry). `retry_at`: POSIX seconds."""

    at: int
    retry_at: float
    catchup: Catchup | None = None


@dataclass(frozen=True, slots=True)
class Inflight:
    """What a run in flight took, what it claims and what will be believed once it is committed. A settle takes nothing."""

    taken: Mapping[str, tuple[tuple[Piece, ...], int]]
    claim: PositionClaim
    after: Mapping[str, int]


class Ledger:
    """One consumer on one source partition, since one load of its position."""

    def __init__(self, key: PositionKey, position: Position, *, load: int, shared_head: int, retry_blocked_at: float) -> None:
        self.key, self.load = key, load
        self.floor, self.token, self.routing, self.topic_id = position.floor, position.token, position.routing, position.topic_id
        self.fences: dict[str, int] = dict(position.fences)
        self.head = position.floor
        self.blocked = {d: Blocked(n, retry_blocked_at) for d, n in self.fences.items() if n < self.floor}
        self.open: dict[str, list[Piece]] = {}
        self.inflight: Inflight | None = None
        self.memory_bytes = 0
        self.duplicate_rows = 0
        self.detached: Catchup | None = Catchup(shared_head) if self.head < shared_head else None
        self.parked = False

    def at(self, asset_partition: str) -> int:
        """The stream's next offset as it is stored."""
        return self.fences.get(asset_partition, self.floor)

    @property
    def low(self) -> int:
        """From where a reader would have to start so that no stream misses a record."""
        return min((self.floor, *self.fences.values()))

    @property
    def waiting_from(self) -> int:
        """The offset of the first record that waits: open, in flight, blocked, or not read yet. Markers and holes are no records."""
        inflight = self.inflight.taken.values() if self.inflight else ()
        pieces = (ps[0].lo for ps in (*self.open.values(), *(taken for taken, _ in inflight)))
        return min((self.head, *(self.at(d) for d in self.blocked), *pieces))

    def reads_along(self, routing: str) -> bool:
        """Whether it only takes what the shared reader brings, by this routing."""
        return self.detached is None and not self.blocked and self.routing == routing

    # -- reading

    def take(self, lo: int, hi: int, pieces: Pieces) -> Accepted:
        """A span of the shared reader. Detached, it is held or left out; else what no commit has settled is open now."""
        if self.detached is not None:
            self.detached.hold(lo, hi, pieces)
            return []
        return self._route(hi, pieces)

    def take_own(self, lo: int, hi: int, pieces: Pieces, shared_head: int) -> Accepted:
        """A span of the ledger's own reader. At its target it goes on with what was held, and is attached when that reaches the shared head."""
        if self.detached is None or lo != self.head:
            return []
        return self._route(hi, pieces) + self.meet(shared_head)

    def meet(self, shared_head: int) -> Accepted:
        """At its target a detached ledger takes what was held; where that reaches the shared head it is attached, else it aims again."""
        catchup, accepted = self.detached, Accepted()
        if catchup is None or self.head < catchup.target:
            return accepted
        for held_to, held in catchup.held or ():
            accepted += self._route(held_to, held)
        if self.head >= shared_head:
            self.detached = None
        else:
            catchup.retarget(shared_head)
        return accepted

    def detach(self) -> None:
        """At its cap, or split by another routing: the shared reader goes on without it, and nothing of that is held."""
        if self.detached is None:
            self.detached = Catchup(self.head)
        self.detached.held = None

    def take_blocked(self, asset_partition: str, lo: int, hi: int, piece: Piece | None) -> Accepted:
        """A span of a blocked stream's own reader; with the last one it is an ordinary stream again."""
        blocked = self.blocked.get(asset_partition)
        if blocked is None or blocked.catchup is None or blocked.at != lo:
            return []
        accepted: Accepted = []
        self._open(asset_partition, piece, lo, accepted)
        blocked.at = hi
        catchup = blocked.catchup
        if hi >= catchup.target:
            if catchup.held is None:
                catchup.retarget(self.head)
            else:
                del self.blocked[asset_partition]
                for _, held in catchup.held:
                    self._open(asset_partition, held.get(asset_partition), hi, accepted)
        return accepted

    def _route(self, hi: int, pieces: Pieces) -> Accepted:
        accepted: Accepted = []
        lo = self.head
        if hi <= lo:  # the shared reader is still behind the floor that was loaded
            self.duplicate_rows += sum(p.rows for p in pieces.values())
            return accepted
        self.head = hi
        for asset_partition, piece in pieces.items():
            blocked = self.blocked.get(asset_partition)
            if blocked is None:
                self._open(asset_partition, piece, max(lo, self.at(asset_partition)), accepted)
            elif blocked.catchup is not None:
                blocked.catchup.hold(lo, hi, {asset_partition: piece})
        return accepted

    def _open(self, asset_partition: str, piece: Piece | None, lo: int, accepted: Accepted) -> None:
        if piece is None or piece.hi <= lo:
            self.duplicate_rows += piece.rows if piece else 0
            return
        waiting = self.open.setdefault(asset_partition, [])
        if piece.lo < lo or not waiting:
            piece = replace(piece, lo=max(lo, piece.lo), first=not waiting)
        waiting.append(piece)
        self.memory_bytes += piece.memory_bytes
        accepted.append((asset_partition, piece))

    # -- claims

    def start(self, asset_partitions: Iterable[str], bytes_max: int | None = None) -> Inflight | None:
        """Take these slices into a run; None if nothing of them is here. A ledger has one run at a time.

        `bytes_max`: of each slice that is larger only what comes first is taken, one piece at least.
        """
        taken = {d: self._take_out(d, bytes_max) for d in asset_partitions if d in self.open}
        if not taken:
            return None
        self.inflight = self._claim(taken)
        return self.inflight

    def _take_out(self, asset_partition: str, bytes_max: int | None) -> tuple[tuple[Piece, ...], int]:
        """What a run takes of a slice, and the offset before which the stream is settled with it."""
        pieces = self.open.pop(asset_partition)
        if bytes_max is not None:
            n = max(1, bisect_right([*accumulate(piece.size_bytes for piece in pieces)], bytes_max))
            if left := pieces[n:]:
                self.open[asset_partition] = [replace(left[0], first=True), *left[1:]]
                return tuple(pieces[:n]), left[0].lo
        return tuple(pieces), self._reach(asset_partition)

    def start_settle(self) -> Inflight | None:
        """What is settled and no run carries (duplicates, markers, skipped records); None: what is stored is right."""
        inflight = self._claim({})
        if (inflight.claim.floor, inflight.after) == (self.floor, self.fences):
            return None
        self.inflight = inflight
        return inflight

    def again(self) -> PositionClaim | None:
        """The same slices in a new transaction: the claim is made anew, for what is believed may be newer (only its token, or none)."""
        if self.inflight is None:
            return None
        self.inflight = self._claim(self.inflight.taken)
        return self.inflight.claim

    def _reach(self, asset_partition: str) -> int:
        blocked = self.blocked.get(asset_partition)
        return blocked.at if blocked else self.head

    def _claim(self, taken: Mapping[str, tuple[tuple[Piece, ...], int]]) -> Inflight:
        behind = {d for d in {*self.fences, *self.blocked} if d in self.blocked or self.at(d) < self.floor}
        waiting = [pieces[0].lo for d, pieces in self.open.items() if d not in behind]
        floor = max(self.floor, min(waiting, default=self.head))
        after: dict[str, int] = {}
        for d in {*self.fences, *self.blocked, *self.open, *taken}:
            n = taken[d][1] if d in taken else self.at(d)
            late = d in behind and (d in self.blocked or (d in self.open and self.open[d][0].lo < floor))
            if n > floor or (n < floor and late):
                after[d] = n
        rows = {d: after.get(d) for d in {*self.fences, *after} if self.fences.get(d) != after.get(d)}
        return Inflight(taken, PositionClaim(self.key, self.token, floor, rows), after)

    # -- outcomes

    def committed(self, token: Token) -> None:
        """The claim is stored: believe it."""
        if self.inflight is None:
            return
        self.floor, self.token, self.fences = self.inflight.claim.floor, token, dict(self.inflight.after)
        self._drop_inflight()

    def put_back(self) -> None:
        """The run ended without a commit: its pieces are open again, before what came since."""
        if self.inflight is None:
            return
        for d, (pieces, _) in self.inflight.taken.items():
            self.open[d] = [*pieces, *self.open.get(d, ())]
        self.inflight = None

    def block(self, asset_partitions: Iterable[str], retry_at: float) -> None:
        """The run failed for good: these streams leave memory and hold nobody; other slices of the run are open again."""
        self.put_back()
        for d in asset_partitions:
            at = self.at(d)
            if d in self.blocked or d in self.open:
                self._forget(d)
                self.blocked[d] = Blocked(at, retry_at)
                if at >= self.head:
                    del self.blocked[d]

    def drop(self, asset_partitions: Iterable[str]) -> None:
        """These slices are given up without a commit (a request by hand that failed): their records are settled by the next floor."""
        self.put_back()
        for d in asset_partitions:
            self._forget(d)

    def rebase(self, stored: Position) -> bool:
        """Another token is stored. True: all that memory lacks of it is dropped, go on. False: it is behind what was read; load anew.

        Nothing may be in flight (`put_back` first).
        """
        ahead = stored.floor >= self.floor and all(stored.at(d) >= self.at(d) for d in {*self.fences, *stored.fences})
        if (self.topic_id, self.routing) != (stored.topic_id, stored.routing) or not ahead or stored.floor > self.head:
            return False
        self.floor, self.token, self.fences = stored.floor, stored.token, dict(stored.fences)
        for d in list(self.open):
            pieces, self.open[d] = self.open[d], []
            self.memory_bytes -= sum(p.memory_bytes for p in pieces)
            for piece in pieces:
                self._open(d, piece, self.at(d), [])
            if not self.open[d]:
                del self.open[d]
        for d, blocked in list(self.blocked.items()):
            if self.at(d) > blocked.at:
                del self.blocked[d]
                if self.at(d) < self.head:
                    self.blocked[d] = Blocked(self.at(d), blocked.retry_at)
        return True

    def _forget(self, asset_partition: str) -> None:
        self.memory_bytes -= sum(p.memory_bytes for p in self.open.pop(asset_partition, ()))

    def _drop_inflight(self) -> None:
        if self.inflight is not None:
            self.memory_bytes -= sum(p.memory_bytes for pieces, _ in self.inflight.taken.values() for p in pieces)
        self.inflight = None

    # -- edits

    @property
    def cut(self) -> int:
        """Where new routing can take over at the earliest: every stream will stand there, none beyond it."""
        return max((self.head, self.floor, *self.fences.values()))

    @property
    def at_cut(self) -> bool:
        """Whether every stream stands at the floor and nothing is open."""
        return not self.fences and not self.open and self.inflight is None and not self.blocked

    def waiting(self) -> Mapping[str, tuple[int, int]]:
        """Rows and bytes that are open, by asset partition."""
        return {d: (sum(p.rows for p in ps), sum(p.size_bytes for p in ps)) for d, ps in self.open.items()}
