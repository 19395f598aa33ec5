"""The whole product inside a test: settings, scripts, state, lake and runtime are the real ones, in this process.

    Ground (PostgreSQL, a folder) ─▶ Product (a database, a lake, a project) ─▶ Replica (one life of a service) ─▶ facts
                                          ▲ scripts, requests                       ▲ gates: held, failed, killed
    ScriptedLogs or a real Kafka ─────────┘                                         OtherTool: plain DuckDB on the same lake

*Facts* are looked at from outside: rows through a DuckDB of another tool, runs, events and positions by SQL on the state. Only "at rest" is
asked of the engine: nothing is open, due or running, and everybody stands at the end of what it reads. Nothing here sleeps; it waits for
conditions.

*A kill* is as near to a crash as one process gets: the database ends all sessions of the replica first, so nothing more can be written, then
its tasks are cancelled. What it leaves behind (leases, running runs, files) stays. Waiting for its leases to run out is what
`Product.time_passes` is for.
"""

from tests.harness.gates import Gates, Held
from tests.harness.ground import Ground, ground
from tests.harness.other_tool import OtherTool
from tests.harness.product import Product, opened_product
from tests.harness.replica import Replica

__all__ = ["Gates", "Ground", "Held", "OtherTool", "Product", "Replica", "ground", "opened_product"]
