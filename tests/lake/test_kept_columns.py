"""What a split has read of the payloads is not read again by the run, and where it was not kept nothing is different."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from reactor.domain.scripts import BatchColumn, Edge, Header, HeaderField, Partitioning, Routing, Script
from reactor.domain.spans import UNROUTED
from reactor.lake.decoding import tokens
from reactor.lake.decoding.kept import FAULTS, PREFIX, ROWS_MIN, without_rare
from reactor.lake.rows import Rows
from reactor.lake.split import ArrowSplitter
from reactor.ports import RawSpan
from reactor.wiring import columns_by_path
from tests.lake.driving import Bench, managed, orders, raw_span

DAILY = Partitioning("daily", event_time=("ts",))
COLUMNS = [("id", "BIGINT"), ("name", "VARCHAR"), ("ts", "TIMESTAMP WITH TIME ZONE")]
DECLARED = tuple(BatchColumn(name, type_) for name, type_ in COLUMNS)


def record(number: int, name: str = "somebody with a long name", number_type: Callable[[int], object] = int) -> bytes:
    return json.dumps({"id": number_type(number), "name": name, "ts": f"2026-03-0{number % 3 + 1}T12:00:00Z"}).encode()


def kept_columns(raw: RawSpan, columns: Sequence[BatchColumn], partitioning: Partitioning = DAILY) -> set[str]:
    """The names of the columns beside those of a span, of all pieces of its slices."""
    script = managed("SELECT * FROM batch", "append", batch=COLUMNS, partitioned=partitioning)
    (order,) = orders(script, raw, splitter=ArrowSplitter(lambda source, _: columns if source == raw.source_partition.source else ()))
    pieces = [cast("Rows", rows) for s in order.slices for *_, rows in s.parts]
    return {name for piece in pieces for name in piece.records.column_names} - set(raw.records.column_names)


def test_they_are_kept_where_that_is_worth_it() -> None:
    many, what = [record(number) for number in range(ROWS_MIN)], json.dumps(COLUMNS)
    assert kept_columns(raw_span(many), DECLARED) == {PREFIX + what}
    assert kept_columns(raw_span([*many, record(1, number_type=lambda _: "x")]), DECLARED) == {PREFIX + what, FAULTS + what}
    assert kept_columns(raw_span(many), ()) == set()
    assert kept_columns(raw_span(many[1:]), DECLARED) == set()  # few
    assert kept_columns(raw_span(many), [*DECLARED, *(BatchColumn(str(n), "BIGINT") for n in range(20))]) == set()  # of a size with the payloads
    assert kept_columns(raw_span(many), [*DECLARED, BatchColumn("name", "JSON"), BatchColumn("ts", "JSON"), BatchColumn("ts", "VARCHAR")]) == set()  # as it turns out
    assert kept_columns(raw_span(many), DECLARED, Partitioning("daily", event_time=HeaderField("at"))) == set()  # nothing was scanned
    assert kept_columns(raw_span(many), DECLARED, Partitioning("dynamic", key=("id",))) == set()  # a piece a record


@pytest.mark.parametrize("known", [DECLARED, (*reversed(DECLARED), BatchColumn("id", "DOUBLE")), DECLARED[::2], (*DECLARED[1:], BatchColumn("id", "JSON"))],
                         ids=["same", "more", "fewer", "another type"])  # fmt: skip
def test_a_run_scans_only_what_was_not(bench: Bench, known: Sequence[BatchColumn], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a span that was large enough, by another declaration maybe, and of one that was not; malformed records among them."""
    scanned, plain = list[int](), tokens.members

    def members(texts: Any, present: Any, names: Any) -> Any:
        scanned.append(len(texts.kinds))
        return plain(texts, present, names)

    monkeypatch.setattr("reactor.lake.decoding.payload.members", members)
    monkeypatch.setattr("reactor.lake.decoding.payload.PIECE_BYTES", 20_000)
    bad = [b'{"id": "x", "ts": "2026-03-01T12:00:00Z", "name": "a wrong type"}', b'{"id": 1, "id": 2, "ts": "2026-03-01T12:00:00Z"}', b"{", None]
    large = raw_span([*bad[:2], *(record(number) for number in range(3 * ROWS_MIN)), *bad])
    small = raw_span([record(number) for number in range(5)], lo=large.hi)
    script = managed("SELECT * FROM batch", "append", batch=COLUMNS, partitioned=DAILY)
    (order,) = orders(script, large, small, splitter=ArrowSplitter(lambda *_: known))
    assert bench.finish(bench.lake.stage(order)).outcomes == {
        "committed": 3 * ROWS_MIN + 5, "filtered": 0, "quarantined": 5, "tombstone": 1, "skewed": 0, "duplicate": 0,
    }  # fmt: skip
    assert bench.rows("SELECT count(*), count(DISTINCT id), min(name), max(name), count(DISTINCT ts) FROM main.t") == [
        (3 * ROWS_MIN + 5, 3 * ROWS_MIN, "somebody with a long name", "somebody with a long name", 3)]
    assert bench.rows('SELECT reason, "column", count(*) FROM main._reactor_quarantine GROUP BY ALL ORDER BY ALL') == [
        ("duplicate_key", "id", 2), ("not_json", None, 1), ("wrong_type", "id", 2)]
    routed = 3 * ROWS_MIN + 9
    assert 5 <= sum(scanned) < routed / 2 if set(known) >= set(DECLARED) else sum(scanned) == routed


def test_a_piece_that_is_thinner_than_its_span_goes_without() -> None:
    """And so does what has no slice, for it is never decoded. What is kept is counted, and never more than the records."""
    thin = b'{"id":1,"ts":"2026-03-02"}'
    raw = raw_span([thin, b"not JSON", *(record(3 * number, "long" * 20) for number in range(ROWS_MIN))])
    routing = Routing(DAILY)
    pieces = ArrowSplitter(lambda *_: DECLARED).split(raw, [routing], 0.0).pieces[routing.fingerprint]
    assert {identity: any(name.startswith(PREFIX) for name in cast("Rows", piece.payload).records.column_names) for identity, piece in pieces.items()} == {
        "2026-03-01": True, "2026-03-02": False, UNROUTED: False,
    }  # fmt: skip
    records = cast("Rows", pieces["2026-03-01"].payload).records
    assert 0 < pieces["2026-03-01"].beside_bytes == sum(records[name].nbytes for name in records.column_names if name not in raw.records.column_names)
    assert all(piece.beside_bytes <= piece.size_bytes and piece.memory_bytes == piece.size_bytes + piece.beside_bytes for piece in pieces.values())
    assert [pieces[identity].beside_bytes for identity in ("2026-03-02", UNROUTED)] == [0, 0]


@pytest.mark.parametrize("many", [True, False])
def test_what_few_records_of_a_run_have_is_dropped(many: bool) -> None:
    """Tables that are put together have room for each column in every row."""
    kept, others = pa.table({"offset": range(3), PREFIX + "[]": range(3), FAULTS + "[]": range(3)}), pa.table({"offset": range(3 if many else 4)})
    assert [table.column_names[1:] for table in without_rare([kept, others])] == [[PREFIX + "[]", FAULTS + "[]"] if many else [], []]


def test_a_path_s_columns_are_those_that_scripts_sliced_by_it_declare() -> None:
    def reading(topic: str, columns: Sequence[str] | None, partitioning: Partitioning | None) -> Script:
        batch = None if columns is None else tuple(BatchColumn(name, "VARCHAR") for name in columns)
        header = Header(partitioned=partitioning, batch=batch)
        return replace(managed("SELECT 1", reads_batch=True), header=header, edges=(Edge("kafka", f"kafka://main/{topic}"),))

    by_key = Partitioning("dynamic", key=("k",))
    scripts = [
        reading("a", ["x", "y"], DAILY), reading("a", ["y", "z"], by_key), reading("a", ["of a header"], Partitioning("daily", event_time=HeaderField("at"))),
        reading("a", ["of a timestamp"], Partitioning("daily")), reading("a", None, DAILY), reading("b", ["in one piece"], None),
    ]  # fmt: skip
    nested = reading("a", None, DAILY)
    scripts.append(replace(nested, header=replace(nested.header, batch=(BatchColumn("s", "STRUCT(x BIGINT)[]"), BatchColumn("with others", "BIGINT")))))
    scripts.append(reading("a", ["z"], Partitioning("hourly", event_time=("ts",))))
    assert columns_by_path(scripts) == {
        ("kafka://main/a", ("ts",)): tuple(BatchColumn(name, "VARCHAR") for name in "xyz"), ("kafka://main/a", ("k",)): tuple(BatchColumn(name, "VARCHAR") for name in "yz")}


def test_columns_of_another_declaration_do_not_mix(bench: Bench) -> None:
    """A script was edited between two spans: one keeps other columns than the next, as many of them."""
    first = raw_span([record(number) for number in range(ROWS_MIN)])
    second = raw_span([record(number) for number in range(ROWS_MIN)], lo=first.hi)
    script = managed("SELECT * FROM batch", "append", batch=COLUMNS, partitioned=DAILY)
    declared = iter([DECLARED, (DECLARED[1], DECLARED[0], DECLARED[2])])
    (order,) = orders(script, first, second, splitter=ArrowSplitter(lambda *_: next(declared)))
    bench.finish(bench.lake.stage(order))
    assert bench.rows("SELECT count(*), count(DISTINCT id), count(DISTINCT name) FROM main.t") == [(2 * ROWS_MIN, ROWS_MIN, 1)]


def test_what_was_refused_stays_so_beside_records_of_which_nothing_was(bench: Bench) -> None:
    """Of two spans only the second has values that cannot be read; together their records have one table."""
    fine = raw_span([record(number) for number in range(ROWS_MIN)])
    faulty = raw_span([record(number, number_type=int if number % 100 else lambda _: "x") for number in range(ROWS_MIN)], lo=fine.hi)
    script = managed("SELECT * FROM batch", "append", batch=COLUMNS, partitioned=DAILY)
    (order,) = orders(script, fine, faulty, splitter=ArrowSplitter(lambda *_: DECLARED))
    assert bench.finish(bench.lake.stage(order)).outcomes["quarantined"] == ROWS_MIN // 100
    assert bench.rows("SELECT count(*), count(id) FROM main.t") == [(2 * ROWS_MIN - ROWS_MIN // 100, 2 * ROWS_MIN - ROWS_MIN // 100)]
    assert bench.rows('SELECT reason, "column", count(*) FROM main._reactor_quarantine GROUP BY ALL') == [("wrong_type", "id", ROWS_MIN // 100)]


NESTED = [("id", "BIGINT"), ("s", "STRUCT(b STRUCT(c BIGINT))"), ("ts", "TIMESTAMP WITH TIME ZONE")]


def test_what_is_nested_is_right_in_small_slices_and_beside_metadata(bench: Bench) -> None:
    """DuckDB reads the inner struct of a slice of structs from its beginning, so none is kept, and none is sliced by what stands beside it."""
    def nested(number: int) -> bytes:
        return json.dumps({"id": number, "s": {"b": {"c": number}}, "ts": f"2026-03-{number % 30 + 1:02}", "pad": "p" * 50}).encode()

    first = raw_span([nested(number) for number in range(ROWS_MIN)])
    second = raw_span([nested(number) for number in range(ROWS_MIN, ROWS_MIN + 50)], lo=first.hi)
    script = managed("SELECT *, _offset AS o FROM batch", "append", batch=NESTED, partitioned=DAILY)
    declared = tuple(BatchColumn(name, type_) for name, type_ in NESTED)
    (order,) = orders(script, first, second, splitter=ArrowSplitter(lambda *_: declared))
    bench.finish(bench.lake.stage(order))
    assert bench.rows("SELECT count(*), count(*) FILTER (id = s.b.c AND id = o) FROM main.t") == [(ROWS_MIN + 50, ROWS_MIN + 50)]


def test_each_routing_brings_what_its_own_scripts_declare() -> None:
    raw = raw_span([record(number) for number in range(ROWS_MIN)])
    routings = [Routing(DAILY), Routing(Partitioning("dynamic", key=("name",))), Routing(Partitioning("daily", event_time=HeaderField("at")))]
    span = ArrowSplitter(lambda _, path: DECLARED[:2] if path == ("name",) else DECLARED).split(raw, routings, 0.0)
    names = [{name for piece in span.pieces[r.fingerprint].values() for name in cast("Rows", piece.payload).records.column_names if name.startswith(PREFIX)} for r in routings]
    assert names == [{PREFIX + json.dumps(COLUMNS)}, {PREFIX + json.dumps(COLUMNS[:2])}, set()]
