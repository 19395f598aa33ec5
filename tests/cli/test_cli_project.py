"""What of a folder is read as a project."""

import os
from pathlib import Path

import pytest

from reactor.domain.project import SCRIPT_BYTES_MAX
from reactor.errors import UsageError
from reactor.project import open_project, path_in
from tests.cli.conftest import DAILY, NUMBERS, PROGRAM, REFUSED, WAITING, project_at


def read(folder: Path) -> set[str]:
    return set(open_project(folder, flags={}, environ={}).files)


def test_only_files_that_may_be_scripts_are_read(tmp_path: Path) -> None:
    files = {"a.sql": NUMBERS, "b/c.py": PROGRAM, "b/d.sh": "# pipeline\n", "notes.md": "x", "data.parquet": "x", "e.ts": "// pipeline\n"}
    assert read(project_at(tmp_path, None, files)) == {"a.sql", "b/c.py", "b/d.sh", "e.ts"}


def test_folders_that_hold_no_scripts_are_left_out(tmp_path: Path) -> None:
    left_out = [".git/a.py", ".reactor/a.sql", ".venv/a.py", "node_modules/a.js", "b/__pycache__/a.py", "env/lib/a.py", "tables/a.sql", ".hidden.sql"]
    project_at(tmp_path, None, dict.fromkeys([*left_out, "a.sql"], NUMBERS), ["[lakes.main]", 'data_path = "tables"'])
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert read(tmp_path) == {"a.sql"}


def test_links_lead_nowhere_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    project_at(outside, None, {"secret.sql": NUMBERS})
    folder = project_at(tmp_path / "project", None, {"a.sql": NUMBERS, "b/c.sql": NUMBERS})
    (folder / "in.sql").symlink_to(folder / "a.sql")
    (folder / "out.sql").symlink_to(outside / "secret.sql")
    (folder / "folder").symlink_to(outside, target_is_directory=True)
    (folder / "b" / "up").symlink_to(folder, target_is_directory=True)
    (folder / "gone.sql").symlink_to(folder / "nothing.sql")
    os.mkfifo(folder / "pipe.sql")
    opened = open_project(folder, flags={}, environ={})
    assert set(opened.files) == {"a.sql", "b/c.sql", "in.sql"}
    assert opened.warnings == ("out.sql: left out, it is a link to a file outside of the project",)


def test_a_large_file_is_read_to_its_limit(tmp_path: Path) -> None:
    folder = project_at(tmp_path, None, {"a.sql": NUMBERS + "-" * SCRIPT_BYTES_MAX})
    opened = open_project(folder, flags={}, environ={})
    assert len(opened.files["a.sql"]) == SCRIPT_BYTES_MAX + 1
    assert [d.code for d in opened.checked.diagnostics] == ["too-large"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = project_at(tmp_path, None, {"a.sql": NUMBERS})
    (folder / "a.sql").chmod(0)
    with pytest.raises(UsageError, match=r"a\.sql cannot be read"):
        read(folder)


def test_what_may_run_and_what_may_not(tmp_path: Path) -> None:
    folder = project_at(tmp_path, None, {"a.sql": DAILY, "waiting.sql": WAITING, "refused.sql": REFUSED, "p.py": PROGRAM})
    opened = open_project(folder, flags={}, environ={})
    assert [script.path for script in opened.project.scripts] == ["a.sql", "p.py"]
    assert opened.refused.keys() == {"refused.sql", "waiting.sql"}
    assert opened.project.producers["ducklake://main/daily"] == opened.script("a.sql").header.partitioned
    with pytest.raises(UsageError, match="not active yet"):
        opened.script("waiting.sql")
    with pytest.raises(UsageError, match="partitoned"):
        opened.script("refused.sql")
    with pytest.raises(UsageError, match="no script") as found:
        opened.script("q.py")
    assert found.value.hint == "did you mean p.py?"


def test_a_name_means_a_path_below_the_project_or_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project_at(tmp_path / "project", None, {"raw/a.sql": NUMBERS, "a.sql": NUMBERS})
    monkeypatch.chdir(folder / "raw")
    assert path_in(folder, "raw/a.sql") == "raw/a.sql"
    assert path_in(folder, "a.sql") == "a.sql"
    assert path_in(folder, "./a.sql") == "a.sql"
    assert path_in(folder, str(folder / "raw" / "a.sql")) == "raw/a.sql"
    assert path_in(folder, "new.sql") == "raw/new.sql"
    assert path_in(folder, "../../elsewhere.sql") == "../../elsewhere.sql"
    monkeypatch.chdir(tmp_path)
    assert path_in(folder, "project/raw/a.sql") == "raw/a.sql"
    assert path_in(Path("project"), "raw/a.sql") == "raw/a.sql"


def test_what_an_editor_has_not_saved_stands_for_the_file(tmp_path: Path) -> None:
    folder = project_at(tmp_path, None, {"a.sql": REFUSED})
    opened = open_project(folder, flags={}, environ={}, instead={"a.sql": NUMBERS.encode(), "b.sql": DAILY.encode()})
    assert opened.checked.exit_code == 0
    assert opened.checked.scripts.keys() == {"a.sql", "b.sql"}
