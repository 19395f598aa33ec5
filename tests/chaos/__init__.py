"""Everything breaks at once, and nothing is lost: `make chaos ROUNDS=20 SEED=7` (`python -m tests.chaos`).

    plan(seed, round) ─▶ Round: load, two replicas, one act after the other ─▶ all is mended ─▶ Seen ─▶ judged ─▶ lost, doubled, stuck
    Parts (once): three Kafka brokers, a PostgreSQL that may be killed; a round has a database, topics and a project of its own

*A plan* is a pure function of the seed and the number of the round, so `SEED=7 FIRST=13 ROUNDS=1` does to the product again what the
thirteenth round did, as far as the machine's timing allows. Kinds of acts are dealt like cards: each comes once before any comes twice.

*An act* hits replicas by signals and by `REACTOR_FAILPOINT`, their connections to PostgreSQL by `tests.parts.cut_commit`, and the parts
themselves. Some last (a zombie sleeps, a broker is away, the lake's folder is read-only), and are mended while others happen. A replica that
was killed starts again, as it would under Kubernetes; one that ends by itself is a finding.

*Judged* is what is at rest at the end: `facts` sees rows, downstream tables, the state, the publisher's topic, and what a program was told.
*Lost* and *doubled* count what is missing and what is there too often; *stuck* is whatever else is not as it must be: lag, a run
that runs, a table that cannot be read, an order that is not kept, a failed run, a replica that did not end in order.

Within the guarantees: a topic is made anew only when all of it has been read, and little is sent before its positions are reset, for a log
that was filled beyond the old offset between two looks is one of the limits that the product names.
"""
