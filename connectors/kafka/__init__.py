"""Kafka as a source of spans: `KafkaSource` implements `ports.Source` over one cluster and one consumer group.

**Who owns what.** aiokafka owns the connections, the group (joining, heartbeats, assigning) and the fetches. This room owns the spans:
which offsets a span covers, how records become Arrow, which log it was, and what was handed over. PostgreSQL owns the positions: the
group's own offset is written as a courtesy to other tools and never read; nothing is fetched before the intake has said from where.

    source ──▶ membership ──▶ reader ──▶ columns (walk) or plain      the group's consumer, one life of it after the other; frames: its answers
       │            └──▶ logs (topics)                                what the logs hold, on connections of its own
       └──▶ readers ──▶ reader                                        readers of one's own, no group
    client: settings and errors of a cluster      hooks: all that touches aiokafka's private parts      spans: shape and limits

**A source partition** is *waiting* (assigned by the group; the intake has not been asked), *open* (read from the offset that the intake
named) or *halted* (the intake named none). Whether it is paused is another matter: paused ones are not fetched. A halted one is asked
about again with every look (10 s), so that a reset takes effect while running; so is another topic id under the same name. A look also
tells new log ends, and with them a source partition that lags and does not move.

**A span** starts where the one before ended, and ends behind the last offset of what was fetched: holes, markers and aborted records
belong to it, so the lag reaches 0 behind them. It has at most 50,000 rows and 16 MiB; one larger record is a span of its own. Only
committed data is read (`read_committed`), up to the last stable offset, which is also the `end` of `LogBounds`.

**The log's identity** is `<cluster id>/<topic id>`, asked by a Metadata request of version 12. A broker that gives no topic ids leaves
the second half empty: then a topic that was deleted and made again is seen only by its offsets.

**Memory.** Undecoded: per broker at most 32 MiB wait and 32 MiB are on their way (4 MiB a source partition, or one larger batch).
Decoded: one span at a time and what the intake keeps. A span that is not taken (paused in between) is dropped and fetched again.

**Gathering.** What a span costs beyond its records is as much as 500 of them. So while records come to the group's reader, ten times a second
or more often, a broker gathers them for 25 ms or 1 MiB before it answers a fetch; the first record after a silence is told of at once. What a
small fetch brought is decoded on the loop: a thread would keep it as busy.

**In columns or plain.** In columns the record batches of a fetch stay where the socket has written them (`frames`; over TLS in bytes) until they are
turned into Arrow by compiled code, in a thread unless they are few. The plain way makes an object of every record, at a third of the speed: for
message formats before Kafka 0.11, and where numba or the private parts of aiokafka are not as expected (a warning says so). One contract suite
holds both.

**Failures.** Whatever aiokafka or the network raises becomes `Outage` here. It ends the membership: the intake is told that everything is
revoked, the consumer is closed, and after a growing wait (0.5 to 30 s) a new one connects to the bootstrap servers; `trouble` says why.
So does lag without progress for 60 s, and a cluster that answers nobody for 60 s (its brokers may have other addresses now). Shorter
outages aiokafka bridges by itself. A damaged record batch is an outage too: it is fetched again and never skipped. An error of the intake
that is not `Retryable` ends `run`.

**Rebalances** are eager (aiokafka has no other): everything is revoked, the intake lets go within 10 s of the rebalance's 30 s,
heartbeats go on meanwhile, and what comes straight back is assigned anew. No group offset is committed after the intake has let go. A
static member (`replica_id`) does not leave its group, so that a restart moves nothing, and a stop that is meant costs others a session of
10 s; if it comes back with topics of which it is given nothing, it joins once more.

**Topics** that are absent are waited for and never made by asking for them; new topics and partitions are found within 15 s and a
rebalance.

Limits: an unclean leader election (same topic id, offsets used again) cannot be seen. Between two looks a topic that was deleted, made
again and filled beyond our offset is read as the old one.
"""
