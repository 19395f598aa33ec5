"""What the runtime asks of the world: narrow protocols, each with the values that pass through it.

Authority: PostgreSQL (`State`) says what is settled, who holds a lease and how a run ended; the lake (`Lake`) holds rows; a source only
repeats what its log says. Blocking methods say so and are called in a worker thread; all others are coroutines on the event loop. Every
method may raise `Outage`; what else it raises stands with it.
"""

from reactor.ports.lake import Drift, Lake, SchemaVersion, SliceInput, Staged, StageOrder, Written
from reactor.ports.sources import Clock, Intake, LogBounds, OutOfRange, Publisher, RawSpan, Source, Splitter
from reactor.ports.state import Arrival, Epoch, NewPosition, NewRun, PartitionClaim, PartitionTokens, State, Verdict

__all__ = [
    "Arrival", "Clock", "Drift", "Epoch", "Intake", "Lake", "LogBounds", "NewPosition", "NewRun", "OutOfRange", "PartitionClaim",
    "PartitionTokens", "Publisher", "RawSpan", "SchemaVersion", "SliceInput", "Source", "Splitter", "StageOrder", "Staged", "State",
    "Verdict", "Written",
]
