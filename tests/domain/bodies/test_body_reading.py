"""The SQL of a script: which statements it has, which of them a managed body must not have, and what it reads."""

import pytest

from reactor.domain.assets import ProjectNames
from reactor.domain.bodies import BodyReading, read_body
from reactor.domain.diagnostics import Range

NAMES = ProjectNames(lakes=("main", "sales"), clusters=("eu",), stores=("land",))
AT = Range(1, 4, 1, 15)


def managed(text: str) -> BodyReading:
    return read_body(text, 0, NAMES, managed_at=AT)


def free(text: str) -> BodyReading:
    return read_body(text, 0, NAMES, managed_at=None)


def said(reading: BodyReading) -> list[str]:
    return [f"{f.range.line}:{f.range.column} {f.severity} {f.code}" for f in reading.findings]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT 1 AS id", "select 1", "FROM batch", "VALUES (1)", "WITH a AS (SELECT 1) FROM a", "PIVOT orders ON k USING sum(v)", "TABLE orders",
        "UNPIVOT t ON a INTO NAME n VALUE v", "(SELECT 1) UNION ALL (SELECT 2)", "((SELECT 1))", "WITH a AS (SELECT 1) (SELECT * FROM a)",
        "SELECT 'a;b' AS id, $$;$$, $x$ ; $x$, E'\\';' -- ; not the end\n/* ; /* ; */ ; */ FROM t",
    ],
)
def test_one_select_in_many_forms(select: str) -> None:
    for text in (select, f"\n{select};", f"{select} ; ;\n-- the end\n/* ; SELECT */"):
        reading = managed(text)
        assert (reading.body.select, reading.body.setup, said(reading)) == (select, (), [])


def test_setup_comes_back_as_it_is_written() -> None:
    setup = [
        "INSTALL spatial", "FORCE INSTALL icu", "LOAD  spatial", "SET threads = 2", "RESET threads", "PRAGMA enable_progress_bar", "USE sales",
        "CREATE TEMP TABLE x AS SELECT 1 -- one\n AS id", "CREATE OR REPLACE TEMPORARY VIEW y AS FROM x", "CREATE MACRO f(a, b := 1) AS a + b",
        "CREATE OR REPLACE TEMP MACRO g() AS TABLE SELECT 1", "CREATE FUNCTION h(a) AS a", "ATTACH 'other.db' AS o (READ_ONLY)", "SET VARIABLE v = (SELECT 1)",
    ]
    reading = managed(";\n".join([*setup, "SELECT * FROM x"]))
    assert (reading.body.setup, reading.body.select, said(reading)) == (tuple(setup), "SELECT * FROM x", [])


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("", ["1:4 error no-select"]),
        ("/* nothing */ ; ;", ["1:4 error no-select"]),
        ("SET threads = 2;\nUSE main;", ["2:1 error no-select"]),
        ("SELECT 1;\n SELECT 2;", ["2:2 error second-select"]),
        ("SELECT 1; SELECT 2; FROM t", ["1:11 error second-select", "1:21 error second-select"]),
        ("SELECT 1;\nSET threads = 2;", ["2:1 error behind-select"]),
        ("SELECT 1;\nhello world", ["2:1 error behind-select"]),
        ("SELECT 1;\nDROP TABLE main.old;", ["2:1 error writing-statement"]),
        ("INSERT INTO main.log VALUES (1);\nSELECT 1", ["1:1 error writing-statement"]),
        ("INSERT INTO main.log VALUES (1)", ["1:1 error writing-statement"]),
        ("WITH a AS (SELECT 1) INSERT INTO t FROM a; SELECT 1", ["1:1 error writing-statement"]),
        ("CREATE TABLE t AS SELECT 1; SELECT 1", ["1:1 error writing-statement"]),
        ("CREATE OR REPLACE VIEW v AS SELECT 1; SELECT 1", ["1:1 error writing-statement"]),
        ("COPY t TO 'x.csv'; CALL f(); SELECT 1", ["1:1 error writing-statement", "1:20 error writing-statement"]),
        ("BEGIN;\nSELECT 1;\nCOMMIT;", ["1:1 error writing-statement", "3:1 error writing-statement"]),
        ("EXPLAIN SELECT 1; SELECT 1", ["1:1 error unknown-statement"]),
        ("SELEC 1", ["1:1 error unknown-statement"]),
        ("ATTACH 'x.db' AS sales; SELECT 1", ["1:1 error attach"]),
        ("ATTACH 'sales.db'; SELECT 1", ["1:1 error attach"]),
        ("ATTACH 'x.db' AS lake_sales; SELECT 1", ["1:1 error attach"]),
        ("ATTACH 'x.db' AS memory; SELECT 1", ["1:1 error attach"]),
        ("ATTACH 'ducklake://sales' AS temp; SELECT 1", ["1:1 error attach"]),
        ("SET x = 1;\n  ATTACH 'ducklake://salse' AS y; SELECT 1", ["2:3 error attach"]),
        ("SELECT 'abc", ["1:8 error unclosed-quote"]),
        ('SELECT 1;\n "abc', ["2:2 error unclosed-quote"]),
        ("SELECT 1 /* /* */", ["1:10 error unclosed-quote"]),
        ("SELECT $a$ x $$", ["1:8 error unclosed-quote"]),
    ],
)
def test_what_a_managed_body_must_not_hold(text: str, findings: list[str]) -> None:
    reading = managed(text)
    assert said(reading) == findings
    assert all(found.refuses for found in reading.findings)


def test_a_message_shows_forty_characters_of_the_statement() -> None:
    [found] = managed("INSERT  INTO main.log\n  VALUES (1, 2, 3, 4, 5, 6, 7, 8, 9); SELECT 1").findings
    assert "`INSERT INTO main.log VALUES (1, 2, 3, 4,`" in found.message


def test_a_misspelt_statement_is_answered() -> None:
    [found] = managed("SELCT 1").findings
    assert found.suggestion == "SELECT"


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT * FROM orders, main.items JOIN crm.people USING (id)", ["main/orders", "main/items", "main/crm.people"]),
        ("SELECT * FROM sales.t, sales.crm.t, lake_sales.x.y, lake_main.z, main.main.w", ["sales/t", "sales/crm.t", "sales/x.y", "main/z", "main/w"]),
        ("SELECT * FROM \"Orders\" o, MAIN.Orders", ["main/orders"]),
        ("SELECT * FROM orders AT (VERSION => 3) ASOF JOIN x ON o.a >= x.a", ["main/orders", "main/x"]),
        ("WITH a AS (SELECT * FROM b), c AS (FROM a) SELECT *, (SELECT max(v) FROM d) FROM c WHERE x IN (FROM e)", ["main/b", "main/d", "main/e"]),
        ("WITH orders AS (SELECT * FROM orders) SELECT * FROM orders", ["main/orders"]),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL FROM r) FROM r", []),
        ("SELECT * FROM a WHERE EXISTS (WITH b AS (SELECT 1) FROM b) AND x IN (FROM b)", ["main/a", "main/b"]),
        ("PIVOT orders ON k USING sum(v)", ["main/orders"]),
        ("FROM range(3), unnest([1]), duckdb_tables(), information_schema.tables, temp.x, memory.main.y, system.main.z, a.b.c.d", []),
        ("USE sales; SELECT * FROM t, main.u", ["sales/t", "sales/u"]),
        ("USE sales.crm; SELECT * FROM t, s.u", ["sales/crm.t", "sales/s.u"]),
        ("USE crm; SELECT * FROM t", ["main/crm.t"]),
        ("USE memory; SELECT * FROM t, sales.u", ["sales/u"]),
        ("CREATE TEMP TABLE x AS FROM src; CREATE TEMP VIEW IF NOT EXISTS temp.y AS FROM x; SELECT * FROM x, y, main.x", ["main/src", "main/x"]),
        ("CREATE MACRO f(a) AS TABLE SELECT * FROM ref WHERE k = a; SELECT * FROM f(1)", ["main/ref"]),
        ("CREATE MACRO f(a) AS (SELECT max(v) FROM ref); SELECT f(1)", ["main/ref"]),
        ("SET VARIABLE m = (SELECT max(v) FROM ref); SELECT getvariable('m')", ["main/ref"]),
        ("ATTACH 'x.db' AS o; SELECT * FROM o.t, o.main.u, v", ["main/v"]),
        ("ATTACH 'ducklake://sales' AS dl; SELECT * FROM dl.t, dl.crm.u", ["sales/t", "sales/crm.u"]),
        ("ATTACH 'ducklake://main' AS dl; USE dl; SELECT * FROM t", ["main/t"]),
        ("ATTACH 'ducklake' AS dl; SELECT * FROM dl.t", ["main/t"]),
    ],
)
def test_names_are_lake_tables(text: str, reads: list[str]) -> None:
    reading = managed(text)
    assert (sorted(reading.body.reads), said(reading)) == (sorted(f"ducklake://{read}" for read in reads), [])


def test_another_default_lake() -> None:
    names = ProjectNames(lakes=("main", "sales"), default_lake="sales")
    reading = read_body("SELECT * FROM t, main.u, main.crm.v, sales.w", 0, names, managed_at=AT)
    assert reading.body.reads == ("ducklake://sales/t", "ducklake://sales/u", "ducklake://main/crm.v", "ducklake://sales/w")


def test_an_attach_of_a_lake_is_a_name_and_no_action() -> None:
    reading = managed("ATTACH IF NOT EXISTS 'ducklake://sales' AS Dl; ATTACH 'ducklake://sales'; ATTACH 'ducklake://main' AS main; SELECT * FROM dl.t")
    assert (reading.body.aliases, reading.body.setup, said(reading)) == ((("dl", "sales"),), (), [])


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT * FROM read_parquet('s3://land/x/{partition}/*.parquet')", ["s3://land/x/{partition}/*.parquet"]),
        ("SELECT * FROM read_csv(['s3://land/a', 'file://b.csv'], header = true), read_json_auto('c.json')", ["s3://land/a", "file://b.csv", "file://c.json"]),
        ("FROM 's3://land/x.json' x, 'data/y.parquet', \"z.csv\"", ["s3://land/x.json", "file://data/y.parquet", "file://z.csv"]),
        ("FROM read_parquet('s3://elsewhere/x'), read_csv('https://example.com/x.csv'), glob('s3://land/x')", []),
    ],
)
def test_literal_objects_are_reads(text: str, reads: list[str]) -> None:
    reading = managed(text)
    assert (list(reading.body.reads), said(reading)) == (reads, [])


def test_what_is_not_literal_makes_no_edge_and_says_so() -> None:
    text = "SELECT * FROM t,\n  read_json('s3://land/' || {partition})"
    reading = managed(text)
    assert (said(reading), reading.body.reads, reading.clear) == (["2:3 warning not-literal"], ("ducklake://main/t",), False)
    assert read_body(text, 0, NAMES, managed_at=AT, derives=False).findings == ()


def test_sql_that_cannot_be_analysed_still_runs() -> None:
    reading = managed("SELECT *\nFROM batch b, landing\nWHERE WHERE a BY x")
    assert (said(reading), reading.clear, reading.body.reads) == (["3:7 warning unparsable"], False, ())
    assert (reading.body.reads_batch, reading.body.reads_landing) == (True, True)
    assert reading.body.select.endswith("BY x")


@pytest.mark.parametrize(
    ("text", "batch", "landing"),
    [
        ("SELECT * FROM batch", True, False),
        ("SELECT * FROM Batch b JOIN \"landing\" USING (id)", True, True),
        ("CREATE TEMP TABLE x AS FROM batch; SELECT * FROM x", True, False),
        ("SELECT batch FROM t AS batch", False, False),
        ("WITH batch AS (SELECT 1) FROM batch", False, False),
        ("CREATE TEMP TABLE batch AS SELECT 1; FROM batch", False, False),
        ("SELECT * FROM main.batch", False, False),
    ],
)
def test_the_rows_of_the_slice(text: str, batch: bool, landing: bool) -> None:
    body = managed(text).body
    assert (body.reads_batch, body.reads_landing) == (batch, landing)


def test_places_of_what_needs_a_slice() -> None:
    reading = managed("SELECT '{partition}' AS p, _op, wm_partition(ts),\n  $WM_PARTITION_START -- {partition}\nFROM batch WINDOW w AS (ORDER BY ts)")
    places = {name: (place.line, place.column) for name, place in reading.places.items()}
    assert places == {"select": (1, 1), "{partition}": (1, 9), "_op": (1, 28), "wm_partition": (1, 33), "$bounds": (2, 3), "batch": (3, 6)}
    assert reading.body.names_op


def test_a_placeholder_in_a_comment_needs_nothing() -> None:
    assert "{partition}" not in managed("SELECT 1 -- {partition}\n/* $WM_PARTITION_END */").places


@pytest.mark.parametrize(
    ("text", "outputs", "one_row", "mixes"),
    [
        ("SELECT a, b AS C, t.d FROM t", ("a", "c", "d"), False, None),
        ("SELECT * FROM t", None, False, None),
        ("SELECT t.* FROM t", None, False, None),
        ("SELECT a + 1 FROM t", None, False, None),
        ("SELECT a, count(*) AS n FROM t GROUP BY ALL", ("a", "n"), True, "GROUP BY"),
        ("SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY a) = 1", ("a",), True, None),
        ("SELECT DISTINCT a FROM t", ("a",), True, "DISTINCT"),
        ("SELECT a FROM t LIMIT 1", ("a",), False, "LIMIT"),
        ("SELECT sum(a) AS s FROM t", ("s",), False, "an aggregate"),
        ("SELECT sum(a) OVER () AS s FROM t", ("s",), False, "a window"),
        ("SELECT a, (SELECT max(b) FROM u) AS m FROM t", ("a", "m"), False, None),
        ("(SELECT a FROM t)", ("a",), False, None),
    ],
)
def test_the_shape_of_a_select(text: str, outputs: tuple[str, ...] | None, one_row: bool, mixes: str | None) -> None:
    shape = managed(text).shape
    assert shape is not None
    assert (shape.outputs, shape.one_row_a_key, shape.mixes_rows) == (outputs, one_row, mixes)


def test_a_free_body_may_do_anything() -> None:
    reading = free(
        "BEGIN; CREATE OR REPLACE TABLE main.t AS SELECT * FROM main.src; INSERT INTO u SELECT * FROM t JOIN v USING (id);"
        " UPDATE w SET a = 1 FROM x; DELETE FROM y USING z; MERGE INTO m USING n ON m.a = n.a WHEN MATCHED THEN DELETE;"
        " WITH q AS (FROM c) INSERT INTO d FROM q; DROP TABLE IF EXISTS e; ALTER TABLE f ADD COLUMN g INT; TRUNCATE h; COMMIT"
    )
    assert said(reading) == []
    assert [uri.rpartition("/")[2] for uri in reading.body.reads] == ["src", "v", "x", "z", "n", "c"]
    assert [uri.rpartition("/")[2] for uri in reading.writes] == ["t", "u", "w", "y", "m", "d", "e", "f", "h"]


def test_what_a_script_makes_is_no_read() -> None:
    reading = read_body("SELECT * FROM src ANTI JOIN main.T USING (id)", 0, NAMES, managed_at=AT, writes=["ducklake://main/t"])
    assert reading.body.reads == ("ducklake://main/src",)


def test_places_count_from_the_top_of_the_file() -> None:
    text = "-- pipeline\r\n-- tag x\r\n\tSELECT 1;\r\n  DROP TABLE t"
    [found] = read_body(text, text.index("\tSELECT"), NAMES, managed_at=AT).findings
    assert (found.range.line, found.range.column) == (4, 3)
