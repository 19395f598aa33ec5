"""A COMMIT whose answer is lost: DuckLake deletes what it wrote, and the lake has it all the same (commit.md 7)."""

import asyncio
import os
import random
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reactor.domain.runs import Strategy
from reactor.errors import Outage, UsageError
from reactor.lake.ducklake import DuckLake
from reactor.lake.keep import KEEP_SECONDS, Keep, Kept
from reactor.lake.materialize import StagedRun
from reactor.lake.session import LakeSettings
from tests.conftest import had
from tests.lake.driving import DYNAMIC, Bench, a_run, managed, orders, raw_span
from tests.parts.cut_commit import CommitCutter
from tests.parts.postgres import value
from tests.parts.read_only import read_only


@contextmanager
def cutter(url: str) -> Iterator[CommitCutter]:
    """The proxy, on an event loop of its own: the lake blocks."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = CommitCutter(url)
    asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result()
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(proxy.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def lakes(folder: Path) -> dict[str, LakeSettings]:
    return {"main": LakeSettings(str(folder / "main"))}


@pytest.fixture
def cut(database: str, tmp_path: Path) -> Iterator[tuple[Bench, CommitCutter]]:
    """A lake that reaches PostgreSQL through the proxy."""
    with cutter(database) as proxy:
        lake = DuckLake(postgres_url=proxy.url, lakes=lakes(tmp_path), threads=1)
        yield Bench(lake, database), proxy
        lake.close()


def runs_of(bench: Bench) -> int:
    return int(str(value(bench.url, "SELECT count(*) FROM lake_main.ducklake_snapshot_changes WHERE commit_extra_info LIKE '%\"run\"%'")))


def lost(bench: Bench, proxy: CommitCutter, staged: StagedRun, side: str = "after") -> None:
    before = runs_of(bench)
    staged.write(a_run())
    proxy.arm(side)  # type: ignore[arg-type]
    with pytest.raises(Outage):
        staged.commit()
    assert runs_of(bench) - before == (side == "after")


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / ".main.keep").rglob("*.parquet"))


COLUMNS = [("k", "VARCHAR"), ("v", "INTEGER")]


def test_every_kind_of_write_is_whole_after_a_lost_answer(cut: tuple[Bench, CommitCutter], tmp_path: Path) -> None:
    bench, proxy = cut
    append = managed("SELECT k, v FROM batch", "append", batch=COLUMNS)
    merge = managed("SELECT 'a' AS k, 20 AS v UNION ALL SELECT 'c', 3", "merge", key=["k"])
    replace = managed("SELECT 'z' AS k, {partition} AS p", asset="ducklake://main/odd$name", partitioned=DYNAMIC)
    steps = [
        bench.lake.stage(orders(append, raw_span([b'{"k":"a","v":1}', b'{"k":"b","v":2}', b"{"]))[0]),
        None, bench.stage(replace, "a b/ž"), None,
    ]  # fmt: skip
    for step in steps:
        staged = step or bench.stage(merge)
        lost(bench, proxy, staged)
        assert kept(tmp_path)
        staged.settled(committed=True)
        staged.close()
        assert not kept(tmp_path)
    assert bench.texts("SELECT k, v FROM t") == [["a", "20"], ["b", "2"], ["c", "3"]]
    assert bench.rows("SELECT reason, value FROM _reactor_quarantine") == [("not_json", b"{")]
    assert bench.rows('SELECT k, p FROM "odd$name"') == [("z", "a b/ž")]


def test_a_lost_commit_leaves_nothing_and_is_written_again(cut: tuple[Bench, CommitCutter], tmp_path: Path) -> None:
    bench, proxy = cut
    staged = bench.stage(managed("SELECT 1 AS a", "append"))
    lost(bench, proxy, staged, "before")
    staged.settled(committed=False)
    assert not kept(tmp_path)
    assert not list((tmp_path / "main").rglob("*.parquet"))
    staged.write(a_run())
    staged.commit()
    staged.settled(committed=True)
    assert bench.rows("SELECT * FROM t") == [(1,)]


def test_the_next_start_repairs_what_a_crash_left(cut: tuple[Bench, CommitCutter], tmp_path: Path) -> None:
    bench, proxy = cut
    lost(bench, proxy, bench.stage(managed("SELECT range AS a FROM range(10)")))
    assert not list((tmp_path / "main").rglob("*.parquet"))
    again = DuckLake(postgres_url=bench.url, lakes=lakes(tmp_path))
    assert Bench(again, bench.url).rows("SELECT count(*), sum(a) FROM t") == [(10, 45)]
    (folder,) = (tmp_path / ".main.keep").iterdir()
    os.utime(folder, (folder.stat().st_mtime - KEEP_SECONDS - 1,) * 2)
    assert (again.sweep(), kept(tmp_path)) == (0, [])
    again.close()


def test_a_commit_that_nobody_waits_for_any_more_is_looked_after(cut: tuple[Bench, CommitCutter], tmp_path: Path) -> None:
    """Its instance was given up meanwhile, and the answer is lost when COMMIT comes back at last."""
    bench, proxy = cut
    staged = bench.stage(managed("SELECT 1 AS a"))
    staged.write(a_run())
    bench.lake.rebuild()
    proxy.arm("after")
    with pytest.raises(Outage):
        staged.commit()
    assert bench.rows("SELECT * FROM t") == [(1,)]
    assert kept(tmp_path)  # for nobody has said how the run ended
    staged.settled(committed=True)
    assert not kept(tmp_path)
    staged.close()


def test_the_mutant_that_keeps_no_files_loses_them(cut: tuple[Bench, CommitCutter], tmp_path: Path) -> None:
    bench, proxy = cut
    bench.lake._keeps.clear()
    staged = bench.stage(managed("SELECT 1 AS a"))
    lost(bench, proxy, staged)
    staged.settled(committed=True)
    assert not list((tmp_path / "main").rglob("*.parquet"))
    with pytest.raises(Exception, match="parquet"):
        bench.rows("SELECT * FROM t")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_random_cuts(cut: tuple[Bench, CommitCutter], tmp_path: Path, seed: int) -> None:
    """Whatever is lost when: rows are exact, every table can be read, nothing is left behind (OP-15)."""
    bench, proxy = cut
    dice, rows = random.Random(seed), {"appended": [0] * 5, "replaced": [0] * 5, "merged": [0] * 5}
    for turn in range(40):
        table, slot = dice.choice(list(rows)), dice.randrange(5)
        strategy: Strategy = {"appended": "append", "replaced": "replace", "merged": "merge"}[table]  # type: ignore[assignment]
        script = managed(f"SELECT {slot} AS k, {turn} AS v", strategy, key=["k"], partitioned=DYNAMIC, asset=f"ducklake://main/{table}")
        staged, done = bench.stage(script, str(slot)), False
        while not done:
            side = dice.choice(["after", "before", ""])
            before = runs_of(bench)
            staged.write(a_run())
            if side:
                proxy.arm(side)  # type: ignore[arg-type]
            with suppress(Outage):
                staged.commit()
            done = runs_of(bench) > before
            staged.settled(committed=done)
        staged.close()
        rows[table][slot] = rows[table][slot] + 1 if table == "appended" else 1
    for table, counts in rows.items():
        found = dict(bench.rows(f"SELECT k, count(*) FROM {table} GROUP BY k"))
        assert found == {k: n for k, n in enumerate(counts) if n}
    assert not kept(tmp_path)


NEW = "ducklake-01a22914-0930-770d-a93a-f1dc8befab88.parquet"
NEWER_DELETES = "ducklake-01a22914-0931-770d-a93a-f1dc8befab88-delete.parquet"
OLD = "ducklake-01a22913-0930-770d-a93a-f1dc8befab88.parquet"


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    (tmp_path / "lake" / "main" / "t").mkdir(parents=True)
    for name in (NEW, NEWER_DELETES, OLD, "other.parquet"):
        (tmp_path / "lake" / "main" / "t" / name).write_text(name)
    return Keep(tmp_path / "lake", tmp_path / "keep")


def hold(keep: Keep) -> Kept:
    return keep.hold(a_run(), ["main/t", "main/t", "main/none"], int("01a229140930", 16) / 1000)


def test_only_new_files_are_held(keep: Keep) -> None:
    assert {file.name for file in hold(keep).files} == {NEW, NEWER_DELETES}


def test_only_what_the_catalog_names_comes_back(keep: Keep, tmp_path: Path) -> None:
    held, folder = hold(keep), tmp_path / "lake" / "main" / "t"
    assert keep.restore(held, lambda names: names) == 0
    (folder / NEW).unlink()
    (folder / NEWER_DELETES).unlink()
    assert keep.restore(held, lambda names: {NEW} & set(names)) == 1
    assert (folder / NEW).read_text() == NEW
    assert not (folder / NEWER_DELETES).exists()
    keep.drop(held)
    assert not held.folder.exists()


def test_where_files_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    with pytest.raises(UsageError, match="inside the lake's data path"):
        Keep(tmp_path / "lake", tmp_path / "lake" / "keep")
    if Path("/dev/shm").is_dir() and Path("/dev/shm").stat().st_dev != tmp_path.stat().st_dev:  # noqa: S108 - another file system
        folder = Path("/dev/shm") / f"reactor-{os.getpid()}"  # noqa: S108 - another file system
        with pytest.raises(UsageError, match="same file system"):
            Keep(tmp_path / "lake", folder)
        folder.rmdir()


def test_a_folder_that_cannot_be_written_now_is_waited_for(keep: Keep, tmp_path: Path) -> None:
    held = hold(keep)
    (tmp_path / "lake" / "main" / "t" / NEW).unlink()
    with had(read_only(tmp_path / "lake")):
        with pytest.raises(Outage, match="lake cannot be written"):
            Keep(tmp_path / "lake", tmp_path / "keep")
        with pytest.raises(Outage, match="linked back"):
            keep.restore(held, lambda names: names)
    assert keep.restore(held, lambda names: names) == 1


def test_links_that_another_replica_drops_meanwhile_keep_nobody_from_its_start(keep: Keep, tmp_path: Path) -> None:
    held = hold(keep)
    (tmp_path / "lake" / "main" / "t" / NEW).unlink()

    def named(_: Collection[str]) -> Collection[str]:
        keep.drop(held)
        return ()

    assert keep.sweep(named) == 0


def test_what_another_replica_has_linked_back_meanwhile_is_there(keep: Keep, tmp_path: Path) -> None:
    held, file = hold(keep), tmp_path / "lake" / "main" / "t" / NEW
    file.unlink()

    def named(names: Collection[str]) -> Collection[str]:
        os.link(held.folder / "main" / "t" / NEW, file)
        return names

    keep.restore(held, named)
    assert file.read_text() == NEW


def test_replicas_of_one_process_id_prove_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake").mkdir()
    link = os.link

    def while_another_one_does(probe: Path, to: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        link(probe, to)
        Keep(tmp_path / "lake", tmp_path / "keep")

    monkeypatch.setattr(os, "link", while_another_one_does)
    Keep(tmp_path / "lake", tmp_path / "keep")
    assert not list(tmp_path.rglob(".reactor-probe*"))
