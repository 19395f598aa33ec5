"""Replace: whole tables and slices, unchanged content, shapes, and whose table it is."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactor.errors import RunBlocked, RunFailed
from reactor.lake import evaluate
from tests.lake.driving import DAILY, DYNAMIC, Bench, managed
from tests.parts.effort import tries


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    for table in ("t", "src", "other"):
        module_bench.rows(f"DROP TABLE IF EXISTS lake_main.main.{table}")
    return module_bench


def test_the_schema_follows_the_select_in_one_snapshot(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS a, 'x' AS b"))
    before = bench.snapshot()
    ran = bench.run(managed("SELECT 'x' AS b, 2::BIGINT AS a, 3.5 AS c"))
    assert [row[:2] for row in bench.rows("DESCRIBE t")] == [("b", "VARCHAR"), ("a", "BIGINT"), ("c", "DECIMAL(2,1)")]
    assert [(c.inserted, c.deleted) for c in ran.counts] == [(1, 1)]
    assert bench.snapshot() == before + 1
    assert bench.rows(f"SELECT * FROM t AT (VERSION => {before})") == [(1, "x")]


def test_an_unchanged_shape_keeps_the_table(bench: Bench) -> None:
    script = managed("SELECT 1 AS a")
    bench.run(script)
    uuid = bench.lake.ensure_table(script)
    bench.run(managed("SELECT 2 AS a"))
    assert bench.lake.ensure_table(script) == uuid is not None


def test_a_view_in_the_way_is_dropped_in_the_same_snapshot(bench: Bench) -> None:
    bench.rows("CREATE VIEW lake_main.main.t AS SELECT 7 AS a")
    before = bench.snapshot()
    with pytest.raises(RunBlocked, match="is a view"):
        bench.run(managed("SELECT 1 AS a", "append"))
    bench.run(managed("SELECT 1 AS a"))
    assert bench.rows("SELECT * FROM t") == [(1,)]
    assert bench.snapshot() == before + 1


def test_a_first_run_without_rows_makes_the_table(bench: Bench) -> None:
    ran = bench.run(managed("SELECT 1 AS a WHERE false"))
    assert (ran.changed, bench.rows("SELECT * FROM t")) == (True, [])
    assert not bench.run(managed("SELECT 1 AS a WHERE false")).changed


@pytest.mark.parametrize("columns", [
    "NULL::INTEGER AS a", "'NaN'::DOUBLE AS a", "'é' AS a, NULL::VARCHAR AS b", "{'x': [1, NULL]} AS s", "MAP {'k': 1} AS m", "'[1, 2]'::JSON AS j",
    "'2026-03-01 10:00:00+01'::TIMESTAMPTZ AS t, INTERVAL 1 DAY AS i", "'x'::BLOB AS b, uuid '01a22914-0930-770d-a93a-f1dc8befab88' AS u",
    "1.50::DECIMAL(12,2) AS d, true AS f, DATE '2026-03-01' AS day", "42::VARIANT AS v",
])  # fmt: skip
def test_equal_content_is_not_written_again(bench: Bench, columns: str) -> None:
    script = managed(f"SELECT {columns} FROM range(3)")
    assert bench.run(script).changed
    before = bench.snapshot()
    assert not bench.run(script).changed
    assert bench.snapshot() == before
    assert bench.run(managed(f"SELECT {columns} FROM range(4)")).changed


CELLS = st.sampled_from(["1", "2", "NULL"])
BAGS = st.lists(st.tuples(CELLS, CELLS), max_size=4)


@pytest.mark.thorough
@given(old=BAGS, new=BAGS)
@settings(max_examples=tries(8, 20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_unchanged_means_the_same_rows_as_often(bench: Bench, old: list[tuple[str, str]], new: list[tuple[str, str]]) -> None:
    def script(rows: list[tuple[str, str]]) -> str:
        values = ", ".join(f"({a}, {b})" for a, b in rows) or "(1, 1)"
        return f"SELECT a::INTEGER AS a, b::INTEGER AS b FROM (VALUES {values}) s(a, b)" + ("" if rows else " WHERE false")

    bench.rows("DROP TABLE IF EXISTS lake_main.main.t")
    bench.run(managed(script(old), partitioned=DYNAMIC), "p")
    assert bench.run(managed(script(new), partitioned=DYNAMIC), "p").changed is (sorted(old) != sorted(new))
    assert len(bench.rows("SELECT * FROM t")) == len(new)


def test_others_tables_are_not_touched(bench: Bench) -> None:
    bench.rows("CREATE TABLE lake_main.main.t AS SELECT 1 AS a")
    for strategy in ("replace", "append", "merge"):
        with pytest.raises(RunBlocked, match=r"rows that were not made here\n  reactor maintain --adopt"):
            bench.run(managed("SELECT 2 AS a", strategy, key=["a"]))
    bench.rows("DELETE FROM lake_main.main.t")
    bench.run(managed("SELECT 2 AS a"))
    assert bench.rows("SELECT * FROM t") == [(2,)]


def test_a_comment_of_ones_own_does_not_make_it_strange(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS a", "append"))
    bench.rows("COMMENT ON TABLE lake_main.main.t IS 'our orders'")
    bench.run(managed("SELECT 2 AS a", "append"))
    assert bench.rows("SELECT count(*) FROM t") == [(2,)]


def test_rows_without_a_slice_are_named(bench: Bench) -> None:
    script = managed("SELECT 1 AS a", partitioned=DAILY)
    bench.run(script, "2026-03-01")
    bench.rows("INSERT INTO lake_main.main.t (a) VALUES (5), (6)")
    with pytest.raises(RunBlocked, match="2 rows that belong to no asset partition"):
        bench.run(script, "2026-03-02")


@pytest.mark.parametrize("strange", [
    "INSERT INTO lake_main.main.t (a) VALUES (5)", "UPDATE lake_main.main.t SET _wm_partition = NULL",
    "ALTER TABLE lake_main.main.t RESET PARTITIONED BY; ALTER TABLE lake_main.main.t DROP COLUMN _wm_partition; ALTER TABLE lake_main.main.t ADD COLUMN _wm_partition VARCHAR",
])  # fmt: skip
def test_rows_that_were_put_or_moved_out_of_their_slice_are_seen(bench: Bench, strange: str) -> None:
    """DuckLake's statistics are asked first; they say nothing of a column that came later, and what is gone stays in them."""
    script = managed("SELECT 1 AS a", partitioned=DAILY)
    bench.run(script, "2026-03-01")
    bench.run(script, "2026-03-02")
    bench.rows(strange)
    with pytest.raises(RunBlocked, match="rows that belong to no asset partition"):
        bench.run(script, "2026-03-03")
    bench.rows("DELETE FROM lake_main.main.t WHERE _wm_partition IS NULL")
    bench.run(script, "2026-03-03")
    assert ("2026-03-03",) in bench.rows("SELECT DISTINCT _wm_partition FROM lake_main.main.t")


def while_it_is_evaluated(bench: Bench, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody does this behind the next SELECT, before its run looks at the table."""
    honest, waiting = evaluate._staged, [sql]

    def staged(*given: Any) -> evaluate.Evaluated:
        found = honest(*given)
        while waiting:
            bench.rows(waiting.pop())
        return found

    monkeypatch.setattr(evaluate, "_staged", staged)


def test_a_table_that_is_made_by_hand_while_a_select_is_evaluated_survives(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    while_it_is_evaluated(bench, "CREATE TABLE lake_main.main.t AS SELECT 42 AS a", monkeypatch)
    with pytest.raises(RunBlocked, match="holds rows that were not made here"):
        bench.run(managed("SELECT 1 AS a"))
    assert bench.rows("SELECT a FROM lake_main.main.t") == [(42,)]


def test_a_table_that_is_dropped_while_a_select_is_evaluated_is_made_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    script = managed("SELECT 1 AS a", partitioned=DAILY)
    bench.run(script, "2026-03-01")
    while_it_is_evaluated(bench, "DROP TABLE lake_main.main.t", monkeypatch)
    assert [c.inserted for c in bench.run(script, "2026-03-02").counts] == [1]
    assert bench.rows("SELECT a, _wm_partition FROM lake_main.main.t") == [(1, "2026-03-02")]


def test_slices_cannot_come_or_go(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS a"))
    with pytest.raises(RunBlocked, match="has not the column _wm_partition, and the script is `partitioned`"):
        bench.run(managed("SELECT 1 AS a", partitioned=DAILY), "2026-03-01")
    bench.rows("DROP TABLE lake_main.main.t")
    bench.run(managed("SELECT 1 AS a", partitioned=DAILY), "2026-03-01")
    with pytest.raises(RunBlocked, match="has the column _wm_partition, and the script is not `partitioned`"):
        bench.run(managed("SELECT 1 AS a"))


def test_what_the_body_sees(bench: Bench) -> None:
    bench.rows("CREATE TABLE lake_sales.main.t AS SELECT 'sales' AS whose")
    bench.rows("CREATE OR REPLACE TABLE lake_main.main.src AS SELECT TIMESTAMPTZ '2026-03-01 23:30:00+00' AS ts")
    select = (
        "SELECT wm_partition(ts) AS p, {partition} AS q, $WM_PARTITION_START AS lo, $WM_PARTITION_END AS hi, twice(2) AS n,"
        " (SELECT whose FROM sales.t) AS a, (SELECT whose FROM y.t) AS b, (SELECT whose FROM lake_sales.main.t) AS c FROM src"
    )
    script = managed(select, partitioned=DAILY, setup=["CREATE MACRO twice(x) AS x * 2", "SET TimeZone = 'Asia/Tokyo'"], aliases=[("y", "sales")])
    bench.run(script, "2026-03-01")
    bench.run(script, "2026-03-01")
    bounds = ["2026-03-01 00:00:00+00", "2026-03-02 00:00:00+00"]
    assert bench.texts("SELECT * EXCLUDE (_wm_partition) FROM t") == [["2026-03-01", "2026-03-01", *bounds, "4", "sales", "sales", "sales"]]
    bench.rows("DROP TABLE lake_sales.main.t")


def test_the_body_cannot_redirect_the_write(bench: Bench) -> None:
    script = managed("SELECT 1 AS a FROM here", setup=["ATTACH ':memory:' AS elsewhere", "USE elsewhere", "CREATE TEMP TABLE here AS SELECT 1"])
    for _ in range(2):
        bench.run(script)
    assert bench.rows("SELECT * FROM lake_main.main.t") == [(1,)]
    assert not bench.rows("SELECT 1 FROM duckdb_databases() WHERE database_name = 'elsewhere'")


def test_random_values_are_evaluated_once(bench: Bench) -> None:
    staged = bench.stage(managed("SELECT uuid() AS u FROM range(100)"))
    seen = staged._cursor.execute('SELECT u FROM temp."_wm_stage" ORDER BY u').fetchall()
    bench.finish(staged)
    assert bench.rows("SELECT u FROM t ORDER BY u") == seen


def test_a_table_in_a_schema_of_its_own(bench: Bench) -> None:
    for value in (1, 2):
        bench.run(managed(f"SELECT {value} AS a", asset="ducklake://main/mart.t"))
    assert bench.rows("SELECT * FROM lake_main.mart.t") == [(2,)]
    bench.rows("DROP TABLE lake_main.mart.t")


def test_errors_of_the_body(bench: Bench) -> None:
    with pytest.raises(RunFailed, match="Conversion error") as raised:
        bench.run(managed("SELECT CAST('secret 12' AS INTEGER) AS a"))
    assert "secret" not in raised.value.args[0]
    with pytest.raises(RunBlocked, match="nowhere"):
        bench.run(managed("SELECT * FROM nowhere"))
    with pytest.raises(RunBlocked, match="syntax error"):
        bench.run(managed("SELEC 1"))
