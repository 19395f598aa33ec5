"""Append from `batch`: many slices at once, metadata, tombstones, what is set aside."""

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from reactor.domain.runs import PartitionCounts
from reactor.domain.scripts import Partitioning
from reactor.domain.spans import UNROUTED, SourcePartition
from reactor.errors import RunBlocked, RunFailed
from reactor.lake import quarantine
from reactor.lake.decoding import payload
from reactor.ports import RawSpan, StageOrder
from tests.lake.driving import DYNAMIC, Bench, Record, a_run, feed, managed, orders, raw_span, slice_input
from tests.parts.effort import tries

COLUMNS = [("k", "VARCHAR"), ("v", "INTEGER")]
BY_TIME = Partitioning("daily", event_time=("ts",))


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    for table in ("t", "dim", "whole", "_reactor_quarantine"):
        module_bench.rows(f"DROP TABLE IF EXISTS lake_main.main.{table}")
    return module_bench


def keyed(*pairs: tuple[str, int]) -> RawSpan:
    return raw_span([f'{{"k":"{k}","v":{v}}}'.encode() for k, v in pairs])


def test_all_slices_in_one_commit_with_their_own_counts(bench: Bench) -> None:
    script = managed("SELECT v FROM batch WHERE v > 0", "append", batch=COLUMNS, partitioned=DYNAMIC)
    before = bench.snapshot()
    (ran,) = feed(bench, script, keyed(("a", 1), ("b", 2), ("a", 3), ("c", 0)))
    assert [(c.inserted, c.deleted) for c in ran.counts] == [(2, 0), (1, 0), (0, 0)]
    assert ran.outcomes == {"committed": 3, "quarantined": 0, "tombstone": 0, "filtered": 1, "skewed": 0, "duplicate": 0}
    assert bench.texts("SELECT v, _wm_partition FROM t") == [["1", "a"], ["2", "b"], ["3", "a"]]
    assert bench.snapshot() == before + 1


@pytest.mark.parametrize("select", [
    "SELECT {partition} AS p, count(*) AS n FROM batch", "SELECT any_value(k) AS p, count(*) AS n FROM batch",
])  # fmt: skip
def test_what_is_not_plain_is_evaluated_for_each_slice(bench: Bench, select: str) -> None:
    setup = ["CREATE TEMP TABLE seen AS SELECT count(*) AS n FROM batch", "CREATE MACRO twice(x) AS x * 2", "CREATE TEMP VIEW w AS SELECT 1 AS one"]
    script = managed(f"{select}, seen GROUP BY ALL" if "any" not in select else select, "append", batch=COLUMNS, partitioned=DYNAMIC, setup=setup)
    (ran,) = feed(bench, script, keyed(("a", 1), ("b", 2), ("a", 3)))
    assert bench.texts("SELECT p, n, _wm_partition FROM t") == [["a", "2", "a"], ["b", "1", "b"]]
    assert [c.inserted for c in ran.counts] == [1, 1]
    assert "and the same for 1 more" in ran.compiled_sql


@pytest.mark.parametrize("condition", [
    "ts IN (TIMESTAMPTZ '2026-03-01 01:00:00+00', TIMESTAMPTZ '2026-03-01 02:00:00+00')", "ts IN (SELECT ts FROM main.dim)", "ts IN (SELECT min(ts) FROM main.dim)",
    "ns IN (TIMESTAMP_NS '2026-03-01 00:00:00.000000037', TIMESTAMP_NS '2026-03-01 00:00:00.000000074')", "ns IN (SELECT ns FROM main.dim)",
    "_timestamp IN (TIMESTAMPTZ '2026-02-25 06:13:20+00', TIMESTAMPTZ '2026-03-01 02:00:00+00') AND id > 0", "NOT ts IN (TIMESTAMPTZ '2026-03-01 00:00:00+00', ts + INTERVAL 1 DAY)",
])  # fmt: skip
def test_a_condition_on_instants_means_what_it_means_anywhere(condition: str, bench: Bench) -> None:
    """DuckDB hands to Arrow what it can, as Python objects, and not all of them are what they were."""
    moments = ", ".join(f"(TIMESTAMPTZ '2026-03-01 0{i}:00:00+00', TIMESTAMP_NS '2026-03-01 00:00:00.{i * 37:09}')" for i in (1, 2, 7))
    bench.rows(f"CREATE TABLE lake_main.main.dim AS FROM (VALUES {moments}) AS moments (ts, ns)")
    columns = [("id", "BIGINT"), ("ts", "TIMESTAMP WITH TIME ZONE"), ("ns", "TIMESTAMP_NS")]
    span = raw_span([b'{"id":%d,"ts":"2026-03-01T0%d:00:00Z","ns":"2026-03-01T00:00:00.%09dZ"}' % (i, i, i * 37) for i in range(3)])
    feed(bench, managed(f"SELECT id, ts, ns FROM batch WHERE {condition}", "append", batch=columns), span)
    feed(bench, managed(f"SELECT id, ts, ns FROM batch WHERE {condition} LIMIT 9", "append", batch=columns, asset="ducklake://main/whole"), span)
    found = bench.rows("SELECT id FROM main.t ORDER BY ALL")
    assert found == bench.rows("SELECT id FROM main.whole ORDER BY ALL") == ([(1,)] if "min" in condition else [(1,), (2,)])


@pytest.mark.parametrize("key", ["a=b", "a b", "a%2Fb", "ž", "O'Brien", 'a"b', "a/../b", "🚀" * 100, "x" * 512, "line\nfeed", ".", "{partition}", "\u202ea"])
def test_odd_keys_are_read_back(bench: Bench, key: str) -> None:
    script = managed("SELECT v, {partition} AS p FROM batch", "append", batch=COLUMNS, partitioned=DYNAMIC)
    payload = duckdb.execute("SELECT to_json({k: ?, v: 1})", [key]).fetchone()
    feed(bench, script, raw_span([payload[0].encode()]))  # type: ignore[index]
    assert bench.rows("SELECT v, p, _wm_partition FROM t") == [(1, key, key)]
    wanted = managed("SELECT 2 AS v, {partition} AS p", partitioned=DYNAMIC)
    assert [(c.inserted, c.deleted) for c in bench.run(wanted, key).counts] == [(1, 1)]
    assert bench.rows("SELECT v, p FROM t") == [(2, key)]


def test_metadata(bench: Bench) -> None:
    record = Record(b'{"k":"a"}', b"\x00key", [("h", b"1"), ("h", b"2"), ("n", None)], 1_772_000_000_123)
    select = "SELECT k, _topic, _source_partition, _offset, _timestamp, _key, _headers, value FROM batch"
    feed(bench, managed(select, "append", batch=COLUMNS), raw_span([record], 41, SourcePartition("kafka://main/orders", "7")))
    headers = [{"name": "h", "value": b"1"}, {"name": "h", "value": b"2"}, {"name": "n", "value": None}]
    columns = "k, _topic, _source_partition, _offset, _key, _headers, value, CAST(_timestamp AS VARCHAR)"
    assert bench.rows(f"SELECT {columns} FROM t") == [("a", "orders", 7, 41, b"\x00key", headers, '{"k":"a"}', "2026-02-25 06:13:20.123+00")]
    types = dict(row[:2] for row in bench.rows("DESCRIBE t"))
    assert types == {
        "k": "VARCHAR", "_topic": "VARCHAR", "_source_partition": "INTEGER", "_offset": "BIGINT", "_timestamp": "TIMESTAMP WITH TIME ZONE",
        "_key": "BLOB", "_headers": 'STRUCT("name" VARCHAR, "value" BLOB)[]', "value": "JSON",
    }  # fmt: skip


def test_declared_columns_come_first(bench: Bench) -> None:
    feed(bench, managed("SELECT * FROM batch", "append", batch=COLUMNS, partitioned=DYNAMIC), keyed(("a", 1), ("b", 2)))
    names = ["k", "v", "_topic", "_source_partition", "_offset", "_timestamp", "_key", "_headers", "value", "_wm_partition"]
    assert [row[0] for row in bench.rows("DESCRIBE t")] == names


def test_a_declared_column_wins_over_metadata(bench: Bench) -> None:
    feed(bench, managed("SELECT * FROM batch", "append", batch=[("_offset", "VARCHAR"), ("value", "INTEGER")]), raw_span([b'{"_offset":"x","value":3}'], 9))
    assert bench.rows("SELECT _offset, value FROM t") == [("x", 3)]


def test_rows_below_the_settled_offset_are_left_out(bench: Bench) -> None:
    script = managed("SELECT v, _offset FROM batch", "append", batch=COLUMNS)
    (order,) = orders(script, keyed(("a", 1), ("b", 2), ("c", 3)))
    ((source, _, hi, payload),) = order.slices[0].parts
    bench.finish(bench.lake.stage(StageOrder(script, [slice_input(script, "", [(source, 2, hi, payload)])])))
    assert bench.rows("SELECT v, _offset FROM t") == [(3, 2)]


STAGED = "SELECT table_type FROM information_schema.tables WHERE table_name = '_wm_stage'"


@pytest.mark.parametrize(("select", "batch", "kind"), [
    ("SELECT k, v, _offset FROM batch", COLUMNS, "VIEW"), ("SELECT v + random() AS v FROM batch", COLUMNS, "LOCAL TEMPORARY"),
    ("SELECT k, value FROM batch", COLUMNS, "LOCAL TEMPORARY"), ("SELECT k, v FROM batch", [("k", "JSON"), ("v", "INTEGER")], "LOCAL TEMPORARY"),
    ("SELECT k, v FROM batch", [("k", "VARCHAR"), ("v", "FLOAT")], "LOCAL TEMPORARY"),
])  # fmt: skip
def test_only_what_merely_names_columns_is_written_from_the_records(bench: Bench, select: str, batch: list[tuple[str, str]], kind: str) -> None:
    (order,) = orders(managed(select, "append", batch=batch), raw_span([b'{"k":"1","v":1}', b'{"k":"2","v":"x"}', b'{"k":"3","v":3}']))
    feed(bench, managed(select, "append", batch=batch), raw_span([b'{"k":"0","v":0}']))
    staged = bench.lake.stage(order)
    assert staged._cursor.execute(STAGED).fetchall() == [(kind,)]
    first = staged.write(a_run())
    staged.rollback()  # refused: written again, and the same
    assert (first.counts, bench.finish(staged).counts) == ((PartitionCounts(2, 0),), (PartitionCounts(2, 0),))
    assert bench.rows("SELECT count(*) FROM t") == [(3,)]


@pytest.mark.parametrize("other", ["INTEGER", "DECIMAL(38,0)"], ids=["counted as it is decoded", "counted by DuckDB, which alone knows what fits"])
def test_what_is_only_shown_is_counted_by_slice_without_what_is_set_aside(bench: Bench, other: str) -> None:
    script = managed("SELECT v FROM batch", "append", batch=[*COLUMNS, ("w", other)], partitioned=DYNAMIC)
    feed(bench, script, keyed(("made", 0)))
    bad = [b'{"k":"a","v":"x"}', b'{"k":"b","v":1}', b'{"k":"c","v":1,"w":%d}' % 10**39, b'{"v":7}', b'{"k":"a","v":2}', b'{"k":"b","v":3}']
    (order,) = orders(script, raw_span(bad))
    staged = bench.lake.stage(order)
    assert (staged.rows, staged._cursor.execute(STAGED).fetchall()) == (3, [("VIEW",)])
    ran = bench.finish(staged)
    counts = dict(zip((s.asset_partition for s in order.slices), (c.inserted for c in ran.counts), strict=True))
    assert counts == {"a": 1, "b": 2, "c": 0, UNROUTED: 0}
    assert (ran.outcomes["committed"], ran.outcomes["quarantined"]) == (3, 3)
    assert bench.texts("SELECT v, _wm_partition FROM t WHERE v > 0") == [["1", "b"], ["2", "a"], ["3", "b"]]
    reasons = bench.texts('SELECT reason, "column", "offset" FROM _reactor_quarantine')
    assert reasons == [["no_partition_key", None, "3"], ["out_of_range", "w", "2"], ["wrong_type", "v", "0"]]


def test_few_records_are_taken_out_of_many_pieces() -> None:
    """Whose bytes no array could hold together: the pieces share them here."""
    whole = pa.table({"value": pa.array([b"x" * 2**20] * 64, pa.binary()), "n": pa.array(range(64), pa.int64())})
    raw = pa.concat_tables([whole] * 34)
    rows = np.array([0, 63, 64, 700, 34 * 64 - 1])
    assert quarantine._taken(raw, rows)["n"].to_pylist() == [0, 63, 0, 60, 63]
    assert quarantine._taken(raw, rows[:0]).num_rows == 0


def test_a_table_of_other_columns_takes_what_was_to_be_written_from_the_records(bench: Bench) -> None:
    bench.rows("CREATE TABLE t (V TINYINT, w VARCHAR)")
    bench.rows("COMMENT ON TABLE t IS 'made by hand'")
    (ran,) = feed(bench, managed("SELECT k, v, _offset AS w FROM batch", "append", batch=COLUMNS), keyed(("a", 1), ("b", 1000), ("c", 3)))
    assert bench.rows("SELECT V, w FROM t ORDER BY V") == [(1, "0"), (3, "2")]
    assert (ran.drift.added, ran.outcomes["committed"], ran.outcomes["quarantined"]) == (("k",), 2, 1)
    assert bench.rows('SELECT reason, "column", "value" FROM _reactor_quarantine') == [("out_of_range", "v", b'{"k":"b","v":1000}')]


def test_many_small_pieces_are_as_good_as_few(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "PIECE_BYTES", 4096)
    spans = [raw_span([Record(f'{{"k":"{n % 3}","v":{n}}}'.encode() if n % 17 else b"no", b"%d" % n) for n in range(lo, lo + 3)], lo) for lo in range(0, 300, 3)]
    script = managed("SELECT k, v, decode(_key) AS key FROM batch", "append", batch=COLUMNS, partitioned=DYNAMIC)
    feed(bench, script, *spans)
    assert bench.texts("SELECT * FROM t") == sorted([str(n % 3), str(n), str(n), str(n % 3)] for n in range(300) if n % 17)
    assert bench.rows("SELECT count(*) FROM _reactor_quarantine") == [(len(range(0, 300, 17)),)]


def test_tombstones_of_a_source_that_wants_them(bench: Bench) -> None:
    script = managed("SELECT k, v, decode(_key) AS key FROM batch", "append", batch=COLUMNS, tombstones=True)
    (ran,) = feed(bench, script, raw_span([b'{"k":"a","v":1}', Record(None, b"a")]))
    assert bench.texts("SELECT * FROM t") == [[None, None, "a"], ["a", "1", None]]
    assert ran.outcomes["tombstone"] == 0


def test_records_without_a_slice_go_to_quarantine_with_the_others(bench: Bench) -> None:
    script = managed("SELECT k FROM batch", "append", batch=COLUMNS, partitioned=BY_TIME)
    good, old = b'{"k":"a","ts":"2026-03-01T10:00:00Z"}', b'{"k":"b","ts":"soon"}'
    (ran,) = feed(bench, script, raw_span([good, Record(old, b"kk"), b"{", None]))
    assert bench.texts("SELECT k, _wm_partition FROM t") == [["a", "2026-03-01"]]
    row = 'SELECT reason, "offset", "value", "key", asset, source, source_partition, object FROM _reactor_quarantine ORDER BY "offset"'
    assert bench.rows(row) == [
        ("bad_event_time", 1, old, b"kk", "ducklake://main/t", "kafka://main/in", "0", None),
        ("not_json", 2, b"{", None, "ducklake://main/t", "kafka://main/in", "0", None),
    ]
    assert [(c.inserted, c.deleted) for c in ran.counts] == [(1, 0), (0, 0)]
    assert ran.outcomes == {"committed": 1, "quarantined": 2, "tombstone": 1, "filtered": 0, "skewed": 0, "duplicate": 0}


def test_only_records_without_a_slice(bench: Bench) -> None:
    script = managed("SELECT k FROM batch", "append", batch=COLUMNS, partitioned=BY_TIME)
    (order,) = orders(script, raw_span([b"{}"]))
    assert [s.asset_partition for s in order.slices] == [UNROUTED]
    staged = bench.lake.stage(order)
    assert staged.schema is None
    ran = bench.finish(staged)
    assert (ran.changed, ran.compiled_sql) == (True, "")
    assert bench.rows("SELECT reason, run_id IS NOT NULL, quarantined_at IS NOT NULL FROM _reactor_quarantine") == [("no_event_time", True, True)]


def test_too_many_bad_records_fail_the_run(bench: Bench) -> None:
    script = managed("SELECT k FROM batch", "append", batch=COLUMNS)
    bad, good = b'{"v":"x"}', b'{"v":1}'
    feed(bench, script, raw_span([bad] * 10 + [good] * 90))
    with pytest.raises(RunFailed, match=r"11 of 100 records cannot become rows \(11 wrong_type\)"):
        feed(bench, script, raw_span([bad] * 11 + [good] * 89))
    with pytest.raises(RunFailed, match="1001 of 20000"):
        feed(bench, script, raw_span([bad] * 1001 + [good] * 18999))
    feed(bench, script, raw_span([bad] * 50))
    assert bench.rows("SELECT count(*) FROM t") == [(90,)]
    assert bench.rows("SELECT count(*) FROM _reactor_quarantine") == [(60,)]


def test_a_few_bad_records_of_many_are_accidents_however_many_a_run_has(bench: Bench) -> None:
    feed(bench, managed("SELECT k FROM batch", "append", batch=COLUMNS), raw_span(([b'{"v":"x"}'] + [b'{"v":1}'] * 59) * 1001))
    sliced = managed("SELECT k FROM batch", "append", batch=COLUMNS, partitioned=BY_TIME)
    (order,) = orders(sliced, raw_span(([b"{}"] + [b'{"ts":"2026-06-19T10:00:00Z"}'] * 59) * 1001))
    alone = replace(order, slices=[s for s in order.slices if s.asset_partition == UNROUTED])
    bench.finish(bench.lake.stage(alone))
    assert bench.rows("SELECT count(*) FROM _reactor_quarantine") == [(2002,)]


@pytest.mark.parametrize(("bad", "good", "fails"), [(200, 0, True), (111, 889, True), (99, 891, False), (99, 0, False)])
def test_records_without_a_slice_are_judged_among_those_that_came_with_them(bad: int, good: int, fails: bool, bench: Bench) -> None:
    sliced = managed("SELECT k FROM batch", "append", batch=COLUMNS, partitioned=BY_TIME)
    (order,) = orders(sliced, raw_span([b"{}"] * (bad - 1) + [b'{"ts":"2026-06-19T10:00:00Z"}'] * good + [b"{}"]))
    alone = replace(order, slices=[s for s in order.slices if s.asset_partition == UNROUTED])
    if fails:
        with pytest.raises(RunFailed, match=f"{bad} of {bad} records cannot become rows"):
            bench.lake.stage(alone)
    else:
        bench.finish(bench.lake.stage(alone))
        assert bench.rows("SELECT count(*) FROM _reactor_quarantine") == [(bad,)]


def test_a_value_that_does_not_fit_the_table_sets_its_record_aside(bench: Bench) -> None:
    feed(bench, managed("SELECT k, v FROM batch", "append", batch=COLUMNS), keyed(("a", 1)))
    wider = managed("SELECT k, v FROM batch", "append", batch=[("k", "VARCHAR"), ("v", "BIGINT")])
    (ran,) = feed(bench, wider, keyed(("b", 2), ("c", 3_000_000_000), ("d", 4)))
    assert ran.drift.type_changed == ("v",)
    assert bench.texts("SELECT k, v FROM t") == [["a", "1"], ["b", "2"], ["d", "4"]]
    assert bench.rows('SELECT reason, "column", message, "offset" FROM _reactor_quarantine') == [
        ("out_of_range", "v", "v: 3000000000 does not fit INTEGER", 1)
    ]
    fractions = managed("SELECT k, CAST(v AS DOUBLE) / 2 AS v FROM batch", "append", batch=COLUMNS)
    feed(bench, fractions, keyed(("e", 5), ("f", 6)))
    assert bench.texts("SELECT k, v FROM t WHERE k IN ('e', 'f')") == [["f", "3"]]


def test_it_fails_where_the_row_cannot_be_told_by_a_record(bench: Bench) -> None:
    feed(bench, managed("SELECT k, v FROM batch", "append", batch=COLUMNS), keyed(("a", 1)))
    sums = managed("SELECT k, sum(v)::BIGINT * 3000000000 AS v FROM batch GROUP BY k", "append", batch=COLUMNS)
    with pytest.raises(RunFailed, match=r"1 rows hold a value that does not fit the table \(v INTEGER\)\n.*v: 3000000000 does not fit INTEGER"):
        feed(bench, sums, keyed(("b", 1)))


def test_batch_meets_other_tables(bench: Bench) -> None:
    bench.rows("CREATE TABLE lake_main.main.dim AS SELECT 'a' AS k, 'Anna' AS name")
    feed(bench, managed("SELECT b.v, d.name FROM batch b LEFT JOIN main.dim d USING (k)", "append", batch=COLUMNS), keyed(("a", 1), ("b", 2)))
    assert bench.texts("SELECT v, name FROM t") == [["1", "Anna"], ["2", None]]
    assert [row[0] for row in bench.rows("DESCRIBE t")] == ["v", "name"]


def test_a_run_that_keeps_nothing_makes_no_snapshot(bench: Bench) -> None:
    script = managed("SELECT v FROM batch WHERE v > 10", "append", batch=COLUMNS)
    before = bench.snapshot()
    staged = bench.lake.stage(orders(script, keyed(("a", 1)))[0])
    assert staged.schema is None
    ran = bench.finish(staged)
    assert (ran.changed, ran.outcomes["filtered"], bench.snapshot()) == (False, 1, before)


@pytest.mark.parametrize(("select", "words"), [
    ("SELECT k AS _wm_row FROM batch", "the column _wm_row is reserved"),
    ("SELECT *, 1 AS _wm_partition FROM batch", "the column _wm_partition is reserved"),
    ("SELECT k, v AS K FROM batch", "more than one column"),
    ("SELECT sum(v) AS total FROM batch", r"the column total is HUGEINT, which a lake cannot keep\n.*DECIMAL\(38,0\)"),
    ("SELECT [{'a': v::HUGEINT}] AS l FROM batch", "HUGEINT"),
    ("SELECT TIME_NS '10:00:00' AS t FROM batch", "TIME_NS"),
    ("SELECT k::ENUM('a', 'b') AS e FROM batch", "ENUM"),
    ("SELECT [v]::INTEGER[1] AS a FROM batch", r"INTEGER\[1\]"),
    ("SELECT nothing FROM batch", "nothing"),
    ("SELECT k, true AS _deleted FROM batch", "without key= nothing can be deleted"),
])  # fmt: skip
def test_what_blocks(bench: Bench, select: str, words: str) -> None:
    with pytest.raises(RunBlocked, match=words):
        feed(bench, managed(select, "append", batch=COLUMNS), keyed(("a", 1)))
    assert not bench.rows("SELECT 1 FROM duckdb_tables() WHERE database_name = 'lake_main' AND table_name = 't'")


def test_replacing_a_slice_of_an_append(bench: Bench) -> None:
    script = managed("SELECT 1 AS a", "append", partitioned=DYNAMIC)
    bench.run(script, "x")
    bench.run(script, "y")
    assert [(c.inserted, c.deleted) for c in bench.run(script, "x", replace_slice=True).counts] == [(1, 1)]
    assert bench.rows("SELECT count(*) FROM t") == [(2,)]
    with pytest.raises(RunBlocked, match="positions reset"):
        bench.stage(managed("SELECT v FROM batch", "append", batch=COLUMNS, partitioned=DYNAMIC), "x", replace_slice=True)


@pytest.mark.thorough
def test_thousands_of_slices_in_one_commit(bench: Bench) -> None:
    """Ten thousand may be open; what a commit takes grows with their square."""
    count = tries(2_000, 10_000)
    script = managed("SELECT v FROM batch", "append", batch=COLUMNS, partitioned=DYNAMIC)
    (ran,) = feed(bench, script, keyed(*((f"key {i}", i) for i in range(count))))
    assert all(c.inserted == 1 for c in ran.counts)
    assert bench.rows("SELECT count(*), count(DISTINCT _wm_partition) FROM t WHERE _wm_partition = 'key ' || v") == [(count, count)]


def test_bytes_as_they_came(bench: Bench) -> None:
    script = managed("SELECT value, _key, _offset FROM batch", "append", reads_batch=True)
    raw = replace(script, edges=(replace(script.edges[0], format="raw"),))
    (ran,) = feed(bench, raw, raw_span([Record(b"\x00\xff", key=b"k"), Record(None), Record(b"")]))
    assert bench.rows("SELECT value, _key, _offset FROM t ORDER BY _offset") == [(b"\x00\xff", b"k", 0), (None, None, 1), (b"", None, 2)]
    assert ran.outcomes["quarantined"] == ran.outcomes["tombstone"] == 0


def test_a_table_swapped_by_hand_blocks_the_run(bench: Bench) -> None:
    script = managed("SELECT v FROM batch", "append", batch=COLUMNS)
    feed(bench, script, keyed(("a", 1)))
    uuid = bench.lake.ensure_table(script)
    (order,) = orders(script, keyed(("b", 2)))
    bench.finish(bench.lake.stage(replace(order, table_uuid=uuid)))
    bench.rows("CREATE OR REPLACE TABLE lake_main.main.t AS SELECT 1 AS v")
    with pytest.raises(RunBlocked, match="positions reset"):
        bench.lake.stage(replace(order, table_uuid=uuid))
    bench.rows("DROP TABLE lake_main.main.t")
    with pytest.raises(RunBlocked, match="dropped"):
        bench.lake.stage(replace(order, table_uuid=uuid))
