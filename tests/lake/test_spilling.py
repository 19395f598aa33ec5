"""Instances that spill do not share their files, and what a crash has left goes."""

import socket
from pathlib import Path

import pytest

from reactor.lake import spilling
from reactor.lake.session import Instance, InstanceSettings, LakeSettings

SPILLED = "CREATE TEMP TABLE spilled AS SELECT range AS a, random() AS b, 'a text that takes some room ' || range AS c FROM range(2_000_000)"


def test_of_two_instances_with_one_temp_path_each_has_its_rows(database: str, tmp_path: Path) -> None:
    settings = InstanceSettings(
        database, {"main": LakeSettings(str(tmp_path / "main"))}, "main", memory_limit_bytes=100 * 2**20, threads=1, temp_path=tmp_path / "temp")
    first, second = Instance(settings), Instance(settings)
    cursor, other = first.cursor(), second.cursor()
    cursor.execute(SPILLED)
    other.execute(SPILLED)
    assert len(list((tmp_path / "temp").iterdir())) == 2
    first.release(cursor)
    first.retire()
    assert other.execute("SELECT sum(a), max(length(c)) FROM spilled").fetchall() == [(1_999_999_000_000, 35)]
    second.release(other)
    second.retire()
    assert list((tmp_path / "temp").iterdir()) == []


def test_what_a_crash_has_left_goes_and_what_others_have_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.pid_exists", lambda pid: pid == 1)
    monkeypatch.setattr("os.getpid", lambda: 7)
    host = socket.gethostname()
    names = [f".tmp-1-1-{host}", f".tmp-2-1-{host}", f".tmp-7-3-{host}", f".tmp-2-1-{host}-else", "mine"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "duckdb_temp_storage_DEFAULT-0.tmp").touch()
    found = spilling.spill_folder(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f".tmp-1-1-{host}", f".tmp-2-1-{host}-else", "mine"}
    assert found.parent == tmp_path
    assert spilling.spill_folder(tmp_path) != found
