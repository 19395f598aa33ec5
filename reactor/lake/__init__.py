"""Lakes: DuckDB and DuckLake. Spans are split and decoded here, scripts evaluated, tables written, and nothing else of Reactor sees DuckDB.

Authority. The lake holds rows. What is settled, which run may commit and how a run ended is PostgreSQL's to say (`reactor.state`): a commit
carries a mark, `{"reactor":1,"run":…,"rows":[[inserted, deleted], …]}`, which a trigger in the catalog acts on, in the same transaction.
This room writes marks and never reads what became of them.

    order ─▶ batch (records decoded, `_wm_batch`) ─▶ evaluate (setup, SELECT once a slice, `_wm_stage`) ─▶ fit (names and types of the table)
          ─▶ check (keys, quarantine) ─▶ StagedRun: write ─▶ commit ─▶ settled ─▶ close

States of a staged run: staged → written (a transaction is open) → committing → settled; from written also back to staged by `rollback`, as
often as commits are refused. It is *stale* if its instance was given up or the table got other columns, and is then staged again. Everything
before `write` happens in transactions of its own, without a lock; staged rows are temp tables of one cursor and survive ROLLBACK. An append
that only names columns of `batch` has no copy of them: its stage is a view of the decoded records, which stay until the run is closed.

One instance with its extensions (`extensions`, which says whose signatures are believed), one ATTACH per lake and name, one cursor per run
(`session`). A run that makes or drops a table has an instance to itself (`stage` says why). An instance is given up, never repaired: after an
INTERNAL error, a restored database, or a COMMIT that did not come back.

Failure handling.

- All exceptions of DuckDB become ours in `failures`, by class and by words: what binds not as written blocks (`RunBlocked`), what the data
  does fails (`RunFailed`), another writer (`Conflict`), a lost connection, a full disk (`Outage`).
- What works longer than its limit is interrupted and fails (`limits`, which also times each stage). COMMIT is never interrupted.
- Any error between BEGIN and COMMIT is followed by ROLLBACK. COMMIT's own answer is not the outcome: the caller asks.
- A lost answer loses no file: `keep` holds a second name of each new file until the outcome is known.
- Records that cannot be rows go to the lake's `_reactor_quarantine` in the commit of the others (`quarantine`); too many of them fail the run.
- What a run does to the instance's shared names (databases that a script attaches) is undone before another run may do the same.

Names that Reactor keeps for itself: columns `_wm_*`, temp tables `_wm_*`, lake tables `_reactor_*`. Text of SQL is made in `statements`
alone, where every name and value is quoted; `decoding` reads payloads, `split` tells records to slices.
"""
