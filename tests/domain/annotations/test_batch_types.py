"""The types of `batch` against DuckDB itself: the same texts are types, and each has the spelling that DuckDB gives it."""

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.annotations.types import read_type
from reactor.domain.diagnostics import Malformed

SHORT = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ", "TIME WITH TIME ZONE": "TIMETZ"}

TYPES = """INT;VARCHAR(20);CHAR(3);TEXT;STRING;CHARACTER VARYING(3);NATIONAL CHARACTER(3);NVARCHAR;BPCHAR;DEC(5,2);DECIMAL;DECIMAL(5);DECIMAL()
NUMERIC(38,38);DECIMAL(39,2);DECIMAL(5,6);DECIMAL(0,0);DECIMAL(5,2,1);TIMESTAMP WITH TIME ZONE;TIMESTAMP WITHOUT TIME ZONE;TIMESTAMP(0)
TIMESTAMP(3);TIMESTAMP(6);TIMESTAMP(9);TIMESTAMP(10);TIMESTAMP(3) WITH TIME ZONE;TIME WITH TIME ZONE;TIME WITHOUT TIME ZONE;TIME(3);TIMESTAMPTZ(3)
DOUBLE PRECISION;FLOAT(0);FLOAT(24);FLOAT(25);FLOAT(54);REAL;REAL(3);FLOAT4(3);INTERVAL;INT[];INT[3];INT[][];INT[3][2];INT ARRAY;INT ARRAY[3];INT ARRAY[]
INT[] ARRAY;INT[0];INT[-1];INT[100000];INT[100001];INT [ 3 ];decimal ( 5 , 2 );STRUCT(a INT, b VARCHAR);STRUCT(a INT, A INT);STRUCT("a b" INT, "x""y" INT)
STRUCT(order INT);STRUCT(date DATE);STRUCT(1 INT);STRUCT(a INT,);STRUCT(a);STRUCT();STRUCT;STRUCT(a INT NOT NULL);ROW(a INT);ROW(INT);MAP(VARCHAR, INT)
MAP(INT);MAP(INT,INT,INT);MAP;MAP(VARCHAR, STRUCT(a INT))[];UNION(a INT, b VARCHAR);UNION(a INT, a INT);UNION();ENUM('a','b');ENUM();ENUM('a','a');LIST(INT)
LIST;ARRAY;JSON;JSON(1);UUID;GUID;UUID(1);BLOB;BYTEA;BINARY;VARBINARY;BINARY(3);BIT;BIT(3);BITSTRING;VARBIT;HUGEINT;UHUGEINT;UINTEGER;INT1;INT2;INT4;INT8
INT16;INT32;INT64;INT128;UINT8;UINT16;UINT32;UINT64;UINT128;SHORT;LONG;SIGNED;INTEGRAL;OID;NUMERIC;BOOL;LOGICAL;BOOLEAN(1);DATETIME;DATE(3);TIMESTAMP_S
TIMESTAMP_MS;TIMESTAMP_NS;TIMESTAMP_US;TIME_NS;TIMETZ;VARINT;BIGNUM;VARIANT;GEOMETRY;"INTEGER";"integer";INTEGER(3);INTEGER UNSIGNED;VARCHAR COLLATE NOCASE
SMALLINT(5);NUMBER;MEDIUMINT;USMALLINT;UTINYINT;UBIGINT;hugeint[];unknown;TABLE;VARCHAR[1][];STRUCT(a STRUCT(b DECIMAL(3,1)[]))""".replace("\n", ";").split(";")


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def by_duckdb(engine: duckdb.DuckDBPyConnection, text: str) -> str | None:
    try:
        row = engine.execute(f"SELECT typeof(CAST(NULL AS {text}))").fetchone()
    except duckdb.Error:
        return None
    spelt = str(row and row[0])
    for long, short in SHORT.items():
        spelt = spelt.replace(long, short)
    return spelt


def by_reactor(text: str) -> str | None:
    try:
        return read_type(text)
    except Malformed:
        return None


@pytest.mark.parametrize("text", TYPES)
def test_the_same_texts_are_types(engine: duckdb.DuckDBPyConnection, text: str) -> None:
    assert by_reactor(text) == by_duckdb(engine, text)


def test_every_type_that_duckdb_lists_is_known(engine: duckdb.DuckDBPyConnection) -> None:
    nested = {"list", "map", "struct", "row", "union", "enum", "array", "null"}
    names = {str(name).lower() for (name,) in engine.execute("SELECT DISTINCT type_name FROM duckdb_types()").fetchall()} - nested
    assert {name for name in names if by_reactor(name) is None} == set()


def test_the_same_words_need_quotes(engine: duckdb.DuckDBPyConnection) -> None:
    words = [str(word) for (word,) in engine.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()]
    bare = [f"STRUCT({word} INTEGER)" for word in words]
    assert [text for text in bare if (by_reactor(text) is None) != (by_duckdb(engine, text) is None)] == []


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(lambda type_: f"{type_}[]"),
        fields.map(lambda types: f"STRUCT({', '.join(f'f{at} {type_}' for at, type_ in enumerate(types))})"),
        st.tuples(inner, inner).map(lambda pair: f"MAP({pair[0]}, {pair[1]})"),
    )


SIMPLE = st.sampled_from(["int", "VARCHAR(3)", "numeric(12,2)", "timestamptz", "TIME WITH TIME ZONE", "double precision", "uuid", "json"])


@settings(max_examples=50, deadline=None)
@given(st.recursive(SIMPLE, nested, max_leaves=6))
def test_nested_types_have_one_spelling(engine: duckdb.DuckDBPyConnection, text: str) -> None:
    spelt = read_type(text)
    assert spelt == by_duckdb(engine, text)
    assert read_type(spelt) == spelt


@given(st.text(st.sampled_from("INTSTRUCTMAP abc(),[]0123'\" \té"), max_size=30))
def test_any_text_is_a_type_or_pointed_at(text: str) -> None:
    start, end = 0, 1
    try:
        read_type(text)
    except Malformed as wrong:
        start, end = wrong.offset, wrong.offset + (wrong.length or 1)
    assert 0 <= start < end <= max(len(text), 1)
