"""Carries out what the core decides, on one asyncio loop.

    sources ─▶ intake (split, what is large in a thread) ─▶ bounded span queue ─▶ loop ─▶ Engine ─▶ effects ─▶ tasks ─▶ answers ─▶ loop

*Authority.* Only `loop` touches the engine: everything else hands it a call and waits, or looks at it between two turns. PostgreSQL says what
is settled; an answer that did not come is asked for until it does (`executor`, after `commit.md` 6). *Bounds.* The span queue is bounded in spans, open slices in bytes
(the engine detaches or pauses); answers have a queue of their own, bounded by the number of effects that are out, and are taken first.
*Failure.* An outage of PostgreSQL, the lake or a source is waited out where it happened, with backoff; nothing is given up and no run
fails by it. A task that ends for another reason ends the service (`supervision`): a restart alone repairs.
*Told.* What the engine decided of each event goes to the decision log (`deciding`), beside the hot path; nothing depends on it.
*Who runs.* `graphs` takes over a graph of scripts whole, `pausing` obeys the switch, `identities` refuses a table whose slices are others, `starts`
says where a new consumer begins. `watching` fills the metrics and purges what is old. `programs` (with `guard` and `run_logs`) runs what is not SQL.
*Stop.* Intake first, then running runs for `drain_seconds`, then floors are settled, then all is closed; the rest is done again.
"""
