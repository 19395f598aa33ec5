"""When records happened, and which key they carry: what the given cases leave out."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.scripts import HeaderField
from reactor.lake.decoding.event_time import read_event_times, read_partition_keys
from reactor.lake.decoding.reasons import DUPLICATE_KEY, WORDS
from tests.lake.decoding import reference
from tests.lake.decoding.reading import HEADERS, decoded, span_records
from tests.lake.decoding.test_payload_properties import broken, documents, instants, spelt
from tests.parts.effort import tries

NOON = 1772366400000000


def times(values: Sequence[str | bytes | None], *path: str) -> list[int | str]:
    found = read_event_times(span_records(values), path or ("ts",))
    return [reason or int(micros) for micros, reason in zip(found.micros, found.reasons.to_pylist(), strict=True)]


def keys(values: Sequence[str | bytes | None], *path: str) -> list[str | tuple[str]]:
    found = read_partition_keys(span_records(values), path or ("k",))
    pairs = list(zip(found.keys.to_pylist(), found.reasons.to_pylist(), strict=True))
    assert all((key is None) != (reason is None) for key, reason in pairs)
    return [(reason,) if reason else key for key, reason in pairs]


def test_a_payload_that_cannot_be_read_has_the_reason_of_the_payload() -> None:
    deep = '{"ts":0,"x":' + "[" * 100_000 + "]" * 100_000 + "}"
    values = ["", None, b'{"ts":"\xff"}', '{"ts":0,}', "[0]", "null", "0", deep, '{"ts":0}{"ts":0}', '{"ts":NaN}', '{"ts":"\\ud800"}', '{"ts":0}']
    reasons = ["empty_value", "tombstone", "not_utf8", "not_json", "not_object", "not_object", "not_object", "nesting_too_deep", "not_json", "not_json", "not_json", 0]
    assert times(values) == reasons
    assert keys([*values[:-1], '{"k":0}']) == [*((reason,) for reason in reasons[:-1]), "0"]


def test_a_member_that_occurs_twice_on_the_path_is_refused_and_elsewhere_it_is_not() -> None:
    twice = ['{"a":{"b":1},"a":{}}', '{"a":{"b":1,"b":1}}', '{"a":{"b":1,"\\u0062":null}}', '{"a":1,"a":2}']
    assert times(twice, "a", "b") == ["duplicate_key"] * 4
    assert keys(twice, "a", "b") == [("duplicate_key",)] * 4
    assert times(['{"x":1,"x":2,"a":{"c":1,"c":2,"b":1}}', '{"b":1,"b":2,"a":{"b":1}}', '{"a":{"b":1,"a":{"b":1}}}'], "a", "b") == [1_000_000] * 3


def test_a_path_ends_where_there_is_no_object() -> None:
    values = ['{"a":null}', '{"a":[{"b":1}]}', '{"a":"b"}', '{"a":{}}', "{}", '{"a":{"B":1}}', '{"a.b":1}', '{"b":1}']
    assert times(values, "a", "b") == ["no_event_time"] * len(values)
    assert keys(values, "a", "b") == [("no_partition_key",)] * len(values)


def test_names_of_a_path_are_exact_and_may_be_anything() -> None:
    assert times(['{"ship.to é\\u0000":{"":1}}', '{"ship.to \\u00e9\\u0000":{"":1}}'], "ship.to é\0", "") == [1_000_000] * 2


def test_years_that_only_some_zone_has_are_left_to_the_calendar() -> None:
    assert times(['{"ts":"10000-01-01T23:59:59.999999Z"}', '{"ts":"0000-12-31T00:00:00Z"}']) == [253_402_387_199_999_999, -62_135_683_200_000_000]
    assert times(['{"ts":"10000-01-02T00:00:00Z"}', '{"ts":"0000-12-30T23:59:59.999999Z"}', '{"ts":1e30}']) == ["event_time_out_of_range"] * 3


@pytest.mark.parametrize("source", [None, HeaderField("event_time")])
def test_the_last_header_of_the_name_counts(source: HeaderField | None) -> None:
    def found(*headers: tuple[str, str | bytes | None]) -> int | str:
        read = read_event_times(span_records(["{}", "not even JSON"], headers=[[("event_time", "2026-03-01T12:00:00Z")], headers], timestamps=[1, 2]), source)
        assert (read.micros[0], read.reasons[0].as_py()) == (NOON, None)
        return read.reasons[1].as_py() or int(read.micros[1])

    good = ("event_time", "2026-03-01T12:00:00Z")
    absent: int | str = "no_event_time" if source else 2000
    assert found(good) == found(("event_time", "soon"), ("x", ""), good) == found(("event_time", "1772366400000")) == NOON
    assert found() == found(("Event_Time", "soon")) == found(("event_time ", "soon")) == absent
    assert [found(good, ("event_time", bad)) for bad in ("", "soon", b"\xff\xfe", None, '"2026-03-01"', "null", "2026-03-01\0")] == ["bad_event_time"] * 7
    assert found(("event_time", "12026-01-01")) == "event_time_out_of_range"


def test_another_header_may_be_named_and_then_the_record_has_no_say() -> None:
    records = span_records(["{}", "{}"], headers=[[("at", "0"), ("event_time", "1")], [("event_time", "1")]], timestamps=[5, 5])
    read = read_event_times(records, HeaderField("at"))
    assert read.reasons.to_pylist() == [None, "no_event_time"]
    assert read.micros[0] == 0


def test_the_timestamp_of_a_record_is_its_event_time_by_default() -> None:
    read = read_event_times(span_records(["{}"] * 5, timestamps=[0, -1, None, 253_402_387_200_000, -(2**62)]), None)
    assert read.reasons.to_pylist() == [None, None, "no_event_time", "event_time_out_of_range", "event_time_out_of_range"]
    assert list(read.micros[:2]) == [0, -1000]


def test_a_key_is_a_string_a_number_as_it_was_written_or_a_boolean() -> None:
    values = [f'{{"k":{value}}}' for value in ('"a b"', '"\\u00e9\\ud83d\\ude80"', "1.10", "1E400", "-0", "true", "false", '"true"', '"!"', '"' + "x" * 512 + '"')]
    assert keys(values) == ["a b", "é\U0001f680", "1.10", "1E400", "-0", "true", "false", "true", "!", "x" * 512]


def test_what_can_name_no_slice_is_a_bad_key() -> None:
    bad = ['""', "{}", "[]", '["a"]', '"' + "x" * 513 + '"', '"' + "é" * 257 + '"', '"a\\u0000"', '"\\u0000"', "1" * 513]
    assert keys([f'{{"k":{value}}}' for value in bad]) == [("bad_partition_key",)] * len(bad)


def test_no_records_have_no_event_times() -> None:
    empty = span_records([])
    assert [len(read_event_times(empty, source).reasons) for source in (None, HeaderField("x"), ("a", "b"))] == [0, 0, 0]
    assert len(read_partition_keys(empty, ("k",)).keys) == 0


texts = st.one_of(instants, instants, spelt.map(json.dumps), st.sampled_from(["true", "{}", "[]"]))


@pytest.mark.thorough
@settings(max_examples=tries(40, 100), deadline=None)
@given(st.lists(texts, min_size=1, max_size=12))
def test_event_times_are_read_as_the_rules_say_and_as_a_column_is(values: list[str]) -> None:
    documents = [f'{{"ts":{value}}}' for value in values]
    found = times(documents)
    words = {"wrong_type": "bad_event_time", "out_of_range": "event_time_out_of_range"}
    rows = [reference.outcome(document.encode(), [("ts", "TIMESTAMP WITH TIME ZONE")]) for document in documents]
    for document, micros, row in zip(documents, found, rows, strict=True):
        if isinstance(row, dict):
            assert micros == row["ts"]
        elif not (row[0] == "out_of_range" and isinstance(micros, int)):  # within the slack of a day
            assert micros == words[row[0]], document
    columns = decoded(documents, "ts TIMESTAMPTZ")
    assert [n for n, row in enumerate(rows) if isinstance(row, dict)] == sorted(columns.rows)


@pytest.mark.thorough
@settings(max_examples=tries(40, 100), deadline=None)
@given(st.lists(st.one_of(documents, broken(), st.binary(max_size=12)), min_size=1, max_size=8))
def test_a_payload_is_readable_here_exactly_if_it_is_there(values: list[bytes]) -> None:
    payloads = decoded(values, "id BIGINT").rejects
    unreadable = {n: reason for n, (reason, column) in payloads.items() if column is None}
    found = dict(enumerate(times(values, "x")))
    assert {n: said for n, said in found.items() if said in set(WORDS[1:DUPLICATE_KEY])} == unreadable


def test_a_span_may_be_a_slice_of_chunks() -> None:
    records = span_records(
        [f'{{"ts":{n},"k":"{n}"}}' for n in range(10)], headers=[[("x", "9"), ("event_time", str(n))] if n % 2 else [] for n in range(10)], timestamps=range(100, 110),
    )
    chunked = pa.concat_tables([records.slice(0, 4), records.slice(4)]).slice(3, 5)
    assert list(read_event_times(chunked, ("ts",)).micros) == [n * 1_000_000 for n in range(3, 8)]
    assert list(read_event_times(chunked, None).micros) == [n * 1_000_000 if n % 2 else (100 + n) * 1000 for n in range(3, 8)]
    assert read_partition_keys(chunked, ("k",)).keys.to_pylist() == ["3", "4", "5", "6", "7"]


def test_headers_may_be_missing_altogether() -> None:
    records = span_records(["{}", "{}"], timestamps=[1, 2])
    records = records.set_column(4, "headers", pa.array([None, [{"name": None, "value": b"5"}]], HEADERS))
    assert list(read_event_times(records, None).micros) == [1000, 2000]
