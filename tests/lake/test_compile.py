"""The compiled SQL is what runs; tables that are made first; looking at rows."""

from pathlib import Path

import pytest

from reactor.domain.scripts import Partitioning, Script
from reactor.errors import RunBlocked, UsageError
from reactor.lake.compiling import compiled, shape_now
from reactor.lake.query import query
from reactor.lake.session import InstanceSettings, LakeSettings
from tests.lake.driving import DAILY, DYNAMIC, Bench, feed, managed, raw_span
from tests.parts.postgres import value

COLUMNS = [("k", "VARCHAR"), ("v", "INTEGER")]


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    module_bench.rows("DROP TABLE IF EXISTS lake_main.main.t")
    return module_bench


SCRIPTS = {
    "replace": managed("SELECT 1 AS a"),
    "slice": managed("SELECT {partition} AS p, wm_partition(TIMESTAMP '2026-03-01') AS q", partitioned=DAILY, setup=["SET threads = 1"]),
    "append": managed("SELECT v FROM batch WHERE v > 0", "append", batch=COLUMNS, partitioned=DYNAMIC),
    "aggregate": managed("SELECT count(*) AS n FROM batch", "append", batch=COLUMNS),
    "merge": managed("SELECT k, v FROM batch", "merge", key=["k"], latest="v", batch=COLUMNS, partitioned=DYNAMIC),
}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_compile_says_what_the_run_after_it_executes(bench: Bench, script: Script) -> None:
    partitioned = script.header.partitioned
    partition = {"daily": "2026-03-01", "dynamic": "k'1"}[partitioned.kind] if partitioned else ""
    for turn in range(2):
        statements = compiled(script, partition, shape_now(bench.lake._settings, script))
        if script.body.reads_batch:
            (ran,) = feed(bench, script, raw_span([b'{"k":"k\'1","v":1}'], turn))
        else:
            ran = bench.run(script, partition)
        assert ran.compiled_sql == "".join(f"{statement};\n" for statement in statements)


def test_compile_text() -> None:
    assert compiled(SCRIPTS["merge"], "x'y", "missing")[1:] == [
        "BEGIN",
        'CREATE TABLE "lake_main"."main"."t" AS SELECT * EXCLUDE ("_wm_row", "_wm_deleted") FROM temp."_wm_stage" LIMIT 0',
        'ALTER TABLE "lake_main"."main"."t" SET PARTITIONED BY ("_wm_partition")',
        "COMMENT ON TABLE \"lake_main\".\"main\".\"t\" IS 'Made by Reactor'",
        (
            'DELETE FROM "lake_main"."main"."t" AS t WHERE t."_wm_partition" = \'x\'\'y\' AND EXISTS (SELECT 1 FROM temp."_wm_stage" AS s'
            ' WHERE s."k" = t."k" AND NOT (t."v" IS NOT NULL AND (s."v" IS NULL OR t."v" > s."v")))'
        ),
        (
            'INSERT INTO "lake_main"."main"."t" BY NAME SELECT * EXCLUDE ("_wm_deleted", "_wm_row") FROM temp."_wm_stage" AS s'
            ' WHERE s."_wm_deleted" IS NOT TRUE AND NOT EXISTS'
            ' (SELECT 1 FROM "lake_main"."main"."t" AS t WHERE t."_wm_partition" = \'x\'\'y\' AND s."k" = t."k")'
        ),
        "COMMIT",
    ]


def test_what_a_script_has_no_value_for() -> None:
    with pytest.raises(RunBlocked, match="not partitioned"):
        compiled(managed("SELECT {partition} AS a"), "", "missing")


@pytest.mark.parametrize("partitioned", [None, DYNAMIC, DAILY, Partitioning("weekly", "Europe/Prague")])
def test_the_table_of_a_script_that_reads_batch_is_made_before_its_first_run(bench: Bench, partitioned: Partitioning | None) -> None:
    script = managed("SELECT k, v, _offset FROM batch", "merge", key=["k"], batch=COLUMNS, partitioned=partitioned)
    uuid = bench.lake.ensure_table(script)
    assert uuid is not None
    assert uuid == bench.lake.ensure_table(script)
    assert [row[:2] for row in bench.rows("DESCRIBE t")][:3] == [("k", "VARCHAR"), ("v", "INTEGER"), ("_offset", "BIGINT")]
    mark = "SELECT commit_extra_info FROM lake_main.ducklake_snapshot_changes ORDER BY snapshot_id DESC LIMIT 1"
    assert value(bench.url, mark) == '{"reactor":1,"setup":true}'
    feed(bench, script, raw_span([b'{"k":"a","v":1}']))
    assert bench.lake.ensure_table(script) == uuid


def test_no_table_is_made_of_what_does_not_bind(bench: Bench) -> None:
    assert bench.lake.ensure_table(managed("SELECT nothing FROM batch", "append", batch=COLUMNS)) is None
    assert bench.lake.ensure_table(managed("SELECT 1 AS a")) is None


def looked(bench: Bench, sql: str, rows_max: int | None = 3) -> list[dict[str, object]]:
    lakes = {"main": LakeSettings(bench.lake._settings.lakes["main"].data_path)}
    rows: list[dict[str, object]] = query(InstanceSettings(bench.url, lakes, "main"), sql, rows_max).to_pylist()
    return rows


def test_query(bench: Bench) -> None:
    bench.run(managed("SELECT range AS a FROM range(10)"))
    assert looked(bench, "SELECT a FROM main.t ORDER BY a") == [{"a": 0}, {"a": 1}, {"a": 2}]
    assert len(looked(bench, "FROM t", None)) == 10
    assert looked(bench, "PIVOT (SELECT a % 2 AS a FROM t) ON a USING count(*)") == [{"0": 5, "1": 5}]
    assert looked(bench, "DESCRIBE t")[0]["column_name"] == "a"


@pytest.mark.parametrize("sql", ["DELETE FROM t", "SELECT 1; SELECT 2", "", "COPY t TO '/tmp/x'", "CALL lake_main.set_option('a', 'b')", "SELEC", "FROM nosuch"])
def test_only_looks(bench: Bench, sql: str) -> None:
    with pytest.raises(UsageError):
        looked(bench, sql)


def test_a_look_cannot_write(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS a"))
    for sql in (
        "SELECT * FROM postgres_execute('__ducklake_metadata_lake_main', 'DELETE FROM lake_main.ducklake_table')",
        "SELECT * FROM ducklake_expire_snapshots('lake_main', older_than => TIMESTAMP '2999-01-01')",
    ):
        with pytest.raises(Exception, match="read-only"):
            looked(bench, sql)
    assert bench.rows("SELECT * FROM t") == [(1,)]


def test_a_missing_folder_is_no_look(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one SELECT"):
        query(InstanceSettings(bench.url, {"main": LakeSettings(str(tmp_path))}, "main"), "DROP TABLE t")
