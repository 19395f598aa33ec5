"""`reactor check` and `reactor init`."""

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reactor.lake.decoding.types import decodable
from reactor.project import PLAIN_TYPES, undecodable
from tests.cli.conftest import DAILY, NUMBERS, REFUSED, WAITING, Reactor, project_at

Offline = Callable[[Mapping[str, str]], Path]
WARNED = "-- materialize ducklake://main/warned\n-- materialize ducklake://main/other\nSELECT 1 AS n\n"


def files_below(folder: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_wrong_says_nothing(reactor: Reactor, offline: Offline) -> None:
    folder = offline({"a.sql": NUMBERS, "b.sql": DAILY})
    before = files_below(folder)
    said = reactor("check", "--project", folder)
    assert (said.exit_code, said.out) == (0, "")
    assert said.err == "2 scripts: 0 errors, 0 warnings, 0 notes\n"
    assert reactor("check", "--json", "--project", folder).data == []
    assert files_below(folder) == before


def test_a_file_that_is_named_and_is_no_script_is_said(reactor: Reactor, offline: Offline) -> None:
    folder = offline({"a.sql": NUMBERS, "lib/helper.py": "def help(): ...\n"})
    said = reactor("check", folder / "lib/helper.py", "--project", folder)
    assert said.exit_code == 0
    assert "lib/helper.py is no script: it does not begin with a header" in said.err
    assert "no script" not in reactor("check", folder / "lib", folder / "a.sql", "--project", folder).err


def test_an_error_is_said_as_editors_jump_to_it(reactor: Reactor, offline: Offline) -> None:
    said = reactor("check", "--project", offline({"raw/a.sql": REFUSED}))
    assert said.exit_code == 2
    assert said.out == "raw/a.sql:1:4: error: `partitoned` is no keyword; did you mean `partitioned`? [misspelt]\n"
    assert said.err == "1 script: 1 error, 0 warnings, 0 notes\n"


def test_as_json_with_the_ranges_of_editors(reactor: Reactor, offline: Offline) -> None:
    """Lines and characters from 0, characters in UTF-16 units, a byte order mark is none."""
    folder = offline({"a.sql": "\ufeff-- \U0001f600 prose\n-- on \U0001f600://x\n-- partitoned daily\n-- materialize ducklake://main/a\nSELECT 1 AS n\n"})
    said = reactor("check", "--json", "--project", folder)
    assert said.exit_code == 2
    found = {d["code"]: d for d in said.data}
    assert found["misspelt"] == {
        "file": "a.sql", "range": {"start": {"line": 2, "character": 3}, "end": {"line": 2, "character": 13}}, "severity": "error",
        "code": "misspelt", "message": "`partitoned` is no keyword; did you mean `partitioned`?", "suggestion": "partitioned",
    }  # fmt: skip
    line = [d for d in said.data if d["range"]["start"]["line"] == 1]
    assert line[0]["range"] == {"start": {"line": 1, "character": 6}, "end": {"line": 1, "character": 12}}


def test_paths_say_what_is_wanted_and_nothing_else(reactor: Reactor, offline: Offline) -> None:
    folder = offline({"raw/a.sql": REFUSED, "marts/b.sql": NUMBERS})
    assert reactor("check", "marts", "--project", folder).exit_code == 0
    assert reactor("check", "marts/b.sql", "--project", folder).exit_code == 0
    assert reactor("check", "raw", "marts", "--project", folder).exit_code == 2
    unknown = reactor("check", "mart", "--project", folder)
    assert (unknown.exit_code, "mart" in unknown.err) == (2, True)


def test_a_path_is_judged_as_part_of_the_project_that_it_lies_in(reactor: Reactor, offline: Offline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = offline({"raw/a.sql": REFUSED, "marts/b.sql": NUMBERS})
    other = project_at(tmp_path / "other", None, {"c.sql": REFUSED})
    outside = tmp_path / "outside"
    outside.mkdir()
    for here, path in ((folder.parent, folder.name), (folder.parent, f"{folder.name}/raw/a.sql"), (outside, str(folder)), (other, str(folder))):
        monkeypatch.chdir(here)
        said = reactor("check", path)
        assert (said.exit_code, said.out.splitlines()) == (2, reactor("check", "--project", folder).out.splitlines()), (here, path)
        assert "is taken as the project" not in said.err
    assert reactor("check", folder / "marts").exit_code == 0
    several = reactor("check", folder, other)
    assert (several.exit_code, "more than one project" in several.err) == (2, True)
    monkeypatch.chdir(folder / "raw")
    assert reactor("check", "marts/b.sql").exit_code == 0, "as the project names it, from anywhere within"


def test_the_demo_s_scripts_have_no_fault(reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert reactor("check", "examples/orders", "--fail-on", "warn").exit_code == 0


def test_a_text_from_stdin_stands_for_its_file(reactor: Reactor, offline: Offline, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = offline({"a.sql": NUMBERS, "b.sql": REFUSED})
    monkeypatch.chdir(folder)

    def typed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    typed(REFUSED)
    said = reactor("check", "--json", "--stdin", "--file", "a.sql")
    assert (said.exit_code, {d["file"] for d in said.data}) == (2, {"a.sql"})
    typed(NUMBERS.replace("numbers", "others"))
    assert reactor("check", "--json", "--stdin", "--file", "new.sql").data == []
    typed(NUMBERS)
    assert reactor("check", "--stdin", "--file", "new.sql").exit_code == 2, "two scripts make one table"
    assert reactor("check", "--stdin").exit_code == 2
    assert reactor("check", "--file", "a.sql").exit_code == 2
    assert (folder / "a.sql").read_text() == NUMBERS


def test_a_warning_fails_only_if_asked_for(reactor: Reactor, offline: Offline) -> None:
    folder = offline({"a.sql": WARNED})
    said = reactor("check", "--project", folder)
    assert (said.exit_code, "warning" in said.out) == (0, True)
    assert reactor("check", "--fail-on", "warn", "--project", folder).exit_code == 1
    assert reactor("check", "--fail-on", "note", "--project", folder).exit_code == 2


def test_what_waits_for_a_feature_is_a_note(reactor: Reactor, offline: Offline) -> None:
    said = reactor("check", "--fail-on", "warn", "--project", offline({"a.sql": WAITING}))
    assert said.exit_code == 0
    assert "a.sql:2:4: note: known, not active yet: `freshness` [not-active]" in said.out


def test_a_setting_that_waits_for_a_feature_is_a_warning(reactor: Reactor, offline: Offline) -> None:
    folder = offline({"a.sql": NUMBERS})
    (folder / "reactor.toml").write_text("[alerting]\nalertmanager_url = 'http://127.0.0.1:9093'\n")
    assert "not active yet" in reactor("check", "--project", folder).err
    assert "not active yet" in reactor("check", "--json", "--project", folder).answer["warnings"][0]


def test_init_writes_a_project_that_passes(reactor: Reactor, tmp_path: Path) -> None:
    said = reactor("init", tmp_path / "shop", "--json")
    assert said.exit_code == 0
    assert set(said.data["files"]) == {str(path.relative_to(tmp_path / "shop")) for path in files_below(tmp_path / "shop")}
    listed = reactor("list", "--json", "--project", tmp_path / "shop").data["scripts"]
    assert {line["script"]: (line["state"], line["strategy"]) for line in listed} == {
        "export/notify.py": ("active", None), "marts/orders_daily.sql": ("active", "replace"), "raw/orders.sql": ("active", "append"),
    }  # fmt: skip
    checked = reactor("check", "--json", "--fail-on", "warn", "--project", tmp_path / "shop")
    assert (checked.exit_code, checked.data, checked.answer["warnings"]) == (0, [], [])


def test_init_overwrites_nothing(reactor: Reactor, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "orders.sql").write_text("mine")
    said = reactor("init", tmp_path)
    assert (said.exit_code, "raw/orders.sql" in said.err) == (1, True)
    assert files_below(tmp_path) == {tmp_path / "raw" / "orders.sql": b"mine"}


def test_init_where_nothing_can_be_written(reactor: Reactor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert reactor("init", tmp_path / "file" / "shop").exit_code == 2


def test_a_type_that_no_payload_can_have_is_refused_where_it_stands(tmp_path: Path, reactor: Reactor) -> None:
    text = "-- on kafka://main/in\n-- batch a DECIMAL(12,2), b BLOB\n-- materialize ducklake://main/t append\nSELECT a FROM batch\n"
    said = reactor("check", "--project", project_at(tmp_path / "project", None, {"t.sql": text}))
    assert (said.exit_code, "t.sql:2:" in said.out + said.err, "JSON has no bytes" in said.out + said.err) == (2, True, True)


@pytest.mark.parametrize("type_", sorted(PLAIN_TYPES | {"DECIMAL(12,2)", "DECIMAL(9, 9)", "BIGINT[]", "STRUCT(x INTEGER)"}))
def test_what_is_taken_for_plain_can_be_decoded(type_: str) -> None:
    assert (undecodable(type_), decodable(type_)) == (None, None)


@pytest.mark.parametrize("type_", ["DECIMAL(50,2)", "BLOB", "BLOB[]", "NOTHING"])
def test_others_are_asked_about(type_: str) -> None:
    assert undecodable(type_) == decodable(type_) is not None
