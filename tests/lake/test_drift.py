"""Rows that meet a table of other types (MT-13, `warn`): the same value, or none."""

import pytest

from reactor.errors import RunFailed
from reactor.lake.statements.checking import Cast
from tests.lake.driving import Bench, feed, managed, raw_span

INSTANT = "TIMESTAMP WITH TIME ZONE"


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    for table in ("t", "_reactor_quarantine"):
        module_bench.rows(f"DROP TABLE IF EXISTS lake_main.main.{table}")
    return module_bench


def appended(bench: Bench, kind: str, value: str) -> list[tuple[object, ...]]:
    """What is stored of a value as text, in a table that has a column of this type."""
    bench.run(managed(f"SELECT CAST(NULL AS {kind}) AS v", "append"))
    ran = bench.run(managed(f"SELECT {value} AS v", "append"))
    assert ran.drift.type_changed == ("v",)
    return bench.rows("SELECT CAST(v AS VARCHAR) FROM t LIMIT 1 OFFSET 1")


@pytest.mark.parametrize(("value", "kind", "stored"), [
    ("'20'", "INTEGER", "20"), ("'2e1'", "INTEGER", "20"), ("'20.0'", "INTEGER", "20"), ("'-200e-1'", "INTEGER", "-20"), ("'007'", "INTEGER", "7"),
    ("NULL::VARCHAR", "INTEGER", None), ("20.0::DOUBLE", "INTEGER", "20"), ("9.0::DECIMAL(2,1)", "TINYINT", "9"), ("7::TINYINT", "INTEGER", "7"),
    ("'1.005'", "DECIMAL(6,2)", "1.01"), ("1.005::DOUBLE", "DECIMAL(6,2)", "1.01"), ("1.0050", "DECIMAL(6,2)", "1.01"), ("'-1005e-3'", "DECIMAL(6,2)", "-1.01"),
    ("1e-300::DOUBLE", "DECIMAL(6,2)", "0.00"), ("7", "DECIMAL(6,2)", "7.00"), ("12.34::DECIMAL(12,2)", "DECIMAL(6,2)", "12.34"),
    ("0.1::DECIMAL(38,30)", "DOUBLE", "0.1"), ("'0.1'", "FLOAT", "0.1"), ("16777217", "FLOAT", "16777216.0"), ("'nan'::DOUBLE", "FLOAT", "nan"),
    ("7", "VARCHAR", "7"), ("TIMESTAMPTZ '2026-03-01 10:00:00+02'", "VARCHAR", "2026-03-01 08:00:00+00"), ("true", "VARCHAR", "true"), ("'true'", "BOOLEAN", "true"),
    ("'2026-03-01T10:00:00+02:00'", "TIMESTAMP", "2026-03-01 08:00:00"), ("'2026-03-01t10:00z'", "TIMESTAMP", "2026-03-01 10:00:00"),
    ("'2026-03-01 23:30:00,5 -0130'", "TIMESTAMP", "2026-03-02 01:00:00.5"),
    ("'2026-03-01 10:00:00.1234567'", "TIMESTAMP", "2026-03-01 10:00:00.123456"), ("'2026-03-01'", INSTANT, "2026-03-01 00:00:00+00"),
    ("'2026-03-01T10:00:00.123456789+01'", "TIMESTAMP_NS", "2026-03-01 09:00:00.123456789"), ("'2026-03-01T00:00:00Z'", "DATE", "2026-03-01"),
    ("TIMESTAMPTZ '2026-03-01 10:00:00+02'", "TIMESTAMP", "2026-03-01 08:00:00"), ("TIMESTAMP '2026-03-01 10:00:00'", INSTANT, "2026-03-01 10:00:00+00"),
    ("DATE '2026-03-01'", "TIMESTAMP", "2026-03-01 00:00:00"), ("TIMESTAMP '2026-03-01'", "DATE", "2026-03-01"), ("'10:00'", "TIME", "10:00:00"),
    ("TIMESTAMP_NS '2026-03-01 10:00:00.123456789'", "TIMESTAMP", "2026-03-01 10:00:00.123456"),
    ("TIMESTAMP_NS '1969-12-31 23:59:59.999999999'", "TIMESTAMP", "1969-12-31 23:59:59.999999"), ("TIMESTAMP_NS '1969-12-31'", INSTANT, "1969-12-31 00:00:00+00"),
    ("'6BA7B810-9DAD-11D1-80B4-00C04FD430C8'", "UUID", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"), ("'[1,2]'", "INTEGER[]", "[1, 2]"),
    ("[[1.0::DOUBLE], NULL, [NULL]]", "INTEGER[][]", "[[1], NULL, [NULL]]"), ("['2026-03-01T10:00:00+02']", "TIMESTAMP[]", "['2026-03-01 08:00:00']"),
    ("{'b': '1', 'a x': [1.0]}", 'STRUCT("A x" INTEGER[], b INTEGER, c VARCHAR)', "{'A x': [1], 'b': 1, 'c': NULL}"),
    ("{'a': 1, 'b': NULL::INTEGER}", "STRUCT(a BIGINT)", "{'a': 1}"), ("MAP {'1': [1.0]}", "MAP(INTEGER, INTEGER[])", "{1=[1]}"),
    ("'15'::JSON", "INTEGER", "15"), ("'\"2e1\"'::JSON", "INTEGER", "20"), ("'12345678901234567.89'::JSON", "DECIMAL(38,2)", "12345678901234567.89"),
    ("'{\"a\": [1, 2]}'::JSON", "STRUCT(a INTEGER[])", "{'a': [1, 2]}"), ("[1, 2]", "JSON", "[1,2]"),
])  # fmt: skip
def test_the_same_value_in_another_type(bench: Bench, value: str, kind: str, stored: str | None) -> None:
    assert appended(bench, kind, value) == [(stored,)]


@pytest.mark.parametrize(("value", "kind"), [
    *((value, "INTEGER") for value in (
        "'20.5'", "'1.5e0'", "'15e-1'", "'0x10'", "'1_000'", "' 12 '", "'+5'", "'true'", "''", "'1e3x'", "'3000000000'", "'1e999999999999'", "'n/a'", "true",
        "20.5::DOUBLE", "9.9::DECIMAL(2,1)", "'nan'::DOUBLE", "3000000000", "DATE '2026-03-01'", "'1.5'::JSON", "'true'::JSON", "'null'::JSON", "[1]",
        f"'0.{'0' * 60}1'",
    )),
    *((value, "BOOLEAN") for value in ("5", "1", "1.0", "'1'", "'t'", "'TRUE'", "'yes'")),
    *((value, "TIMESTAMP") for value in (
        "'infinity'", "'2026-03-01 24:00:00'", "'2026-02-30'", "'2026-03-01 10:00:00 Europe/Prague'", "'2026-03-01 23:30,5 -0130'", "'0000-03-01'", "'soon'",
        "'1772000000'", "5", "TIME '10:00:00'", "'44-03-15 (BC)'",
    )),
    *((value, "DATE") for value in ("TIMESTAMP '2026-03-01 10:00:00'", "'2026-03-01 10:00:00'", "TIMESTAMPTZ '2026-03-01 10:00:00+02'", "'2026-03-01T00:00:00+02:00'")),
    *((value, "TIME") for value in ("TIMESTAMP '2026-03-01 10:00:00'", "'2026-03-01 10:00:00'", "'10:00:00+02'")),
    ("TIMESTAMP '2026-03-01 10:00:00.5'", "TIMESTAMP_S"), ("TIMESTAMP '3026-03-01'", "TIMESTAMP_NS"), ("9.95", "DECIMAL(2,1)"), ("1e300::DOUBLE", "DECIMAL(38,2)"),
    ("1e300::DOUBLE", "FLOAT"), ("'1e400'", "DOUBLE"), ("'nan'", "DOUBLE"), ("true", "DOUBLE"), ("true", "DECIMAL(3,1)"), ("'{6ba7b8109dad11d180b400c04fd430c8}'", "UUID"),
    ("[1.5::DOUBLE]", "INTEGER[]"), ("[['1'], ['x']]", "INTEGER[][]"), ("[true]", "INTEGER[]"), ("'[1.5]'", "INTEGER[]"), ("'[1.5]'::JSON", "INTEGER[]"),
    ("{'a': 1, 'b': 2}", "STRUCT(a BIGINT)"), ("[{'a': 'x'}]", "STRUCT(a INTEGER)[]"), ("'{\"a\":1,\"b\":2}'::JSON", "STRUCT(a INTEGER)"),
    ("MAP {'a': 1}", "MAP(INTEGER, INTEGER)"), ("MAP {'a': 1.5}", "MAP(VARCHAR, INTEGER)"), ("'n/a'", "JSON"),
])  # fmt: skip
def test_another_value_is_none(bench: Bench, value: str, kind: str) -> None:
    with pytest.raises(RunFailed, match=r"1 rows hold a value that does not fit the table \(v .*\)\n.*v: .* does not fit"):
        appended(bench, kind, value)
    assert bench.rows("SELECT * FROM t") == [(None,)]


def test_its_record_is_set_aside(bench: Bench) -> None:
    feed(bench, managed("SELECT k, v FROM batch", "append", batch=[("k", "VARCHAR"), ("v", "INTEGER")]), raw_span([b'{"k":"a","v":1}']))
    texts = managed("SELECT k, v FROM batch", "append", batch=[("k", "VARCHAR"), ("v", "VARCHAR")])
    (ran,) = feed(bench, texts, raw_span([b'{"k":"b","v":"0x10"}', b'{"k":"c","v":3}', b'{"k":"d","v":"20.5"}', b'{"k":"e","v":null}'], 1))
    assert bench.texts("SELECT k, v FROM t") == [["a", "1"], ["c", "3"], ["e", None]]
    assert (ran.outcomes["committed"], ran.outcomes["quarantined"]) == (2, 2)
    assert bench.rows('SELECT reason, "column", message, "offset" FROM _reactor_quarantine ORDER BY "offset"') == [
        ("wrong_type", "v", "v: 0x10 does not fit INTEGER", 1), ("wrong_type", "v", "v: 20.5 does not fit INTEGER", 3)
    ]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), [
    ("TINYINT", "INTEGER"), ("UINTEGER", "BIGINT"), ("INTEGER", "DECIMAL(12,2)"), ("DECIMAL(6,2)", "DECIMAL(12,2)"), ("FLOAT", "DOUBLE"), ("BIGINT", "DOUBLE"),
    ("DECIMAL(38,2)", "DOUBLE"), ("INTEGER[]", "VARCHAR"), ("TIMESTAMP", INSTANT), (INSTANT, "TIMESTAMP"), ("INTEGER[]", "BIGINT[]"),
    ("STRUCT(a INTEGER)", "STRUCT(a BIGINT, b VARCHAR)"), ("MAP(VARCHAR, INTEGER)", "MAP(VARCHAR, BIGINT)"), ('"NULL"', "DATE"),
])  # fmt: skip
def test_nothing_is_asked_where_every_value_fits(source: str, target: str) -> None:
    assert not Cast("v", source, target).may_fail
    assert Cast("v", target, source).may_fail or {source, target} == {"TIMESTAMP", INSTANT}


def test_the_newest_row_is_the_newest_in_the_types_of_the_table(bench: Bench) -> None:
    batch = [("k", "VARCHAR"), ("v", "VARCHAR"), ("ts", "VARCHAR")]
    script = managed("SELECT k, v, ts FROM batch", "merge", key=["k"], latest="ts", batch=batch)
    bench.run(managed("SELECT 1 AS k, 'x' AS v, 1 AS ts", "merge", key=["k"], latest="ts"))
    newer = [b'{"k":"1","v":"y","ts":"9"}', b'{"k":"01","v":"z","ts":"11"}', b'{"k":"1","v":"w","ts":"soon"}', b'{"k":"2","v":"p","ts":"7"}', b'{"k":"2","v":"q","ts":"7.0"}']
    (ran,) = feed(bench, script, raw_span(newer))
    assert bench.rows("SELECT * FROM t ORDER BY k") == [(1, "z", 11), (2, "q", 7)]
    assert (ran.outcomes["quarantined"], [(c.inserted, c.deleted) for c in ran.counts]) == (1, [(2, 1)])
    (late,) = feed(bench, script, raw_span([b'{"k":"1","v":"older","ts":"9"}'], 5))
    assert (late.changed, bench.rows("SELECT v FROM t WHERE k = 1")) == (False, [("z",)])


def test_ties_in_the_types_of_the_table_fail(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS k, 1 AS ts", "merge", key=["k"], latest="ts"))
    with pytest.raises(RunFailed, match="1 key with more than one row in the SELECT and the same ts"):
        bench.run(managed("FROM (VALUES (1, '7'), (1, '7.0')) AS rows (k, ts)", "merge", key=["k"], latest="ts"))
