"""A project as a whole: which files are scripts, which of them may run, what fires them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.assets import ProjectNames
from reactor.domain.inactive import INACTIVE
from reactor.domain.project import SCRIPT_BYTES_MAX, Checked, check_project
from reactor.domain.scripts import ScriptPath

NAMES = ProjectNames(lakes=("main", "sales"), clusters=("eu",), stores=("land",))


def check(files: dict[str, str | bytes], names: ProjectNames = NAMES) -> Checked:
    return check_project({path: text.encode() if isinstance(text, str) else text for path, text in files.items()}, names)


def said(checked: Checked) -> list[str]:
    return [f"{f.file}:{f.range.line}:{f.range.column} {f.severity} {f.code}" for f in checked.diagnostics if f.severity != "note"]


def notes(checked: Checked) -> list[str]:
    return [f.message for f in checked.diagnostics if f.severity == "note"]


LOADER = """-- pipeline
-- on kafka://orders
-- batch order_id BIGINT, amount DECIMAL(12,2), ts TIMESTAMPTZ
-- partitioned daily event_time=$.ts
-- materialize ducklake://main/orders append
-- debounce 2s max=30s rows=100000
SELECT order_id, amount, ts FROM batch
"""
DAILY = """-- pipeline
-- on ducklake://main/orders
-- partitioned daily
-- materialize ducklake://main/orders_daily
SELECT sum(amount) AS total FROM main.orders JOIN rates USING (day) WHERE wm_partition(ts) = {partition}
"""
PROGRAM = """#!/usr/bin/env python3
# pipeline
# on ducklake://main/orders_daily
# partitioned daily
# retry 3 10s
def main(trigger: dict, partition: str) -> None: ...
"""


def test_a_sound_project() -> None:
    checked = check({"load.sql": LOADER, "mart/daily.sql": DAILY, "tell.py": PROGRAM, "README.md": "# pipeline", "lib.sql": "SELECT 1", "reactor.toml": "# on x"})
    assert (said(checked), notes(checked), checked.exit_code, checked.refused, checked.inactive, checked.dropped) == ([], [], 0, {}, {}, {})
    assert list(checked.scripts) == ["load.sql", "mart/daily.sql", "tell.py"]
    daily = checked.scripts[ScriptPath("mart/daily.sql")]
    assert [(edge.uri, edge.derived) for edge in daily.edges] == [("ducklake://main/orders", False), ("ducklake://main/rates", True)]
    assert daily.body.reads == ("ducklake://main/orders", "ducklake://main/rates")
    assert checked.scripts[ScriptPath("load.sql")].body.reads_batch
    assert checked.scripts[ScriptPath("tell.py")].language == "python"
    assert checked.lineage.order() == ("load.sql", "mart/daily.sql", "tell.py")


@pytest.mark.parametrize("path", ["x.md", "x.toml", "x.yaml", "x.json", "Makefile", "x", ".sql/x"])
def test_other_files_are_no_scripts(path: str) -> None:
    checked = check({path: "# pipeline x\n# on kafak://x"})
    assert (checked.scripts, said(checked)) == ({}, [])


def test_a_file_without_annotations_is_no_script() -> None:
    assert check({"x.sql": "-- notes\nSELECT 1", "y.py": "print(1)"}).scripts == {}


def test_a_byte_order_mark_and_line_ends_change_nothing() -> None:
    plain, twin = check({"x.sql": LOADER}), check({"x.sql": b"\xef\xbb\xbf" + LOADER.replace("\n", "\r\n").encode()})
    one, other = plain.scripts[ScriptPath("x.sql")], twin.scripts[ScriptPath("x.sql")]
    assert (one.header, one.body, one.edges) == (other.header, other.body, other.edges)


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        ("-- pipeline\n-- d\u00e9j\u00e0".encode("latin-1"), "2:5 error not-utf-8"),
        ("-- pipeline".encode("utf-16"), "1:1 error not-utf-8"),
        (b"-- pipeline\n-- a\0b", "2:5 error not-text"),
        (b"-- pipeline\n" + b"-" * SCRIPT_BYTES_MAX, "1:1 error too-large"),
    ],
)
def test_what_is_no_text_is_refused(data: bytes, finding: str) -> None:
    checked = check({"x.sql": data})
    assert (said(checked), list(checked.refused), checked.exit_code) == ([f"x.sql:{finding}"], ["x.sql"], 2)


def test_a_large_file_without_annotations_is_no_script() -> None:
    checked = check({"dump.sql": b"-- a dump\nSELECT 1\n" + b"-" * SCRIPT_BYTES_MAX})
    assert (said(checked), checked.refused) == ([], {})


def test_findings_come_in_the_order_of_the_files() -> None:
    checked = check({"b.sql": "-- retry 0\n-- tag x y", "a.sql": "-- materialize ducklake://main/t\n-- freshness soon\nDROP TABLE x; SELECT 1"})
    assert said(checked) == [
        "a.sql:2:14 error bad-value", "a.sql:3:1 error writing-statement", "b.sql:1:10 error bad-value", "b.sql:2:10 error stray-word",
    ]


def test_a_dropped_line_leaves_the_script() -> None:
    checked = check({"x.sql": "-- on ducklake://main/a\n-- freshness soon\n-- retry 0\nSELECT 1"})
    assert (checked.exit_code, checked.refused, checked.dropped) == (2, {}, {"x.sql": 2})
    assert checked.scripts[ScriptPath("x.sql")].header.freshness is None


def test_a_refused_script_leaves_the_others() -> None:
    checked = check({"x.sql": "-- materialize ducklake://main/t\nSELEC 1", "y.sql": "-- on ducklake://main/t\n-- materialize ducklake://main/u\nSELECT 1 AS id"})
    assert (list(checked.scripts), list(checked.refused)) == (["y.sql"], ["x.sql"])
    assert "SELEC 1" in checked.refused[ScriptPath("x.sql")][0]


def test_a_test_without_a_table_is_dropped() -> None:
    checked = check({"x.sql": "-- data_test unique id\nSELECT 1"})
    assert said(checked) == ["x.sql:1:4 error test-without-table"]
    assert checked.scripts[ScriptPath("x.sql")].header.data_tests == ()


def test_a_missing_hook_is_dropped() -> None:
    checked = check({"a/x.sql": "-- on_failure gone.py\n-- pre_run first.sql\n-- tag x\nSELECT 1", "a/first.sql": "SELECT 1"})
    assert said(checked) == ["a/x.sql:1:15 error unknown-on-failure"]
    header = checked.scripts[ScriptPath("a/x.sql")].header
    assert (header.on_failure, header.pre_run) == (None, "first.sql")


@pytest.mark.parametrize(
    ("mute", "edges", "findings"),
    [
        ("", ["on", "ref", "src"], []),
        ("-- mute ducklake://main/REF", ["on", "src"], []),
        ("-- mute all", ["on"], []),
        ("-- mute ducklake://main/gone", ["on", "ref", "src"], ["x.sql:3:9 warning mute-of-nothing"]),
        ("-- mute ducklake://main/on", ["on", "ref", "src"], ["x.sql:3:9 warning mute-of-on"]),
    ],
)
def test_derived_edges(mute: str, edges: list[str], findings: list[str]) -> None:
    body = 'SELECT * FROM src JOIN ref USING (id) JOIN t USING (id) JOIN main."on" USING (id)'
    checked = check({"x.sql": f"-- pipeline\n-- on ducklake://main/on\n{mute or '--'}\n-- materialize ducklake://main/t append\n{body}"})
    assert sorted(edge.uri.rpartition("/")[2] for edge in checked.scripts[ScriptPath("x.sql")].edges) == edges
    assert said(checked) == findings


def test_without_pipeline_a_body_makes_no_edges() -> None:
    checked = check({"x.sql": "-- on ducklake://main/a\n-- mute all\n-- materialize ducklake://main/t\nSELECT * FROM b"})
    assert [edge.uri for edge in checked.scripts[ScriptPath("x.sql")].edges] == ["ducklake://main/a"]
    assert said(checked) == ["x.sql:2:9 warning mute-of-nothing"]


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("-- on s3://land/x.json", "objects that land"),
        ('-- on schedule "0 6 * * *"', "native triggers"),
        ("-- on datatable://shop/t", "datatables"),
        ("-- on kafka://orders-*", "topics by a pattern"),
        ("-- on kafka://orders format=avro", "`format=` other than json and raw"),
        ("-- materialize scd2 ducklake://main/t key=id", "histories"),
        ("-- materialize manual ducklake://main/t", "`manual`"),
        ("-- materialize ducklake://main/t on_schema_change=sync", "`on_schema_change=` other than warn"),
        ("-- on ducklake://main/a\n-- on ducklake://main/b\n-- trigger all", "`trigger all`"),
        ("-- freshness 5m\n-- materialize ducklake://main/t", "`freshness`"),
        ("-- data_test unique id\n-- materialize ducklake://main/t", "`data_test`"),
        ("-- column id <- ducklake://main/a.id", "`column`"),
        ("-- incremental cdc=id\n-- materialize ducklake://main/t append", "`incremental`"),
        ("-- use lib.sql", "`use`"),
        ("-- on_failure hook.sql", "`on_failure`"),
        ("-- pre_run hook.sql", "`pre_run`"),
        ("-- read pinned", "`read pinned`"),
        ("-- macros", "`macros`"),
    ],
)
def test_what_waits_is_a_note_and_keeps_serve_from_running_it(lines: str, what: str) -> None:
    body = "CREATE MACRO one() AS 1" if "macros" in lines else "SELECT 1 AS id"
    checked = check({"x.sql": f"{lines}\n{body}", "lib.sql": "-- macros\nCREATE MACRO f() AS 1", "hook.sql": "SELECT 1"})
    assert (said(checked), checked.exit_code) == ([], 0)
    assert checked.inactive[ScriptPath("x.sql")] == (f"known, not active yet: {what}",)
    assert ScriptPath("x.sql") in checked.scripts


def test_every_feature_that_waits_is_tested() -> None:
    [mark] = [m for m in test_what_waits_is_a_note_and_keeps_serve_from_running_it.pytestmark if m.name == "parametrize"]  # type: ignore[attr-defined]
    assert {feature.feature for feature in INACTIVE} == {what for _, what in mark.args[1]}


def test_what_is_active_has_no_note() -> None:
    text = "-- on kafka://o start=latest debounce=5s\n-- batch id BIGINT, ts TIMESTAMPTZ\n-- partitioned dynamic key=$.t\n-- trigger any\n-- retry 3\n-- tag x\n"
    checked = check({"x.sql": f"{text}-- materialize ducklake://main/t key=id latest=ts\nSELECT id, ts FROM batch"})
    assert (said(checked), checked.inactive) == ([], {})


def test_a_program_needs_a_command() -> None:
    text = "// pipeline\n// on ducklake://main/a\nexport async function main() {}"
    assert list(check({"x.ts": text}).inactive) == ["x.ts"]
    assert check({"x.ts": text}, ProjectNames(runners=(".ts",))).inactive == {}
    assert list(check({"x.xyz": text}, ProjectNames(runners=(".xyz",))).scripts) == ["x.xyz"]


def test_objects_that_a_body_reads_wait_too() -> None:
    checked = check({"x.sql": "-- pipeline\n-- materialize ducklake://main/t\nSELECT * FROM read_csv('s3://land/x.csv')"})
    assert [edge.kind for edge in checked.scripts[ScriptPath("x.sql")].edges] == ["s3"]
    assert list(checked.inactive) == ["x.sql"]


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["a.sql", "b.py", "c/d.sql", "e.md", "f.ts"]), st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode))))
def test_any_files_can_be_checked(files: dict[str, bytes]) -> None:
    checked = check_project(files, NAMES)
    assert not checked.scripts.keys() & checked.refused.keys()
    assert (checked.exit_code == 2) == any(found.severity == "error" for found in checked.diagnostics)
    assert {found.file for found in checked.diagnostics} <= files.keys()
