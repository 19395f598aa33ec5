"""The performance suite: `make bench` (speed, latency, memory) and `make growth` (what grows with topics, scripts, snapshots).

    __main__ ─▶ speed | growth           which measurements, in which order
                  └─▶ drain  limit  rivals/  latency  hops  memory      one measurement each: numbers by name
    ground: PostgreSQL, Kafka, a folder     installation: a project, a database, `serve`     orders, topics: the load
    children: programs of one number        results: the table, the JSON, the last line      screen: progress on stderr

Every rate is of one run on one machine: what counts are ratios. Each measurement starts on an empty database, an empty lake and a consumer
group of its own, checks that every row has arrived once, and stops what it has started, at Ctrl-C too. What competes runs in an
environment of its own (`bench/.venv`, the extra `bench`), because Quix Streams pins what Reactor needs.
"""
