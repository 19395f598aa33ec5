"""Fakes that keep the contracts of the real parts. A project may use them too.

`ScriptedLogs` and `GatedLake` stand in a whole service, which has its PostgreSQL and DuckLake; the others are for tests of one part over its ports.

    ScriptedLogs ◀── produce, truncate, move, PAUSE, CRASH, EOF      (a test)
         └──▶ ScriptedSource ──▶ Intake                              `wiring.Instead(source=logs.source)`
    MemoryDatabase ◀── MemoryState: positions, runs, queues, leases     one for each replica
         ▲──────────── MemoryLake: tables, made by a function of the test's
    MemoryPublisher: what was told to somebody outside, who may go away
    GatedLake ──▶ another lake, stopped or failed before a step       `wiring.Instead(lake=lambda lake: GatedLake(lake, gate))`

*Authority.* `ScriptedLogs` is the broker: logs with the exact offsets, holes, starts and identities that a test says, and one reader for each
source partition and group. `MemoryDatabase` is PostgreSQL with the lakes' catalogs: rows, positions, state rows, runs and events are its tables, and a
commit is one transaction over them, so they move together or not at all. Each fake owes what the real part owes (`tests/contract/`); where it
differs its docstring says so. `GatedLake` decides nothing: it asks a gate before each step of a run, in the worker thread of that step; a gate
that blocks holds the run, one that raises fails it there.

*Failure.* Nothing here fails by itself. A sentinel in a log ends or holds its reader: `CRASH` makes it raise `Crashed`, `EOF` makes it return
(both end a service), `PAUSE` holds it until `ScriptedLogs.go_on`. A `MemoryDatabase` is away, has lakes without their commit trigger, or loses the
answers of COMMITs that have happened, as its attributes say.
"""

from reactor.testing.lake import Gate, GatedLake, Step
from reactor.testing.logs import CRASH, EOF, PAUSE, Record, ScriptedLogs, Sentinel
from reactor.testing.memory_database import MemoryDatabase
from reactor.testing.memory_lake import Evaluate, MemoryLake
from reactor.testing.memory_state import MemoryState
from reactor.testing.publisher import MemoryPublisher
from reactor.testing.source import Crashed, ScriptedSource

__all__ = [
    "CRASH", "EOF", "PAUSE", "Crashed", "Evaluate", "Gate", "GatedLake", "MemoryDatabase", "MemoryLake", "MemoryPublisher", "MemoryState", "Record",
    "ScriptedLogs", "ScriptedSource", "Sentinel", "Step",
]
