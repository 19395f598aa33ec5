"""A span split by asset partition: every record in exactly one piece of a routing, where a look at one record alone would put it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.partitions import Calendar, NoSlice, Slice, calendar_of, dynamic_key, rfc3339
from reactor.domain.scripts import HeaderField, Partitioning, Routing
from reactor.domain.spans import UNROUTED, WHOLE, Piece, SourcePartition, Span
from reactor.lake import split as lake_split
from reactor.lake.rows import Rows
from reactor.lake.split import SHARED_ROWS_MAX, ArrowSplitter
from reactor.ports import RawSpan

SOURCE = SourcePartition("kafka://main/orders", "0")
ARRIVED_AT = 1_772_668_800.0  # 2026-03-05T00:00:00Z
NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z
HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
FIRST = 100

Headers = Sequence[tuple[str, bytes | None]]


def span_of(values: Sequence[bytes | None], headers: Sequence[Headers] = (), timestamps: Sequence[int | None] = (), chunks: int = 1) -> RawSpan:
    """Records at offsets 100, 102, 104 … of a span [90, …)."""
    count = len(values)
    table = pa.table({
        "offset": pa.array(range(FIRST, FIRST + 2 * count, 2), pa.int64()),
        "timestamp": pa.array(timestamps or [NOON] * count, pa.timestamp("ms", "UTC")),
        "key": pa.array([b"k"] * count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array([[{"name": n, "value": v} for n, v in own] for own in headers] or [[]] * count, HEADERS),
    })  # fmt: skip
    step = -(-count // chunks) or 1
    table = pa.concat_tables([table.slice(start, step) for start in range(0, count, step)] or [table])
    return RawSpan(SOURCE, 90, FIRST + 2 * count + 5, table, 1234)


def payload(**members: object) -> bytes:
    return json.dumps(members).encode()


def split(raw: RawSpan, *partitionings: Partitioning | None) -> list[dict[str, Piece]]:
    routings = [Routing(p) for p in partitionings]
    span = ArrowSplitter().split(raw, routings, ARRIVED_AT)
    assert (span.source_partition, span.lo, span.hi, span.arrived_at, span.size_bytes) == (SOURCE, raw.lo, raw.hi, ARRIVED_AT, raw.size_bytes)
    return [dict(span.pieces[r.fingerprint]) for r in routings]


def rows_of(piece: Piece) -> Rows:
    assert isinstance(piece.payload, Rows)
    return piece.payload


def offsets(pieces: dict[str, Piece]) -> dict[str, list[int]]:
    """Identity → offsets, after a look at what each piece says of itself."""
    for piece in pieces.values():
        records = rows_of(piece).records
        found = records["offset"].to_pylist()
        assert (piece.lo, piece.hi, piece.rows) == (found[0], found[-1] + 1, len(found))
        assert found == sorted(found)
        sizes = [len(v or b"") + len(k or b"") for v, k in zip(records["value"].to_pylist(), records["key"].to_pylist(), strict=True)]
        of_headers = [len(h["name"]) + len(h["value"] or b"") for own in records["headers"].to_pylist() for h in own]
        assert piece.size_bytes == sum(sizes) + sum(of_headers)
    return {identity: rows_of(piece).records["offset"].to_pylist() for identity, piece in pieces.items()}


def reasons(pieces: dict[str, Piece]) -> list[Any]:
    said = rows_of(pieces[UNROUTED]).reasons
    assert said is not None
    return list(said.to_pylist())


def test_without_partitions_all_rows_go_to_the_whole() -> None:
    raw = span_of([payload(n=1), None, b"not json"], headers=[[("a", b"bc")], [], [("n", None)]])
    (pieces,) = split(raw, None)
    assert offsets(pieces) == {WHOLE: [100, 102, 104]}
    assert rows_of(pieces[WHOLE]).records["value"].chunk(0).buffers()[2].address == raw.records["value"].chunk(0).buffers()[2].address


def test_an_empty_span_has_no_pieces() -> None:
    assert split(span_of([]), None, Partitioning("daily"), Partitioning("dynamic", key=("k",))) == [{}, {}, {}]


def test_days_of_a_zone() -> None:
    raw = span_of([payload(at=f"2026-03-0{day}T0{hour}:00:00Z") for day, hour in ((2, 3), (3, 6), (2, 4), (2, 6), (1, 9))])
    (pieces,) = split(raw, Partitioning("daily", "America/New_York", event_time=("at",)))
    assert offsets(pieces) == {"2026-03-01": [100, 104, 108], "2026-03-02": [106], "2026-03-03": [102]}


def test_one_slice_keeps_the_arrow_it_came_in() -> None:
    raw = span_of([payload(n=n) for n in range(5)])
    (pieces,) = split(raw, Partitioning("daily"))
    assert list(pieces) == ["2026-03-01"]
    assert rows_of(pieces["2026-03-01"]).records.equals(raw.records)
    assert rows_of(pieces["2026-03-01"]).records["value"].chunk(0).buffers()[2].address == raw.records["value"].chunk(0).buffers()[2].address


def test_records_without_a_slice_say_why() -> None:
    values = [
        payload(at="2026-03-02T00:00:00Z"), payload(), payload(at="soon"), None, b"{", payload(at="2026-02-28T23:59:59Z"), payload(at="0001-01-01T00:00:00Z"),
        payload(at="9999-12-31T23:59:59-05:00"), payload(at="10001-01-01T00:00:00Z"),
    ]  # fmt: skip
    (pieces,) = split(span_of(values), Partitioning("daily", "America/New_York", start=date(2026, 3, 1), event_time=("at",)))
    assert offsets(pieces) == {"2026-03-01": [100], "9999-12-31": [114], UNROUTED: [102, 104, 106, 108, 110, 112, 116]}
    assert reasons(pieces) == [
        "no_event_time", "bad_event_time", "tombstone", "not_json", "before_start", "event_time_out_of_range", "event_time_out_of_range",
    ]  # fmt: skip
    assert all(rows_of(piece).reasons is None for identity, piece in pieces.items() if identity != UNROUTED)


def test_only_records_without_a_slice() -> None:
    (pieces,) = split(span_of([b"x", b"y"]), Partitioning("daily", event_time=("at",)))
    assert offsets(pieces) == {UNROUTED: [100, 102]}
    assert reasons(pieces) == ["not_json", "not_json"]


def test_headers_and_the_default_chain() -> None:
    headers = [[("event_time", b"2026-03-04T05:00:00Z")], [], [("event_time", b"soon")], []]
    raw = span_of([payload()] * 4, headers, timestamps=[NOON, NOON, NOON, None])
    declared, default = split(raw, Partitioning("daily", event_time=HeaderField("event_time")), Partitioning("daily"))
    assert offsets(declared) == {"2026-03-04": [100], UNROUTED: [102, 104, 106]}
    assert reasons(declared) == ["no_event_time", "bad_event_time", "no_event_time"]
    assert offsets(default) == {"2026-03-04": [100], "2026-03-01": [102], UNROUTED: [104], "2026-03-05": [106]}
    assert reasons(default) == ["bad_event_time"]


def test_dynamic_keys() -> None:
    values = [payload(k=k) for k in ("b", 7, "b", True, "", None, UNROUTED)] + [b'{"k":7.0}', None]
    (pieces,) = split(span_of(values), Partitioning("dynamic", key=("k",)))
    assert offsets(pieces) == {"b": [100, 104], "7": [102], "true": [106], UNROUTED: [108, 110, 112, 116], "7.0": [114]}
    assert reasons(pieces) == ["bad_partition_key", "no_partition_key", "bad_partition_key", "tombstone"]


def test_many_keys_share_a_copy_and_large_pieces_do_not() -> None:
    values = [payload(k="large")] * SHARED_ROWS_MAX + [payload(k=n) for n in range(10_000)]
    (pieces,) = split(span_of(values, chunks=7), Partitioning("dynamic", key=("k",)))
    assert len(offsets(pieces)) == 10_001
    memory = [rows_of(pieces[key]).records["value"].chunk(0).buffers()[2].address for key in ("0", "9999", "large")]
    assert memory[0] == memory[1] != memory[2]
    assert rows_of(pieces["large"]).records["value"].chunk(0).buffers()[2].size < 2 * SHARED_ROWS_MAX * len(values[0])


def test_routings_of_one_span_are_told_apart() -> None:
    raw = span_of([payload(at="2026-03-02T01:00:00Z", k="x")])
    pieces = split(raw, None, Partitioning("daily"), Partitioning("daily", event_time=("at",)), Partitioning("monthly"), Partitioning("dynamic", key=("k",)))
    assert [list(own) for own in pieces] == [[WHOLE], ["2026-03-01"], ["2026-03-02"], ["2026-03"], ["x"]]


PARTITIONINGS = st.builds(
    Partitioning,
    kind=st.sampled_from(["hourly", "daily", "weekly", "monthly"]),
    zone=st.sampled_from(["UTC", "America/New_York", "Pacific/Apia", "America/St_Johns", "Australia/Lord_Howe"]),
    start=st.sampled_from([None, date(2026, 3, 8)]),
    event_time=st.just(("at",)),
)
INSTANTS = st.integers(1_772_900_000, 1_773_100_000) | st.integers(1_289_000_000, 1_289_200_000) | st.integers(-62_135_700_000, 253_402_400_000)


def where(partitioning: Partitioning, second: int) -> str:
    """One record alone."""
    try:
        return calendar_of(partitioning).slice_of(second * 1_000_000).identity
    except NoSlice:
        return UNROUTED


@given(st.lists(INSTANTS, min_size=1, max_size=60), PARTITIONINGS, st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_columns_put_a_record_where_the_calendar_does(seconds: list[int], partitioning: Partitioning, chunks: int) -> None:
    values = [payload(at=rfc3339(second * 1_000_000)) for second in seconds]
    (pieces,) = split(span_of(values, chunks=chunks), partitioning)
    wanted: dict[str, list[int]] = {}
    for place, second in enumerate(seconds):
        wanted.setdefault(where(partitioning, second), []).append(FIRST + 2 * place)
    assert offsets(pieces) == wanted


@given(st.lists(st.sampled_from(["a", "b", "", "!", None, 1, 2.5, True, {}, "x" * 600]), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_columns_find_the_key_that_a_record_alone_has(keys: list[object]) -> None:
    (pieces,) = split(span_of([payload(k=key) for key in keys]), Partitioning("dynamic", key=("k",)))
    wanted: dict[str, list[int]] = {}
    said = []
    for place, key in enumerate(keys):
        try:
            identity = dynamic_key(json.loads(json.dumps(key), parse_int=str, parse_float=str))
        except NoSlice as refused:
            identity = UNROUTED
            said.append(refused.reason)
        wanted.setdefault(identity, []).append(FIRST + 2 * place)
    assert offsets(pieces) == wanted
    assert not said or reasons(pieces) == said


def test_the_same_arguments_give_the_same_pieces() -> None:
    raw = span_of([payload(at=1_772_323_200 + 7200 * n) for n in range(50)])
    routing = Routing(Partitioning("hourly", event_time=("at",)))
    spans: list[Span] = [ArrowSplitter().split(raw, [routing], ARRIVED_AT) for _ in range(2)]
    first, second = (offsets(dict(span.pieces[routing.fingerprint])) for span in spans)
    assert first == second


def a_microsecond_longer(one: Slice) -> Slice:
    return replace(one, end=one.end + 1)


@pytest.mark.parametrize("few", [0, 1, 4])
def test_a_mutant_that_takes_the_end_of_a_slice_into_it_falls(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_split, "FEW_SLICES", few)
    values = [payload(at=f"2026-03-0{day}T00:00:00Z") for day in (1, 2, 3)]
    routing = Partitioning("daily", event_time=("at",))
    wanted = {"2026-03-01": [100], "2026-03-02": [102], "2026-03-03": [104]}
    assert offsets(split(span_of(values), routing)[0]) == wanted
    slice_of = Calendar.slice_of
    monkeypatch.setattr(Calendar, "slice_of", lambda self, instant: a_microsecond_longer(slice_of(self, instant)))
    assert offsets(split(span_of(values), routing)[0]) != wanted
