"""Event times ahead of now: the rows are kept, in slices of their own, and counted."""

import json
import time
from datetime import UTC, datetime

from reactor.domain.scripts import HeaderField, Partitioning
from tests.lake.driving import Bench, Record, feed, managed, orders, raw_span

SELECT = "SELECT id, {partition} AS p FROM batch"


def at(seconds_ahead: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds_ahead, UTC).isoformat()


def of(number: int, seconds_ahead: float) -> Record:
    return Record(json.dumps({"id": number, "ts": at(seconds_ahead)}).encode(), headers=[("at", at(seconds_ahead).encode())])


def test_more_than_five_minutes_ahead_is_counted(bench: Bench) -> None:
    for source in (("ts",), HeaderField("at")):
        script = managed(SELECT, "append", batch=[("id", "BIGINT")], partitioned=Partitioning("monthly", event_time=source))
        ran = feed(bench, script, raw_span([of(1, -86_400), of(2, 240), of(3, 3_600), of(4, 100 * 365 * 86_400)]))
        assert [run.outcomes["skewed"] for run in ran] == [2]
    assert bench.rows("SELECT id, count(*) FROM main.t GROUP BY ALL ORDER BY id") == [(1, 2), (2, 2), (3, 2), (4, 2)]


def test_what_is_settled_already_is_not_counted_again(bench: Bench) -> None:
    script = managed(SELECT, "append", batch=[("id", "BIGINT")], partitioned=Partitioning("monthly", event_time=("ts",)))
    (order,) = orders(script, raw_span([of(number, 100 * 365 * 86_400) for number in range(5)]))
    ((source, _, hi, payload),) = order.slices[0].parts
    left = type(order)(order.script, [type(order.slices[0])(order.slices[0].asset_partition, parts=[(source, 3, hi, payload)])])
    assert bench.finish(bench.lake.stage(left)).outcomes["skewed"] == 2


def test_without_event_times_nothing_is_ahead(bench: Bench) -> None:
    ran = feed(bench, managed("SELECT id FROM batch", "append", batch=[("id", "BIGINT")]), raw_span([of(1, 3_600)]))
    assert [run.outcomes["skewed"] for run in ran] == [0]
