"""How an instance is opened, what its cursors see, and who is refused."""

import threading
from pathlib import Path

import pytest

from reactor.errors import Outage, RunBlocked, UsageError
from reactor.lake.ducklake import DuckLake
from reactor.lake.session import Instance, InstanceSettings, LakeSettings, connection_text
from reactor.ports import Lake, Staged
from tests.lake.driving import Bench, managed
from tests.parts.postgres import execute


def settings(url: str, folder: Path, *names: str, default: str = "main") -> InstanceSettings:
    return InstanceSettings(url, {name: LakeSettings(str(folder / name)) for name in names or ("main",)}, default)


def test_it_is_the_lake_of_the_ports(module_bench: Bench) -> None:
    lake: Lake = module_bench.lake
    staged: Staged = module_bench.stage(managed("SELECT 1 AS a", asset="ducklake://main/ports"))
    staged.close()
    assert lake.ensure_table(managed("SELECT 1 AS a", asset="ducklake://main/ports")) is None


def test_lakes_have_two_names_except_those_that_duckdb_keeps(module_bench: Bench) -> None:
    names = {row[0] for row in module_bench.rows("SELECT database_name FROM duckdb_databases() WHERE type = 'ducklake'")}
    assert names == {"lake_main", "lake_sales", "sales"}


def test_a_name_that_two_lakes_want_belongs_to_the_one_that_is_called_so(tmp_path: Path) -> None:
    names = settings("postgresql://h/d", tmp_path, "main", "x", "lake_x").names
    assert names == {"lake_main": "main", "lake_x": "x", "lake_lake_x": "lake_x", "x": "x"}


def test_cursors_are_in_utc_and_at_home(module_bench: Bench) -> None:
    assert module_bench.rows("SELECT current_setting('TimeZone'), current_database()") == [("UTC", "lake_main")]


def test_python_variables_are_no_tables(module_bench: Bench) -> None:
    secret = [1, 2, 3]
    with pytest.raises(Exception, match="secret does not exist"):
        module_bench.rows("SELECT * FROM secret")
    assert secret


def test_files_lie_flat_so_that_every_key_is_a_name(database: str, tmp_path: Path) -> None:
    instance = Instance(settings(database, tmp_path, "main", "sales"))
    with instance.lent("looking") as cursor:
        for name in ("lake_main", "lake_sales", "sales"):
            options = f"SELECT option_name, value FROM {name}.options() WHERE option_name IN ('hive_file_pattern', 'data_inlining_row_limit')"
            assert cursor.execute(options).fetchall() == [("hive_file_pattern", "false")]
    instance.retire()


def test_files_lie_flat_although_another_replica_has_said_so_while_this_one_attached(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckLake goes by what the catalog said when it was attached. Files that lie deeper are not kept when the answer of a COMMIT is lost."""
    ours, others = Instance._flat_files, list[Instance]()

    def another_is_first(instance: Instance, name: str) -> bool:
        monkeypatch.setattr(Instance, "_flat_files", ours)
        others.append(Instance(settings(database, tmp_path)))
        return ours(instance, name)

    monkeypatch.setattr(Instance, "_flat_files", another_is_first)
    instance = Instance(settings(database, tmp_path))
    with instance.lent("writing") as cursor:
        for statement in ("CREATE TABLE t (a INTEGER, p VARCHAR)", "ALTER TABLE t SET PARTITIONED BY (p)", "INSERT INTO t VALUES (1, 'x')"):
            cursor.execute(statement)
    assert [file.parent.name for file in tmp_path.rglob("*.parquet")] == ["t"]
    for one in (instance, *others):
        one.retire()


def test_of_postgresql_an_instance_lists_the_tables_of_its_lake_alone(module_bench: Bench) -> None:
    """A database holds other schemas, and to list a large one takes longer than a run."""
    tables = "SELECT count(*) > 0 FROM __ducklake_metadata_lake_main.{}.ducklake_metadata"
    assert module_bench.rows(tables.format("lake_main")) == [(True,)]
    with pytest.raises(RunBlocked, match='schema "lake_sales" does not exist'):
        module_bench.rows(tables.format("lake_sales"))


def test_replicas_may_start_at_once_on_an_empty_database(database: str, tmp_path: Path) -> None:
    opened: list[Instance] = []
    threads = [threading.Thread(target=lambda: opened.append(Instance(settings(database, tmp_path)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for instance in opened:
        instance.retire()


def test_a_retired_instance_closes_with_its_last_cursor(database: str, tmp_path: Path) -> None:
    instance = Instance(settings(database, tmp_path))
    cursor = instance.cursor()
    instance.retire()
    with pytest.raises(Outage):
        instance.cursor()
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    instance.release(cursor)
    with pytest.raises(Exception, match="closed"):
        instance._root.execute("SELECT 1")


def test_another_data_path_and_another_version_are_refused(database: str, tmp_path: Path) -> None:
    Instance(settings(database, tmp_path)).retire()
    with pytest.raises(UsageError, match="data path"):
        Instance(settings(database, tmp_path / "elsewhere"))
    execute(database, "UPDATE lake_main.ducklake_metadata SET value = '0.3' WHERE key = 'version'")
    with pytest.raises(UsageError, match=r"another version[^\n]*\n  reactor maintain --migrate-catalog"):
        Instance(settings(database, tmp_path))


def test_no_postgres_is_an_outage_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(Outage) as raised:
        Instance(settings("postgresql://reactor:pa%20ss@127.0.0.1:1/none", tmp_path))
    assert "pa ss" not in str(raised.value)


def test_passwords_are_kept_apart(database: str, tmp_path: Path) -> None:
    instance = Instance(settings(database.replace("reactor@", "reactor:hush%27hush@"), tmp_path))
    with instance.lent("looking") as cursor:
        seen = cursor.execute("SELECT (SELECT list(d) FROM duckdb_databases() d)::VARCHAR || (SELECT list(s) FROM duckdb_secrets() s)::VARCHAR").fetchone()
    instance.retire()
    assert "hush" not in str(seen)


def test_connection_texts() -> None:
    text, password = connection_text("postgresql://us%20er:p%40w@db.host:6543/the%2Fbase?sslmode=require&connect_timeout=3")
    assert password == "p@w"
    assert text == "host='db.host' port='6543' dbname='the/base' user='us er' connect_timeout='3' application_name='reactor' sslmode='require'"
    assert connection_text("postgres:///base") == ("dbname='base' connect_timeout='10' application_name='reactor'", None)
    with pytest.raises(UsageError, match="mysql"):
        connection_text("mysql://h/d")


def test_what_settings_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="default lake `gold`"):
        settings("postgresql://h/d", tmp_path, default="gold")


def test_limits_reach_duckdb(database: str, tmp_path: Path) -> None:
    lakes = {"main": LakeSettings(str(tmp_path / "main"))}
    lake = DuckLake(postgres_url=database, lakes=lakes, memory_limit_bytes=300_000_000, threads=1, temp_path=tmp_path / "temp")
    wanted = "SELECT current_setting('memory_limit'), current_setting('threads'), current_setting('temp_directory')"
    memory, threads, folder = Bench(lake, database).rows(wanted)[0]
    assert (memory, threads, Path(folder).parent) == ("286.1 MiB", 1, tmp_path / "temp")
    lake.close()
