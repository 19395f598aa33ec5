"""A plain SELECT carries the numbers of its records, and its rows stay what they were."""

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.lake.statements.carry import AGGREGATES, carrying, only_names

HIDDEN = ("_wm_row", "_wm_partition")

PLAIN = [
    "SELECT id, a FROM batch",
    "SELECT * FROM batch",
    "FROM batch",
    "FROM batch WHERE a > 1",
    "select id as n, a + 1 as b from Batch b where b.id % 2 = 0 order by 1 desc",
    "SELECT batch.id, \"batch\".a FROM batch",
    "SELECT * FROM (SELECT id, a FROM batch)",
    "SELECT x.* FROM (SELECT id, a * 2 AS a FROM batch WHERE id IN (1, 3)) AS x WHERE a IN (SELECT a FROM other)",
    "SELECT * EXCLUDE (a) FROM batch",
    "WITH x AS (SELECT id, a FROM batch), y AS (SELECT 1 AS q) SELECT id FROM x WHERE id >= (SELECT q FROM y)",
    "SELECT '🚀 from batch' AS s, id FROM batch -- the end",
    "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END AS c, extract(year FROM DATE '2026-01-01') AS y FROM batch",
    "SELECT unnest([id, a]) AS u FROM batch",
    "SELECT {'k': id} AS s, [id][1] AS l FROM batch",
    "SELECT (SELECT q FROM other LIMIT 1) AS q FROM batch",
]  # fmt: skip
NOT_PLAIN = [
    "SELECT count(*) FROM batch", "SELECT a, sum(id) FROM batch GROUP BY a", "SELECT DISTINCT a FROM batch", "SELECT a FROM batch LIMIT 1",
    "SELECT a FROM batch, other", "SELECT b.a FROM batch b JOIN other USING (a)", "SELECT a FROM batch UNION ALL SELECT 1",
    "SELECT row_number() OVER () FROM batch", "SELECT a FROM batch QUALIFY true", "SELECT a, (SELECT max(id) FROM batch) FROM batch",
    "SELECT COLUMNS('a') FROM batch", "SELECT *, * FROM batch", "SELECT a FROM main.batch", "SELECT a FROM other", "VALUES (1)", "SELECT 1",
    "SELECT a FROM batch USING SAMPLE 3", "SELECT b.x FROM batch AS b(x, y)", "SELECT a, FROM batch", "SELECT a FROM batch;",
    "WITH x AS (SELECT a FROM batch) SELECT x.a FROM x, x AS y", "FROM batch SELECT a", "SELECT 'unclosed FROM batch", "PIVOT batch ON a USING sum(id)",
    "WITH batch AS (SELECT 1 AS a) SELECT a FROM batch", "SELECT batch FROM batch", "",
]  # fmt: skip


@pytest.mark.parametrize("select", PLAIN)
def test_a_plain_select_keeps_its_rows(select: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE other AS SELECT 2 AS a, 5 AS q")
        connection.execute("CREATE TABLE _wm_batch AS SELECT i AS id, i % 3 AS a, 10 + i AS _wm_row, 'p' || (i % 2) AS _wm_partition FROM range(6) r(i)")
        connection.execute("CREATE VIEW batch AS SELECT * EXCLUDE (_wm_row, _wm_partition) FROM _wm_batch")
        text = carrying(select, HIDDEN)
        assert text is not None
        wanted = connection.execute(f"SELECT * FROM ({select}\n)").fetchall()
        kept = connection.execute(f"SELECT * EXCLUDE (_wm_row, _wm_partition) FROM ({text}\n)").fetchall()
        assert sorted(map(str, kept)) == sorted(map(str, wanted))
        assert connection.execute(f"SELECT count(*) FROM ({text}\n) WHERE _wm_partition <> 'p' || (_wm_row % 2)").fetchone() == (0,)


@pytest.mark.parametrize("select", NOT_PLAIN)
def test_what_is_not_plain_is_left_alone(select: str) -> None:
    assert carrying(select, HIDDEN) is None


WORDS = ["SELECT", "FROM", "batch", "a", ",", "(", ")", "*", ".", "WHERE", "'", '"', "\n", "AS", "WITH", "x", "x.*", "count(*)", "OVER ()"]


@given(st.lists(st.sampled_from(WORDS), max_size=25))
@settings(max_examples=300)
def test_no_text_is_too_strange(words: list[str]) -> None:
    carried = carrying(" ".join(words), HIDDEN)
    assert carried is None or "_wm_batch" in carried


def test_all_aggregates_are_known() -> None:
    names = duckdb.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'").fetchall()
    windows = {"cume_dist", "dense_rank", "fill", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank", "rank", "rank_dense",
               "row_number"}
    assert {name for (name,) in names} - windows <= AGGREGATES


@pytest.mark.parametrize("select", ["SELECT a FROM batch", "select A, \"id\" as n, a from Batch", "SELECT a -- and no other\nFROM batch"])
def test_a_select_that_only_names_columns(select: str) -> None:
    assert only_names(select, frozenset({"a", "id"}))


@pytest.mark.parametrize("select", [
    "SELECT * FROM batch", "FROM batch", "SELECT a, other FROM batch", "SELECT a + 1 FROM batch", "SELECT random() FROM batch", "SELECT 1 FROM batch",
    "SELECT 'a' FROM batch", "SELECT a FROM batch WHERE a > 0", "SELECT a FROM batch ORDER BY a", "SELECT a FROM batch AS b", "SELECT b.a FROM batch b",
    "SELECT batch.a FROM batch", "SELECT a, FROM batch", "SELECT DISTINCT a FROM batch", "SELECT a b FROM batch", "SELECT a AS b AS c FROM batch",
    "SELECT current_date FROM batch", "SELECT a FROM x.batch", "SELECT a FROM (FROM batch)", "WITH x AS (SELECT 1) SELECT a FROM batch",
    "SELECT FROM batch", "SELECT a::INTEGER FROM batch", "SELECT a FROM 'batch'", "SELECT 'unclosed FROM batch", "",
])  # fmt: skip
def test_a_select_that_does_more(select: str) -> None:
    assert not only_names(select, frozenset({"a", "id"}))
