"""The two tables that a decoding makes, and what it takes its records from."""

from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pytest

from reactor.domain.scripts import BatchColumn
from reactor.lake.decoding import payload, tokens
from reactor.lake.decoding.payload import decode, forget
from tests.lake.decoding.reading import columns_of, cursor, decoded, records


def tables(own: duckdb.DuckDBPyConnection) -> set[str]:
    return {name for (name,) in own.execute("SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}


def test_types_and_order_are_as_declared_before_what_is_kept() -> None:
    text = 'b DECIMAL(12,2), a TIMESTAMPTZ, "c d" STRUCT(x HUGEINT, y JSON[])[], e MAP(VARCHAR, TIMESTAMP_NS), f UUID, g TIME, h FLOAT, i UTINYINT, j JSON, k DATE'
    raw = records([b"{}", b"no"]).append_column("_offset", pa.array([5, 6])).append_column("_key", pa.array([b"k", b"l"], pa.binary()))
    with cursor() as own:
        decode(own, raw, columns_of(text), ["_key", "_offset"], "good", "bad")
        described = [(name, type_) for name, type_, *_ in own.execute("DESCRIBE good").fetchall()]
        assert described == [*((column.name, column.type) for column in columns_of(text)), ("_key", "BLOB"), ("_offset", "BIGINT")]
        assert [(name, type_) for name, type_, *_ in own.execute("DESCRIBE bad").fetchall()] == [("_row", "BIGINT"), ("reason", "VARCHAR"), ("column", "VARCHAR")]


def test_names_of_tables_may_be_anything_and_nothing_else_is_left() -> None:
    with cursor() as own:
        before = tables(own)
        decode(own, records([b'{"a":1}', b"no"]), columns_of("a BIGINT"), ["_row"], 'the "good"', "bad; ones")
        assert own.execute('FROM temp."the ""good"""').fetchall() == [(1, 0)]
        assert own.execute('FROM temp."bad; ones"').fetchall() == [(1, "not_json", None)]
        forget(own, 'the "good"')
        assert tables(own) == before | {"bad; ones"}


def test_names_of_a_script_never_meet_our_own() -> None:
    names = ["_row", "value", "row", "reason", "fault", "c0", "v0", "k0", "words", 'a"b', "a'b", "SELECT", "é", "{x}", "%s", "$names"]
    columns = [BatchColumn(name, "BIGINT") for name in names if name not in ("_row", "value")]
    members = ", ".join(f'"{name}": {i}' for i, name in enumerate(names)).replace('a"b', 'a\\"b')
    with cursor() as own:
        decode(own, records([f"{{{members}}}".encode(), b'{"a\'b":"x"}']), columns, ["_row", "value"], "good", "bad")
        assert own.execute("SELECT * EXCLUDE (_row, value) FROM good").fetchall() == [tuple(range(2, len(names)))]
        assert own.execute("FROM bad").fetchall() == [(1, "wrong_type", "a'b")]


def test_a_failure_leaves_nothing_registered() -> None:
    with cursor() as own:
        own.execute("CREATE TEMP TABLE good (x INTEGER)")
        before = tables(own)
        with pytest.raises(duckdb.Error):
            decode(own, records([b"{}"]), columns_of("a BIGINT"), [], "good", "bad")
        assert tables(own) == before


def test_it_may_stand_in_a_transaction_that_is_rolled_back() -> None:
    with cursor() as own:
        own.execute("BEGIN")
        decode(own, records([b'{"a":[1]}', b"no"]), columns_of("a BIGINT[]"), ["_row"], "good", "bad")
        own.execute("ROLLBACK")
        assert not tables(own) & {"good", "bad"}


def test_the_payload_itself_is_any_json_text_as_it_came() -> None:
    deep = "[" * 1024 + "]" * 1024
    taken = ['{"a": 1.50, "a":1e400}', "[1]", "null", '"x\\u0000"', " 12 ", "true\n", deep]
    found = decoded([*taken, b'\xef\xbb\xbf{"a" :1}', "", b"\xff", "{", "[" + deep + "]", None, "{}{}", b"\xef\xbb\xbf", "NaN", "[1,]"], None)
    assert [row["value"] for _, row in sorted(found.rows.items())] == [*taken, '{"a" :1}']
    assert [reason for _, (reason, _) in sorted(found.rejects.items())] == [
        "empty_value", "not_utf8", "not_json", "nesting_too_deep", "tombstone", "not_json", "not_json", "not_json", "not_json",
    ]  # fmt: skip


def test_depth_is_counted_everywhere_and_kills_nothing() -> None:
    def nested(levels: int, opening: str = "[", closing: str = "]") -> str:
        return f'{{"a":{opening * levels}{closing * levels}}}'

    for text in (nested(1023), nested(1023, '{"a":', "}").replace('{"a":}', '{"a":1}')):
        assert decoded([text], "a JSON").rejects == {}
        assert decoded([text], "b JSON, x VARCHAR[]").rejects == {}
    for text in (nested(1024), nested(100_000), "[" * 2_000_000, '{"a":' * 100_000):
        assert decoded(['{"a":1}', text, '{"a":2}'], "a JSON").rejects == {1: ("nesting_too_deep", None)}
    assert decoded([nested(1000)], "a VARCHAR").rows[0]["a"] == "[" * 1000 + "]" * 1000


@pytest.mark.parametrize("text", ["", "a BIGINT, b BIGINT[], c VARCHAR"])
def test_no_records_and_no_columns_are_tables_too(text: str) -> None:
    columns = columns_of(text) if text else []
    assert decoded([], columns).rows == {}
    with cursor() as own:
        decode(own, records([b"{}", b"[]"]), columns, ["_row"], "good", "bad")
        assert own.execute("SELECT _row FROM good").fetchall() == [(0,)]
        assert own.execute("FROM bad").fetchall() == [(1, "not_object", None)]


def test_pieces_are_read_side_by_side_and_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f'{{"a":{n},"b":[{n},{"1e3" if n % 3 else "1e30"}],"c":"{"x" * (n % 50)}"}}' if n % 7 else "nope" for n in range(500)]
    whole = decoded(texts, "a BIGINT, b BIGINT[], c VARCHAR")
    monkeypatch.setattr(payload, "PIECE_BYTES", 700)
    pieces = decoded(texts, "a BIGINT, b BIGINT[], c VARCHAR")
    assert pieces == whole
    assert list(pieces.rows) == sorted(pieces.rows)
    assert {reason for reason, _ in pieces.rejects.values()} == {"not_json", "out_of_range"}


@pytest.mark.parametrize("guessed", [0, 1, 16])
def test_a_record_may_have_any_number_of_members_and_items(monkeypatch: pytest.MonkeyPatch, guessed: int) -> None:
    monkeypatch.setattr(tokens, "CHILDREN_GUESSED", guessed)
    wide = ",".join(f'"m{n}":{n}' for n in range(3000))
    texts = ["{}", f"{{{wide}}}", f'{{{wide},"m7":0}}', f'{{"list":[{",".join(map(str, range(5000)))}]}}', f"{{{wide},}}"]
    found = decoded(texts, "m7 BIGINT, m2999 BIGINT, list BIGINT[]")
    assert found.rejects == {2: ("duplicate_key", "m7"), 4: ("not_json", None)}
    assert found.rows[1] == {"m7": "7", "m2999": "2999", "list": None}
    assert found.rows[3]["list"] == str(list(range(5000)))


def test_lanes_decode_at_once() -> None:
    texts = [f'{{"a":{n},"b":[{n}.0]}}' for n in range(2000)]
    with ThreadPoolExecutor(4) as lanes:
        found = list(lanes.map(lambda lane: decoded(texts[lane:], "a BIGINT, b BIGINT[]"), range(8)))
    assert [[row["a"] for row in lane.rows.values()] for lane in found] == [[str(n) for n in range(lane, 2000)] for lane in range(8)]


def test_one_bad_record_among_many_is_the_only_one_that_is_missing() -> None:
    values = [f'{{"a":{n}}}'.encode() for n in range(60_000)]
    values[31_416] = b'{"a":31416,"a":31416}'
    with cursor() as own:
        decode(own, records(values), columns_of("a BIGINT"), ["_row"], "good", "bad")
        assert own.execute("FROM bad").fetchall() == [(31_416, "duplicate_key", "a")]
        assert own.execute("SELECT count(*), count(*) FILTER (a = _row), sum(a)::BIGINT FROM good").fetchall() == [(59_999, 59_999, sum(range(60_000)) - 31_416)]




@pytest.mark.parametrize("condition", [
    "a > 2", "a IN (1, 3)", "a IS NULL", "b = 'b1'", "b >= 'b2'", "b LIKE 'b%'", "b IS NOT NULL AND a < 3", "c > 1.5", "c = 'NaN'", "d", "NOT d", "e < 2.25",
    "e = 2.25", "f > TIMESTAMPTZ '2026-03-01 01:30:00+00'", "g = DATE '2026-03-02'", "h >= 2", "h = 4294967295", "i > UUID '00000000-0000-0000-0000-000000000001'",
    "j.x = 2", "k[1] = 1", "l = '12:00:00'", "m <> '2'", "a = 1 OR b = 'b2'", "n > 170141183460469231731687303715884105726",
])  # fmt: skip
def test_a_condition_means_the_same_where_the_records_were_decoded_and_in_a_table(condition: str) -> None:
    """DuckDB hands conditions down to Arrow, which compares for itself."""
    columns = columns_of("a BIGINT, b VARCHAR, c DOUBLE, d BOOLEAN, e DECIMAL(12,2), f TIMESTAMPTZ, g DATE, h UINTEGER, i UUID, j STRUCT(x BIGINT), k BIGINT[],"
                         " l TIME, m JSON, n HUGEINT")
    shape = ('{"a":%d,"b":"b%d","c":%d.5,"d":%s,"e":%d.25,"f":"2026-03-01T0%d:00:00Z","g":"2026-03-0%d","h":%d,"i":"00000000-0000-0000-0000-00000000000%d","j":{"x":%d},'
             '"k":[%d],"l":"1%d:00:00","m":%d,"n":%d}')
    rows = [(shape % (n, n, n, "true" if n % 2 else "false", n, n, n, n, n, n, n, n, n, n)).encode() for n in range(1, 5)]
    rows += [b"{}", b'{"a":-1,"b":"","c":-0.0,"d":null,"h":4294967295,"n":170141183460469231731687303715884105727}', b'{"a":1.5}']
    with cursor() as own:
        decode(own, records(rows), columns, ["_row"], "good", "bad")
        own.execute("CREATE TEMP TABLE copied AS FROM good")
        found, wanted = (own.execute(f"SELECT _row FROM {name} WHERE {condition} ORDER BY ALL").fetchall() for name in ("good", "copied"))
        forget(own, "good")
    assert found == wanted
