"""What a split has found in the payloads is not looked for again by the run, and where it was not kept nothing is different."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from reactor.domain.scripts import BatchColumn, Edge, Header, HeaderField, Partitioning, Routing, Script
from reactor.domain.spans import UNROUTED
from reactor.lake.decoding import tokens
from reactor.lake.decoding.kept import PREFIX, ROWS_MIN, without_rare
from reactor.lake.rows import Rows
from reactor.lake.split import ArrowSplitter
from reactor.ports import RawSpan
from reactor.wiring import members_by_source
from tests.lake.driving import Bench, managed, orders, raw_span

DAILY = Partitioning("daily", event_time=("ts",))
COLUMNS = [("id", "BIGINT"), ("name", "VARCHAR"), ("ts", "TIMESTAMP WITH TIME ZONE")]
NAMES = tuple(name for name, _ in COLUMNS)


def record(number: int, name: str = "somebody with a long name") -> bytes:
    return json.dumps({"id": number, "name": name, "ts": f"2026-03-0{number % 3 + 1}T12:00:00Z"}).encode()


def kept_columns(raw: RawSpan, names: Sequence[str], partitioning: Partitioning = DAILY) -> set[str]:
    """The names of the columns beside those of a span, of all pieces of its slices."""
    script = managed("SELECT * FROM batch", "append", batch=COLUMNS, partitioned=partitioning)
    (order,) = orders(script, raw, splitter=ArrowSplitter(lambda source: names if source == raw.source_partition.source else ()))
    pieces = [cast("Rows", rows) for s in order.slices for *_, rows in s.parts]
    return {name for piece in pieces for name in piece.records.column_names} - set(raw.records.column_names)


def test_it_is_kept_where_it_is_worth_it() -> None:
    many = [record(number) for number in range(ROWS_MIN)]
    assert kept_columns(raw_span(many), NAMES) == {PREFIX + json.dumps(NAMES)}
    assert kept_columns(raw_span(many), ()) == set()
    assert kept_columns(raw_span(many[1:]), NAMES) == set()  # few
    assert kept_columns(raw_span([*many, record(0, "n" * 65_536)]), NAMES) == set()  # a place that no 16 bits hold
    assert kept_columns(raw_span(many), [*NAMES, *map(str, range(10))]) == set()  # of a size with the payloads
    assert kept_columns(raw_span(many), NAMES, Partitioning("daily", event_time=HeaderField("at"))) == set()  # nothing was scanned


@pytest.mark.parametrize("known", [NAMES, (*reversed(NAMES), "more"), ("id", "ts")], ids=["same", "more", "fewer"])
def test_a_run_scans_only_what_was_not(bench: Bench, known: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
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
    (order,) = orders(script, large, small, splitter=ArrowSplitter(lambda _: known))
    assert bench.finish(bench.lake.stage(order)).outcomes == {
        "committed": 3 * ROWS_MIN + 5, "filtered": 0, "quarantined": 5, "tombstone": 1, "skewed": 0, "duplicate": 0,
    }  # fmt: skip
    assert bench.rows("SELECT count(*), count(DISTINCT id), min(name), max(name), count(DISTINCT ts) FROM main.t") == [
        (3 * ROWS_MIN + 5, 3 * ROWS_MIN, "somebody with a long name", "somebody with a long name", 3)]
    assert bench.rows('SELECT reason, "column", count(*) FROM main._reactor_quarantine GROUP BY ALL ORDER BY ALL') == [
        ("duplicate_key", "id", 2), ("not_json", None, 1), ("wrong_type", "id", 2)]
    routed = 3 * ROWS_MIN + 9
    assert 5 <= sum(scanned) < routed / 2 if set(known) >= set(NAMES) else sum(scanned) == routed


def test_a_piece_that_is_thinner_than_its_span_goes_without() -> None:
    """And so does what has no slice, for it is never decoded: all that is kept is counted by the size of the records."""
    thin = b'{"id":1,"ts":"2026-03-02"}'
    raw = raw_span([thin, b"not JSON", *(record(3 * number, "long" * 20) for number in range(ROWS_MIN))])
    routing = Routing(DAILY)
    pieces = ArrowSplitter(lambda _: NAMES).split(raw, [routing], 0.0).pieces[routing.fingerprint]
    assert {identity: any(name.startswith(PREFIX) for name in cast("Rows", piece.payload).records.column_names) for identity, piece in pieces.items()} == {
        "2026-03-01": True, "2026-03-02": False, UNROUTED: False,
    }  # fmt: skip


@pytest.mark.parametrize("many", [True, False])
def test_what_few_records_of_a_run_have_is_dropped(many: bool) -> None:
    """Tables that are put together have room for each column in every row."""
    kept, others = pa.table({"offset": range(3), PREFIX + "[]": range(3)}), pa.table({"offset": range(3 if many else 4)})
    assert [PREFIX + "[]" in table.column_names for table in without_rare([kept, others])] == [many, False]


def test_a_source_s_members_are_those_that_its_sliced_scripts_declare() -> None:
    def reading(topic: str, columns: Sequence[str] | None, partitioning: Partitioning | None) -> Script:
        batch = None if columns is None else tuple(BatchColumn(name, "VARCHAR") for name in columns)
        header = Header(partitioned=partitioning, batch=batch)
        return replace(managed("SELECT 1", reads_batch=True), header=header, edges=(Edge("kafka", f"kafka://main/{topic}"),))

    by_key = Partitioning("dynamic", key=("k",))
    scripts = [
        reading("a", ["x", "y"], DAILY), reading("a", ["y", "z"], by_key), reading("a", ["of a header"], Partitioning("daily", event_time=HeaderField("at"))),
        reading("a", ["of a timestamp"], Partitioning("daily")), reading("a", None, DAILY), reading("b", ["in one piece"], None),
    ]  # fmt: skip
    assert members_by_source(scripts) == {"kafka://main/a": ("x", "y", "z")}


def test_names_of_another_declaration_do_not_mix(bench: Bench) -> None:
    """A script was edited between two spans: one keeps other names than the next, as many of them."""
    first = raw_span([record(number) for number in range(ROWS_MIN)])
    second = raw_span([record(number) for number in range(ROWS_MIN)], lo=first.hi)
    script = managed("SELECT * FROM batch", "append", batch=COLUMNS, partitioned=DAILY)
    names = iter([NAMES, ("name", "id", "ts")])
    (order,) = orders(script, first, second, splitter=ArrowSplitter(lambda _: next(names)))
    bench.finish(bench.lake.stage(order))
    assert bench.rows("SELECT count(*), count(DISTINCT id), count(DISTINCT name) FROM main.t") == [(2 * ROWS_MIN, ROWS_MIN, 1)]
