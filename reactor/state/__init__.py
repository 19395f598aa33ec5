"""Reactor's own tables, the commit trigger, and everything asked of PostgreSQL.

Authority. The catalogs of the lakes and this room's tables (schema `reactor`) are one database, so rows, positions, state rows and outgoing
events commit in one transaction. Who says what:

- `position`, `fence`: how far a consumer has settled a source partition. `materialized_partition`: what an asset partition holds.
- `run`: how a run ended. COMMIT's answer is not asked; `verdict` is. `run_log`: what it said.
- `decision`: why something ran, waits, or did not run. Told, never asked: nothing is decided by it.
- `outbox`, `inbox`: what happened and what was asked for, each numbered without gaps by its row of `queue`.
- `lease`: who does a job that one replica does at a time. It saves work; the tokens keep the truth.
- `pause`: whose runs are not to start. It is obeyed by who asks; a commit under way does not look at it.

One idea. A row that guards something carries `last_run`, the last run or operation that changed it. A commit names the token it believes:
equal, then what it believes is what is stored; else `RF001`, and nothing is written. Decided only by `update … where`, never by a select.

The commit. `commit.sql` is the whole of it: DuckLake inserts its row of `ducklake_snapshot_changes`, the trigger there sees the mark
`{"reactor":1,"run":"<uuid>","rows":[[inserted,deleted],…]}` and completes that run by the claims in its row, which was committed before the
lake transaction began. `rows` is aligned with `NewRun.partitions`; a mark without them completes nothing, so a COMMIT after an error fails.
The mark begins with exactly these characters and holds nothing of a user's. `{"reactor":1,"setup":true}` marks transactions of ours that are
no run (tables made ahead, maintenance): nobody is told. Any other text is another tool's commit: it is noted, and becomes an event if the
lake is watched. An asset partition that got no row and no column by a snapshot did not change in it, whatever other slices did.

Where the trigger was missing a snapshot carries the mark of a run that is not completed. The process that sees it halts its lake; each start
completes such runs with that snapshot (`account`), by the same compare of tokens, and refuses to start where something else was committed since.

States of a run: running → completed (by the trigger, or by `complete` if there was nothing to publish) | failed | aborted. The one row
decides each race: an abort waits for a commit that is on its way, and after it that commit is refused (`RF002`).

Queues. Events are written without a number; who reads them numbers what is committed, in commit order, holding the queue's row. Where a run
changed nothing its event is internal: it is read (joins look at it) and never published. Its size limit is for who is outside: the router
sees the chain whole, or a loop would not end.

Failure. No answer, a server that starts or stops, a lock that was not had in time: `Outage`, ask again. A token that is another, a deadlock,
a serialization failure: `Conflict`, decide from what is stored now. Both are retried by callers, never here; what is
said of runs and positions may be said again after a lost answer. A database of a newer version, or of another installation: `UsageError`. The
functions are made anew at each start, under the lock of the migrations, beside replicas of the version before that work on; a lake's trigger only where it is missing, for that waits for the
commits under way.
"""

from reactor.state.postgres import PostgresState

__all__ = ["PostgresState"]
