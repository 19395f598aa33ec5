"""A script was edited so that records go to other slices: the new routing takes over at a common cut (commit.md 5, *Edit*).

Intake goes on by the stored routing to the highest fence and stops there; what is open becomes due. When every stream stands at the
floor, `SwitchRouting` asks PostgreSQL, and the position is loaded anew. While a stream is blocked the stored routing stays. A text takes
over at most once per load of it: replaced by another, it yields, so two versions in a rolling deploy do not swing.
"""

from __future__ import annotations

from reactor.core.effects import Effect, Switched, SwitchRouting, Ticket
from reactor.core.lanes import Lane
from reactor.core.ledger import Ledger


class Edits:
    """The switches that are out, by ticket."""

    def __init__(self) -> None:
        self._out: dict[Ticket, tuple[Lane, Ledger, str]] = {}

    def stopped(self, lane: Lane, ledger: Ledger) -> bool:
        """Whether intake of this ledger has ended because its routing is to be replaced."""
        if ledger.routing == lane.routing or ledger.key.source_partition in lane.took_over or ledger.blocked:
            return False
        return ledger.head >= max(ledger.fences.values(), default=0)

    def advance(self, lane: Lane, ledger: Ledger, ticket: Ticket, now: float) -> list[Effect]:
        """Bring a stopped ledger to its cut, and ask for the switch there."""
        if not self.stopped(lane, ledger) or any(out is ledger for _, out, _ in self._out.values()):
            return []
        ledger.detach()
        for d in ledger.open:
            lane.debouncer.make_due(d, now)
        if not ledger.at_cut:
            return []
        self._out[ticket] = (lane, ledger, lane.routing)
        return [SwitchRouting(ticket, ledger.key, ledger.token, lane.routing)]

    def done(self, switched: Switched) -> tuple[Lane, Ledger]:
        """Whether done or refused, what is stored now must be loaded."""
        lane, ledger, routing = self._out.pop(switched.ticket)
        if switched.done and routing == lane.routing:
            lane.took_over.add(ledger.key.source_partition)
        return lane, ledger
