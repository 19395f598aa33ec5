"""The parts that a laptop does not have: a private PostgreSQL and a Kafka-protocol broker, both from wheels, no Docker.

They belong to whoever starts them (`reactor dev`, `make run`, the tests), never to `serve`: a killed `serve` finds them alive. Each is
replaced by a URL in `reactor.toml`, and then nothing of it is started or even looked for.

Authority. A part's folder decides everything that outlives a process: its data, its port, its log, and who may run it. `PartFolder` claims
it with a lock that the kernel releases with its holder, so no file can be stale: whoever holds the lock knows that every process still
standing in the folder is an orphan, and ends it. A second supervisor on the same folder is refused.

States. absent → (PostgreSQL: made aside, then renamed) → starting → ready → stopped, or ended by itself; a context manager is the whole life.
Stopping asks first (PostgreSQL: fast shutdown), insists after a time, and then kills.

Failure handling.

- The holder is killed, or crashes: the kernel ends the parts with it (PR_SET_PDEATHSIG, set by `launch` between fork and exec). Where there
  is no such call (macOS), the next start ends them. PostgreSQL repairs itself from its log, the broker never kept anything.
- Ctrl-C reaches the holder alone: each part has a session of its own, because `serve` needs them to the end of its drain.
- The kept port was taken meanwhile: another one is chosen and kept. Ports come from below the range of outgoing connections.
- PostgreSQL refuses root, and a user without a name. For these it runs in a user namespace in which their files belong to `nobody`; where root
  may make none, as `nobody` itself. Data that belongs to another user is run as that user. No folder above is ever opened to others.
- The broker keeps everything it was sent in memory and forgets it when it stops: each start is a new cluster, with a new cluster id, so
  positions of an old one never apply.

Trust: PostgreSQL listens on 127.0.0.1 only and asks nobody for a password. That is for a machine whose users trust each other.
"""

from reactor.embedded.broker import EmbeddedBroker
from reactor.embedded.postgres import EmbeddedPostgres
from reactor.embedded.supervisor import EmbeddedParts

__all__ = ["EmbeddedBroker", "EmbeddedParts", "EmbeddedPostgres"]
