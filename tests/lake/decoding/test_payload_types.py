"""What enters a column of each type, and what does not."""

import re

import pytest

from reactor.lake.decoding.types import decodable
from tests.lake.decoding.reading import decoded, one

WRONG, BEYOND, TWICE, BROKEN = ("wrong_type",), ("out_of_range",), ("duplicate_key",), ("not_json",)

INTEGERS = [
    ("BIGINT", "9007199254740993", "9007199254740993"), ("BIGINT", "-9223372036854775808", "-9223372036854775808"),
    ("BIGINT", "-9223372036854775809", BEYOND), ("BIGINT", "-0", "0"), ("BIGINT", "-0.0", "0"), ("BIGINT", "0.1e1", "1"), ("BIGINT", "1E5", "100000"),
    ("BIGINT", "100e-2", "1"), ("BIGINT", "1e-400", WRONG), ("BIGINT", "0e-400", "0"), ("BIGINT", "0e999999999999999999999", "0"),
    ("BIGINT", "1e400", BEYOND), ("BIGINT", "1e" + "9" * 5000, BEYOND), ("BIGINT", "1e-" + "9" * 5000, WRONG), ("BIGINT", "1.0000000000000000000000000001", WRONG),
    ("BIGINT", "9223372036854775807." + "0" * 200, "9223372036854775807"), ("BIGINT", "9" * 5000, BEYOND), ("BIGINT", '"1.0"', "1"), ("BIGINT", '"1e3"', "1000"),
    ("BIGINT", '"\\u0031\\u0032"', "12"), ("BIGINT", '"00012"', WRONG), ("BIGINT", '"+5"', WRONG), ("BIGINT", '" 12"', WRONG), ("BIGINT", '"12 "', WRONG),
    ("BIGINT", '"12\\n"', WRONG), ("BIGINT", '"1_000"', WRONG), ("BIGINT", '"1,000"', WRONG), ("BIGINT", '"0x10"', WRONG), ("BIGINT", '".5"', WRONG), ("BIGINT", '"5."', WRONG),
    ("BIGINT", '"\u0661"', WRONG), ("BIGINT", '"NaN"', WRONG), ("BIGINT", '"null"', WRONG), ("BIGINT", '"true"', WRONG), ("BIGINT", "false", WRONG), ("BIGINT", "[1]", WRONG),
    ("BIGINT", "{}", WRONG), ("BIGINT", "null", None), ("BIGINT", '"-"', WRONG), ("BIGINT", '"-9223372036854775808"', "-9223372036854775808"),
    ("TINYINT", "127", "127"), ("TINYINT", "128", BEYOND), ("TINYINT", "-128", "-128"), ("SMALLINT", "-32769", BEYOND), ("INTEGER", "2147483648", BEYOND),
    ("INTEGER", "2147483647.0", "2147483647"), ("UTINYINT", "255", "255"), ("UTINYINT", "-1", BEYOND), ("UTINYINT", "-0", "0"), ("USMALLINT", "65536", BEYOND),
    ("UINTEGER", "4294967295", "4294967295"), ("UBIGINT", "18446744073709551615", "18446744073709551615"), ("UBIGINT", "18446744073709551616", BEYOND),
    ("HUGEINT", "-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728"), ("HUGEINT", "170141183460469231731687303715884105728", BEYOND),
    ("UHUGEINT", "340282366920938463463374607431768211455", "340282366920938463463374607431768211455"), ("UHUGEINT", "3.40282366920938463463374607431768211456e38", BEYOND),
]  # fmt: skip
DECIMALS = [
    ("DECIMAL(12,2)", "1.005", "1.01"), ("DECIMAL(12,2)", "-1.005", "-1.01"), ("DECIMAL(12,2)", "1.00499999999999999999999", "1.00"), ("DECIMAL(12,2)", "0.005", "0.01"),
    ("DECIMAL(12,2)", "-0.004", "0.00"), ("DECIMAL(12,2)", "9999999999.99", "9999999999.99"), ("DECIMAL(12,2)", "9999999999.994", "9999999999.99"),
    ("DECIMAL(12,2)", "9999999999.995", BEYOND), ("DECIMAL(12,2)", "10000000000", BEYOND), ("DECIMAL(12,2)", "1e9", "1000000000.00"), ("DECIMAL(12,2)", "1e10", BEYOND),
    ("DECIMAL(12,2)", "5e-3", "0.01"), ("DECIMAL(12,2)", "4.9e-3", "0.00"), ("DECIMAL(12,2)", "1e-400", "0.00"), ("DECIMAL(12,2)", "1e400", BEYOND),
    ("DECIMAL(12,2)", '"1E+2"', "100.00"), ("DECIMAL(12,2)", '"10,50"', WRONG), ("DECIMAL(12,2)", '"1 000.5"', WRONG), ("DECIMAL(12,2)", '""', WRONG),
    ("DECIMAL(12,2)", "true", WRONG), ("DECIMAL(12,2)", "0." + "4" * 5000, "0.44"), ("DECIMAL(12,2)", "0.00" + "4" * 5000 + "5", "0.00"),
    ("DECIMAL(38,0)", "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"), ("DECIMAL(38,0)", "1e38", BEYOND),
    ("DECIMAL(38,38)", "0.12345678901234567890123456789012345678", ".12345678901234567890123456789012345678"), ("DECIMAL(38,38)", "1", BEYOND),
    ("DECIMAL(38,38)", "0.999999999999999999999999999999999999995", BEYOND), ("DECIMAL(4,4)", "-0.99994", "-.9999"), ("DECIMAL(4,4)", "-0.99995", BEYOND),
    ("DECIMAL(18,3)", "0.0005", "0.001"), ("DECIMAL(9,0)", "0.5", "1"), ("DECIMAL(9,0)", "-2.5", "-3"), ("DECIMAL(3,1)", "99.95", BEYOND),
]  # fmt: skip
REALS = [
    ("DOUBLE", "9007199254740993", "9007199254740992.0"), ("DOUBLE", "0.1", "0.1"), ("DOUBLE", "-0.0", "-0.0"), ("DOUBLE", "1e400", BEYOND), ("DOUBLE", "-1e400", BEYOND),
    ("DOUBLE", "1e-400", "0.0"), ("DOUBLE", "1.7976931348623157e308", "1.7976931348623157e+308"), ("DOUBLE", "5e-324", "5e-324"), ("DOUBLE", '"2.5"', "2.5"),
    ("DOUBLE", '"NaN"', WRONG), ("DOUBLE", '"Infinity"', WRONG), ("DOUBLE", '"inf"', WRONG), ("DOUBLE", "NaN", BROKEN), ("DOUBLE", "-Infinity", BROKEN), ("DOUBLE", "nan", BROKEN),
    ("DOUBLE", "1.00000000000000011102230246251565404236316680908203125", "1.0"), ("DOUBLE", "1.00000000000000011102230246251565404236316680908203126", "1.0000000000000002"),
    ("DOUBLE", "1e" + "9" * 5000, BEYOND), ("DOUBLE", "true", WRONG), ("FLOAT", "16777217", "16777216.0"), ("FLOAT", "1e39", BEYOND), ("FLOAT", "3.4028235e38", "3.4028235e+38"),
    ("FLOAT", "1.00000017881393432617187499", "1.0000001"),
]  # fmt: skip
TEXTS = [
    ("VARCHAR", '"x"', "x"), ("VARCHAR", '""', ""), ("VARCHAR", '"a\\"\\\\\\/\\b\\f\\n\\r\\tz"', 'a"\\/\b\f\n\r\tz'), ("VARCHAR", '"\\u00e9\\u20AC\\uD83d\\uDE80"', "\u00e9\u20ac\U0001f680"),
    ("VARCHAR", '"\\u0000"', "\0"), ("VARCHAR", '"\u2028\x7f"', "\u2028\x7f"), ("VARCHAR", "1.50", "1.50"), ("VARCHAR", "1E400", "1E400"), ("VARCHAR", "-0", "-0"),
    ("VARCHAR", "true", "true"), ("VARCHAR", '{"b": 1.50, "c":[true,null]}', '{"b": 1.50, "c":[true,null]}'), ("VARCHAR", "[ ]", "[ ]"), ("VARCHAR", "null", None),
    ("VARCHAR", '"\ufeff"', "\ufeff"), ("VARCHAR", '"\uffff\U0010ffff"', "\uffff\U0010ffff"),
    ("JSON", "1.50", "1.50"), ("JSON", "1e400", "1e400"), ("JSON", "123456789012345678901234567890.5", "123456789012345678901234567890.5"), ("JSON", '"\\u0061"', '"\\u0061"'),
    ("JSON", '{"k":1,"k":2}', '{"k":1,"k":2}'), ("JSON", '{ "k" : [1 , 2.0] }', '{ "k" : [1 , 2.0] }'), ("JSON", "false", "false"), ("JSON", "null", None), ("JSON", "[null]", "[null]"),
    ("BOOLEAN", "true", "true"), ("BOOLEAN", "false", "false"), ("BOOLEAN", "0", WRONG), ("BOOLEAN", '"true"', WRONG), ("BOOLEAN", "null", None), ("BOOLEAN", "True", BROKEN),
    ("UUID", '"00000000-0000-0000-0000-000000000001"', "00000000-0000-0000-0000-000000000001"), ("UUID", '"ABCDEF00-0000-0000-8000-00000000000f"', "abcdef00-0000-0000-8000-00000000000f"),
    ("UUID", '"ABCDEF000000000080000000000000ff"', WRONG), ("UUID", '"{00000000-0000-0000-0000-000000000001}"', WRONG), ("UUID", '"00000000-0000-0000-0000-000000000001\\n"', WRONG),
    ("UUID", '""', WRONG), ("UUID", "1", WRONG),
]  # fmt: skip
TIMES = [
    ("TIMESTAMPTZ", '"2026-03-01T10:00:00Z"', "2026-03-01 10:00:00+00"), ("TIMESTAMPTZ", '"2026-03-01T12:30:00.1234567+0230"', "2026-03-01 10:00:00.123456+00"),
    ("TIMESTAMPTZ", "1772359200", "2026-03-01 10:00:00+00"), ("TIMESTAMPTZ", '"1772359200250"', "2026-03-01 10:00:00.25+00"), ("TIMESTAMPTZ", "1772359200.0000019", "2026-03-01 10:00:00.000001+00"),
    ("TIMESTAMPTZ", "1772359200000001999", "2026-03-01 10:00:00.000001+00"), ("TIMESTAMPTZ", "1.7723592e9", "2026-03-01 10:00:00+00"), ("TIMESTAMPTZ", "-1", "1969-12-31 23:59:59+00"),
    ("TIMESTAMPTZ", "-0.0000001", "1969-12-31 23:59:59.999999+00"), ("TIMESTAMPTZ", "99999999999", "5138-11-16 09:46:39+00"),
    ("TIMESTAMPTZ", "100000000000", "1973-03-03 09:46:40+00"), ("TIMESTAMPTZ", "-62135596800", "0001-01-01 00:00:00+00"), ("TIMESTAMPTZ", "-62135596801", BEYOND), ("TIMESTAMPTZ", "1e400", BEYOND),
    ("TIMESTAMPTZ", "1e" + "9" * 5000, BEYOND), ("TIMESTAMPTZ", "1e-" + "9" * 5000, "1970-01-01 00:00:00+00"), ("TIMESTAMPTZ", '"0001-01-01T00:00:00Z"', "0001-01-01 00:00:00+00"),
    ("TIMESTAMPTZ", '"9999-12-31T23:59:59.999999999Z"', "9999-12-31 23:59:59.999999+00"), ("TIMESTAMPTZ", '"9999-12-31T23:59:59-00:01"', BEYOND), ("TIMESTAMPTZ", '"0000-12-31T00:00:00Z"', BEYOND),
    ("TIMESTAMPTZ", '"10000-01-01T00:00:00Z"', BEYOND), ("TIMESTAMPTZ", '"+010000-01-01T00:00:00Z"', BEYOND), ("TIMESTAMPTZ", '"-0001-01-01"', BEYOND), ("TIMESTAMPTZ", '"02026-01-01"', WRONG),
    ("TIMESTAMPTZ", '"infinity"', WRONG), ("TIMESTAMPTZ", '"epoch"', WRONG), ("TIMESTAMPTZ", '"2026-3-1"', WRONG), ("TIMESTAMPTZ", '"2026-03-01T24:00:00Z"', WRONG),
    ("TIMESTAMPTZ", '"2016-12-31T23:59:60Z"', WRONG), ("TIMESTAMPTZ", '" 2026-03-01"', WRONG), ("TIMESTAMPTZ", '"2026-03-01 "', WRONG), ("TIMESTAMPTZ", '"2026-03-01Z"', WRONG),
    ("TIMESTAMPTZ", '"2026-03-01T10"', WRONG), ("TIMESTAMPTZ", '"2026-03-01T10:00:00."', WRONG), ("TIMESTAMPTZ", '"2026-03-01T10:00:00 UTC"', WRONG), ("TIMESTAMPTZ", '"2026-03-01T10:00:00+2"', WRONG),
    ("TIMESTAMPTZ", '"2026-03-01T10:00:00+02:0"', WRONG), ("TIMESTAMPTZ", '"2026-03-01T10:00:00Z "', WRONG), ("TIMESTAMPTZ", '"2026-03-01  10:00"', WRONG), ("TIMESTAMPTZ", '"20260301"', "1970-08-23 11:51:41+00"),
    ("TIMESTAMPTZ", '"2026-03-01T10:00:00,5Z"', "2026-03-01 10:00:00.5+00"), ("TIMESTAMPTZ", '"2026-03-01 10:00:00 +01:00"', "2026-03-01 09:00:00+00"), ("TIMESTAMPTZ", '"2026-03-01T10:00-14"', "2026-03-02 00:00:00+00"),
    ("TIMESTAMPTZ", '"2024-02-29"', "2024-02-29 00:00:00+00"), ("TIMESTAMPTZ", '"1900-02-29"', WRONG), ("TIMESTAMPTZ", '"2000-02-29"', "2000-02-29 00:00:00+00"), ("TIMESTAMPTZ", "true", WRONG), ("TIMESTAMPTZ", "[]", WRONG),
    ("TIMESTAMPTZ", '"2026\\u002d03-01"', "2026-03-01 00:00:00+00"), ("TIMESTAMPTZ", '""', WRONG), ("TIMESTAMPTZ", "null", None),
    ("TIMESTAMP", '"2026-03-01T10:00:00+02:00"', "2026-03-01 08:00:00"), ("TIMESTAMP", "1772359200250", "2026-03-01 10:00:00.25"),
    ("TIMESTAMP_S", '"2026-03-01T10:00:00.000Z"', "2026-03-01 10:00:00"), ("TIMESTAMP_S", '"2026-03-01T10:00:00.5Z"', WRONG), ("TIMESTAMP_S", '"1969-12-31T23:59:59Z"', "1969-12-31 23:59:59"),
    ("TIMESTAMP_MS", "1772359200250", "2026-03-01 10:00:00.25"), ("TIMESTAMP_MS", "1772359200250001", WRONG), ("TIMESTAMP_MS", '"0001-01-01"', "0001-01-01 00:00:00"),
    ("TIMESTAMP_NS", '"2026-03-01T10:00:00.123456789Z"', "2026-03-01 10:00:00.123456789"), ("TIMESTAMP_NS", "1772359200000000001", "2026-03-01 10:00:00.000000001"),
    ("TIMESTAMP_NS", '"2262-04-11T23:47:16.854775807Z"', BEYOND), ("TIMESTAMP_NS", '"2262-04-11T23:47:16.854775806Z"', "2262-04-11 23:47:16.854775806"),
    ("TIMESTAMP_NS", '"1677-09-22"', "1677-09-22 00:00:00"), ("TIMESTAMP_NS", '"1677-09-21T23:59:59.999999999Z"', BEYOND),
    ("TIMESTAMP_NS", "9223372036854775806", "2262-04-11 23:47:16.854775806"), ("TIMESTAMP_NS", "-9223286400000000001", BEYOND),
    ("TIMESTAMP_NS", '"2262-04-11T23:47:16Z"', "2262-04-11 23:47:16"), ("TIMESTAMP_NS", '"1600-01-01"', BEYOND),
    ("DATE", '"2026-03-01"', "2026-03-01"), ("DATE", '"2026-03-01T00:00:00Z"', "2026-03-01"), ("DATE", '"2026-03-01T00:00:00+01:00"', WRONG), ("DATE", '"2026-03-01T10:00:00"', WRONG),
    ("DATE", '"2026-03-01T00:00:00.000000001"', WRONG), ("DATE", "1772323200000", "2026-03-01"), ("DATE", "20513", WRONG), ("DATE", '"20260301"', WRONG), ("DATE", '"2026-02-30"', WRONG),
    ("DATE", '"0001-01-01"', "0001-01-01"), ("DATE", '"9999-12-31"', "9999-12-31"), ("DATE", '"10000-01-01"', BEYOND), ("DATE", "0", "1970-01-01"), ("DATE", '"01.03.2026"', WRONG),
    ("TIME", '"10:00:00"', "10:00:00"), ("TIME", '"10:00"', "10:00:00"), ("TIME", '"23:59:59.9999999"', "23:59:59.999999"), ("TIME", '"24:00:00"', WRONG), ("TIME", '"10:00:00Z"', WRONG),
    ("TIME", '"10:00:00+01:00"', WRONG), ("TIME", "36000", WRONG), ("TIME", '"T10:00:00"', WRONG), ("TIME", '"2026-03-01T10:00:00"', WRONG), ("TIME", '""', WRONG), ("TIME", "null", None),
]  # fmt: skip
NESTED = [
    ("STRUCT(x BIGINT, y VARCHAR)", '{"y":"b","x":1,"z":[]}', "{'x': 1, 'y': b}"), ("STRUCT(x BIGINT)", "{}", "{'x': NULL}"), ("STRUCT(x BIGINT)", "[]", WRONG),
    ("STRUCT(x BIGINT)", '{"X":1}', "{'x': NULL}"), ("STRUCT(x BIGINT)", '{"x":1.5}', WRONG), ("STRUCT(x BIGINT)", '{"x":9223372036854775808}', BEYOND),
    ("STRUCT(x BIGINT)", '{"x":1,"x":1}', TWICE), ("STRUCT(x BIGINT)", '{"x":1,"\\u0078":1}', TWICE), ("STRUCT(x BIGINT)", '{"x":1,"y":1,"y":2}', "{'x': 1}"), ("STRUCT(x BIGINT)", '"{}"', WRONG),
    ('STRUCT("b c" STRUCT(d DECIMAL(4,2)))', '{"b c":{"d":1.005}}', "{'b c': {'d': 1.01}}"), ("STRUCT(x BIGINT, y UTINYINT)", '{"x":true,"y":256}', WRONG),
    ("BIGINT[]", "[1, 2.0,\n\"3\",null]", "[1, 2, 3, NULL]"), ("BIGINT[]", "[]", "[]"), ("BIGINT[]", "[ ]", "[]"), ("BIGINT[]", "[1,true]", WRONG), ("BIGINT[]", "[9223372036854775808]", BEYOND), ("BIGINT[]", "1", WRONG),
    ("BIGINT[]", "{}", WRONG), ("BIGINT[]", "null", None), ("BIGINT[][]", "[[1],[],null,[2,3]]", "[[1], [], NULL, [2, 3]]"), ("BIGINT[]", "[1,]", BROKEN), ("BIGINT[]", "[,1]", BROKEN),
    ("DECIMAL(12,2)[]", "[1.005, 1e1]", "[1.01, 10.00]"), ("DOUBLE[]", "[1e400]", BEYOND), ("VARCHAR[]", '["a,b", "[", 1.50, {"x":1}]', """['a,b', '[', 1.50, '{"x":1}']"""),
    ("TIMESTAMPTZ[]", '["2026-03-01T10:00:00+02:00", 0]', "['2026-03-01 08:00:00+00', '1970-01-01 00:00:00+00']"), ("DATE[]", '["10000-01-01"]', BEYOND), ("BOOLEAN[]", "[true,1]", WRONG),
    ("STRUCT(x BIGINT)[]", '[{"x":1},{"x":1,"x":2}]', TWICE), ("STRUCT(x BIGINT)[]", '[{"x":1},null]', "[{'x': 1}, NULL]"), ("HUGEINT[]", "[170141183460469231731687303715884105727]", "[170141183460469231731687303715884105727]"),
    ("UUID[]", '["00000000-0000-0000-0000-000000000001"]', "[00000000-0000-0000-0000-000000000001]"), ("JSON[]", '[1.50,{"k" : 1}]', '[1.50, {"k" : 1}]'), ("TIME[]", '["10:00"]', "['10:00:00']"),
    ("MAP(VARCHAR, BIGINT)", '{"b":1,"a":null,"":3}', "{b=1, a=NULL, ''=3}"), ("MAP(VARCHAR, BIGINT)", "{}", "{}"), ("MAP(VARCHAR, BIGINT)", '{"b":1,"\\u0062":2}', TWICE), ("MAP(VARCHAR, BIGINT)", '{"b":"x"}', WRONG),
    ("MAP(VARCHAR, BIGINT)", "[]", WRONG), ("MAP(VARCHAR, DECIMAL(3,1)[])", '{"a":[99.94,1]}', "{a=[99.9, 1.0]}"), ("MAP(VARCHAR, DECIMAL(3,1)[])", '{"a":[99.95]}', BEYOND), ("MAP(VARCHAR, BIGINT)", '{"a":1.5,"a":1}', TWICE),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "expected"), [*INTEGERS, *DECIMALS, *REALS, *TEXTS, *TIMES, *NESTED])
def test_a_value_enters_as_it_is_or_not_at_all(type_: str, value: str, expected: object) -> None:
    assert one(value, type_) == expected


@pytest.mark.parametrize("type_", ["BLOB", "INTERVAL", "TIMETZ", "TIME_NS", "BIT", "BIGNUM", "VARIANT", "BIGINT[3]", "UNION(a BIGINT, b VARCHAR)", "ENUM('a')", "MAP(BIGINT, VARCHAR)",
                                   "STRUCT(a BLOB)", "BLOB[]", "MAP(VARCHAR, BLOB)", "INTT", "BIGINT; DROP TABLE x", "", "STRUCT(a BIGINT, A BIGINT)", '"NULL"'])  # fmt: skip
def test_a_type_that_cannot_be_exact_is_refused_with_a_way_out(type_: str) -> None:
    reason = decodable(type_)
    assert reason is not None
    with pytest.raises(ValueError, match=re.escape(reason)):
        one("1", type_)


@pytest.mark.parametrize("type_", ["BIGINT", "TEXT", "NUMERIC(5)", "TIMESTAMP WITH TIME ZONE", "STRUCT(\"a b\" BIGINT, c MAP(VARCHAR, TIMESTAMP[]))", "JSON", "JSON[]"])
def test_other_types_are_decodable(type_: str) -> None:
    assert decodable(type_) is None


def test_the_gravest_reason_counts_and_of_equals_the_first_declared_column() -> None:
    found = decoded(
        ['{"a":300,"b":1.5,"c":true}', '{"c":1,"c":1,"a":"x"}', '{"a":300,"b":300}', '{"b":300,"a":1}', '{"a":"x","b":"y"}', '{"a":1,"d":"10000-01-01"}', '{"a":300,"d":"10000-01-01"}'],
        "a UTINYINT, b UTINYINT, c UTINYINT, d DATE",
    )
    assert found.rejects == {
        0: ("wrong_type", "b"), 1: ("duplicate_key", "c"), 2: ("out_of_range", "a"), 3: ("out_of_range", "b"), 4: ("wrong_type", "a"), 5: ("out_of_range", "d"), 6: ("out_of_range", "a"),
    }  # fmt: skip
    assert decoded(['{"a":300,"d":"10000-01-01"}'], "a UTINYINT, b UTINYINT, d DATE").rejects == {0: ("out_of_range", "a")}
    assert decoded(['{"a":300,"d":"10000-01-01"}'], "d DATE, a UTINYINT").rejects == {0: ("out_of_range", "d")}
