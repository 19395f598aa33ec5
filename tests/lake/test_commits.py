"""Commits that meet others, are refused, or lose their instance: nothing is half done, and what was staged is not lost."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor.domain.runs import PartitionCounts
from reactor.errors import Conflict, Outage, ReactorError
from reactor.lake.ducklake import DuckLake
from reactor.lake.materialize import StagedRun
from reactor.lake.session import LakeSettings
from tests.lake.driving import DYNAMIC, Bench, a_run, managed
from tests.parts.postgres import execute, value
from tests.parts.waiting import wait_until


@pytest.fixture
def other(bench: Bench, tmp_path: Path) -> Iterator[Bench]:
    """Another replica on the same lakes."""
    lakes = {name: LakeSettings(str(tmp_path / "lakes" / name)) for name in ("main", "sales")}
    lake = DuckLake(postgres_url=bench.url, lakes=lakes, threads=1)
    yield Bench(lake, bench.url)
    lake.close()


def refuse(url: str, message: str) -> None:
    execute(
        url,
        f"CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{message}'; END $$",
        "CREATE OR REPLACE TRIGGER refuse AFTER INSERT ON lake_main.ducklake_snapshot_changes FOR EACH ROW EXECUTE FUNCTION refuse()",
    )


def allow(url: str) -> None:
    execute(url, "DROP TRIGGER refuse ON lake_main.ducklake_snapshot_changes")


def committed(staged: StagedRun) -> None:
    assert staged.write(a_run()).changed
    staged.commit()
    staged.settled(committed=True)
    staged.close()


def files(tmp_path: Path) -> set[str]:
    return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")}


def test_the_mark_says_the_run_and_the_rows_of_each_slice(bench: Bench) -> None:
    staged, run = bench.stage(managed("SELECT {partition} AS p FROM range(2)", "append", partitioned=DYNAMIC), "x", "y"), a_run()
    assert staged.write(run).counts == (PartitionCounts(2, 0), PartitionCounts(2, 0))
    staged.commit()
    staged.close()
    marks = "SELECT commit_extra_info FROM lake_main.ducklake_snapshot_changes WHERE commit_extra_info IS NOT NULL"
    assert json.loads(str(value(bench.url, marks))) == {"reactor": 1, "run": str(run), "rows": [[2, 0], [2, 0]]}


def test_a_refused_commit_leaves_nothing_and_keeps_what_was_staged(bench: Bench, tmp_path: Path) -> None:
    bench.run(managed("SELECT 1 AS a", "append"))
    before, snapshot = files(tmp_path), bench.snapshot()
    staged = bench.stage(managed("SELECT range AS a FROM range(1000)", "append"))
    refuse(bench.url, "reactor RF001: position")
    for _ in range(2):
        staged.write(a_run())
        with pytest.raises(Conflict, match="another writer was first"):
            staged.commit()
        staged.settled(committed=False)
        assert (bench.rows("SELECT count(*) FROM t"), files(tmp_path), bench.snapshot()) == ([(1,)], before, snapshot)
    allow(bench.url)
    committed(staged)
    assert bench.rows("SELECT count(*) FROM t") == [(1001,)]


def test_a_refused_first_run_leaves_no_table(bench: Bench) -> None:
    staged = bench.stage(managed("SELECT 1 AS a"))
    refuse(bench.url, "reactor RF002: the run is not running")
    staged.write(a_run())
    with pytest.raises(Conflict):
        staged.commit()
    allow(bench.url)
    assert bench.lake.ensure_table(managed("SELECT 1 AS a")) is None
    committed(staged)


def test_of_two_replaces_one_is_told(bench: Bench, other: Bench) -> None:
    bench.run(managed("SELECT 0 AS a"))
    first, second = bench.stage(managed("SELECT 1 AS a")), other.stage(managed("SELECT 2 AS a"))
    first.write(a_run())
    second.write(a_run())
    first.commit()
    with pytest.raises(Conflict):
        second.commit()
    second.settled(committed=False)
    assert other.rows("SELECT * FROM t") == [(1,)]
    committed(second)
    assert bench.rows("SELECT * FROM t") == [(2,)]


def test_of_two_first_runs_one_is_told_and_goes_on(bench: Bench, other: Bench) -> None:
    first, second = bench.stage(managed("SELECT 1 AS a", "append")), other.stage(managed("SELECT 2 AS a", "append"))
    first.write(a_run())
    second.write(a_run())
    first.commit()
    with pytest.raises(Conflict):
        second.commit()
    committed(second)
    assert bench.texts("SELECT * FROM t") == [["1"], ["2"]]


def test_appends_commit_together(bench: Bench, other: Bench) -> None:
    bench.run(managed("SELECT 0 AS a", "append"))
    first, second = bench.stage(managed("SELECT 1 AS a", "append")), other.stage(managed("SELECT 2 AS a", "append"))
    first.write(a_run())
    second.write(a_run())
    first.commit()
    second.commit()
    assert bench.texts("SELECT * FROM t") == [["0"], ["1"], ["2"]]


@pytest.mark.parametrize("change", ["ALTER TABLE lake_main.main.t ADD COLUMN c INTEGER", "DROP TABLE lake_main.main.t"])
def test_a_table_that_changed_since_makes_the_staged_rows_stale(bench: Bench, change: str) -> None:
    bench.run(managed("SELECT 1 AS a, 'x' AS b", "append"))
    staged = bench.stage(managed("SELECT 2::BIGINT AS a", "append"))
    bench.rows(change)
    with pytest.raises(Conflict, match="changed its columns"):
        staged.write(a_run())
    assert staged.stale
    staged.close()
    bench.run(managed("SELECT 2::BIGINT AS a", "append"))
    assert bench.rows("SELECT a FROM t ORDER BY a")[-1] == (2,)


def test_rollback_gives_up_and_writes_again(bench: Bench) -> None:
    staged = bench.stage(managed("SELECT 1 AS a"))
    staged.write(a_run())
    staged.rollback()
    staged.rollback()
    committed(staged)
    assert bench.rows("SELECT * FROM t") == [(1,)]


def test_an_internal_error_costs_the_instance_and_nothing_else(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS a", "append"))
    staged = bench.stage(managed("SELECT 2 AS a", "append"))
    with pytest.raises(ReactorError):
        bench.rows("CREATE TABLE lake_main.main.broken AS SELECT TIME_NS '10:00:00' AS t")
    assert staged.stale
    with pytest.raises(Outage):
        staged.write(a_run())
    staged.close()
    bench.run(managed("SELECT 3 AS a", "append"))
    assert bench.texts("SELECT * FROM t") == [["1"], ["3"]]


def test_rebuilt_lakes_go_on_and_what_was_staged_is_stale(bench: Bench) -> None:
    staged = bench.stage(managed("SELECT 1 AS a"))
    bench.lake.rebuild()
    with pytest.raises(Outage, match="attached anew"):
        staged.write(a_run())
    assert staged.stale
    staged.close()
    bench.run(managed("SELECT 1 AS a"))


def test_an_outage_is_one_and_ends(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS a", "append"))
    staged = bench.stage(managed("SELECT 2 AS a", "append"))
    name = bench.url.rpartition("/")[2]
    server = bench.url.replace(name, "postgres")
    kill = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    execute(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", kill)
    with pytest.raises(Outage):
        staged.write(a_run())
    with pytest.raises(Outage):
        bench.stage(managed("SELECT 2 AS a", "append"))
    execute(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    staged.write(a_run())
    execute(server, kill)
    with pytest.raises(Outage):
        staged.commit()
    staged.settled(committed=False)
    committed(staged)
    assert bench.texts("SELECT * FROM t") == [["1"], ["2"]]


def test_close_gives_every_connection_back(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS a"))
    staged = bench.stage(managed("SELECT 2 AS a"))
    refuse(bench.url, "reactor RF001: position")
    staged.write(a_run())
    with pytest.raises(Conflict):
        staged.commit()
    bench.lake.close()
    staged.close()
    name = bench.url.rpartition("/")[2]
    open_connections = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    wait_until(lambda: value(bench.url.replace(name, "postgres"), open_connections) == 0, "no connection is left")


def test_lanes_of_one_process_share_its_instance(bench: Bench) -> None:
    """Staging side by side, write and COMMIT one after the other: every run commits, every row is there once."""
    bench.run(managed("SELECT -1 AS a, -1 AS b", "append"))
    bench.run(managed("SELECT -1 AS a, -1 AS b", "merge", key=["a"], asset="ducklake://main/m"))
    lock, failed = threading.Lock(), list[BaseException]()

    def lane(number: int) -> None:
        try:
            for turn in range(5):
                for script in (
                    managed(f"SELECT {number} AS a, range AS b FROM range({turn * 10}, {turn * 10 + 10})", "append"),
                    managed(f"SELECT {number} AS a, {turn} AS b", "merge", key=["a"], asset="ducklake://main/m"),
                ):
                    staged = bench.stage(script)
                    with lock:
                        committed(staged)
        except BaseException as error:  # noqa: BLE001 - reported by the test's own thread
            failed.append(error)

    lanes = [threading.Thread(target=lane, args=(number,)) for number in range(4)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    assert not failed
    assert bench.rows("SELECT a, count(DISTINCT b), count(*) FROM t WHERE a >= 0 GROUP BY a ORDER BY a") == [(n, 50, 50) for n in range(4)]
    assert bench.rows("SELECT a, b FROM m WHERE a >= 0 ORDER BY a") == [(n, 4) for n in range(4)]
