"""What all lives share: one consumer, its texts, and the fingerprints of their routings."""

from __future__ import annotations

from reactor.domain.scripts import BatchColumn, Body, Edge, Header, Materialize, Partitioning, Routing, Script, ScriptPath

TOPIC = "kafka://main/orders"
ASSET = "ducklake://main/orders"
SLICES = 4


def script(edit: int, *, merge: bool) -> Script:
    """Text number `edit`: each has a routing of its own."""
    edge = Edge("kafka", TOPIC)
    header = Header(
        pipeline=True, edges=(edge,), batch=(BatchColumn("id", "BIGINT"),),
        partitioned=Partitioning("dynamic", key=(f"k{edit}",)),
        materialize=Materialize(ASSET, "merge" if merge else "append", key=("id",) if merge else ()),
    )
    return Script(ScriptPath("orders.sql"), "sql", f"-- {edit}", header, Body(select="SELECT * FROM batch", reads_batch=True), (edge,))


def fingerprint(edit: int) -> str:
    return Routing(Partitioning("dynamic", key=(f"k{edit}",))).fingerprint


def edit_of(routing: str) -> int:
    key = Routing.parse(routing).partitioning
    assert key is not None
    assert key.key is not None
    return int(key.key[0][1:])
