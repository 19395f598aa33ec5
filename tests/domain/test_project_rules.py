"""Rules that need more than one line: beside another line, the body, another file, another script."""

import pytest

from reactor.domain.assets import ProjectNames
from reactor.domain.project import Checked, check_project
from reactor.domain.scripts import ScriptPath

NAMES = ProjectNames(lakes=("main", "sales"), clusters=("eu",), stores=("land",))


def check(files: dict[str, str]) -> Checked:
    return check_project({path: text.encode() for path, text in files.items()}, NAMES)


def said(checked: Checked) -> list[str]:
    return [f"{f.range.line}:{f.range.column} {f.severity} {f.code}" for f in checked.diagnostics if f.severity != "note"]


MADE = "-- materialize ducklake://main/t"


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (f"-- on kafka://o\n{MADE}\nSELECT id FROM batch", ["2:4 error replace-from-kafka"]),
        (f"-- on kafka://o\n{MADE}\n-- on kafka://p\nSELECT 1 AS id", ["2:4 error replace-from-kafka"]),
        (f"-- on kafka://o\n{MADE} append\nSELECT id FROM batch", []),
        (f"-- on s3://land/x.json\n{MADE}\nSELECT id FROM landing", []),
        (f"-- on kafka://o\n{MADE} key=id\nSELECT id FROM batch", ["2:34 warning key-unguarded"]),
        (f"-- on kafka://o\n{MADE} key=id latest=ts\nSELECT id, ts FROM batch", []),
        (f"-- on kafka://o\n{MADE} key=id\nSELECT id FROM batch QUALIFY row_number() OVER (PARTITION BY id) = 1", []),
        (f"-- on kafka://o\n{MADE} key=id\nSELECT id, max(v) AS v FROM batch GROUP BY id", []),
        (f"-- on kafka://o format=debezium\n{MADE} key=id\nSELECT id FROM batch", []),
        (f"{MADE}\nSELECT id FROM batch", ["2:16 error batch-unfed"]),
        (f"-- on ducklake://main/a\n{MADE}\nSELECT id FROM batch", ["3:16 error batch-unfed"]),
        (f"-- on webhook\n{MADE} append\nSELECT id FROM batch", []),
        (f"-- on kafka://o\n{MADE} append\nSELECT id FROM landing", ["3:16 error landing-unfed"]),
        (f"-- on kafka://o\n-- on s3://land/x\n{MADE} append\nSELECT id FROM batch", ["4:16 error batch-undeclared"]),
        (f"-- on kafka://o\n-- on s3://land/x\n-- batch id BIGINT\n{MADE} append\nSELECT id FROM batch", []),
        ("-- materialize scd2 ducklake://main/t key=id\n-- partitioned daily\nSELECT 1 AS id", ["2:4 error history-in-slices"]),
        ("-- on kafka://o\n-- materialize scd2 ducklake://main/t key=id deletes=close\nSELECT id FROM batch", ["2:46 error deletes-from-batch"]),
        ("-- materialize scd2 ducklake://main/t key=id deletes=close\nSELECT 1 AS id", []),
        ("-- data_test unique id\n-- data_test unique v\nSELECT 1", ["1:4 error test-without-table", "2:4 error test-without-table"]),
        ("-- data_test unique id\n-- materialize ducklake://main/t append key=\nSELECT 1", ["2:41 error missing"]),
        ("-- materialize manual ducklake://main/t\n-- data_test unique id\nSELECT 1", ["2:4 error test-of-manual"]),
        ("-- freshness 5m\nSELECT 1", ["1:4 warning freshness-without-table"]),
        ("-- trigger all at_least=3\n-- on ducklake://main/a\n-- on ducklake://main/b\nSELECT 1", ["1:16 error join-never-fires"]),
        ("-- trigger all at_least=3\n-- on ducklake://main/a\n-- on ducklake://main/b\n-- on c\nSELECT 1", ["4:7 error bad-value"]),
        ("-- trigger all\n-- on ducklake://main/a\nSELECT 1", ["1:12 warning join-of-one"]),
        ("-- trigger all\n-- on ducklake://main/a\n-- on kafka://o\nSELECT 1", ["1:12 error join-of-stream"]),
        ("-- trigger all\n-- on ducklake://main/a\n-- on webhook\nSELECT 1", ["1:12 error join-of-stream"]),
        (f"{MADE}\n-- incremental cdc=id\nSELECT 1 AS id", ["2:4 error increment-of-replace"]),
        ("-- incremental cdc=id\nSELECT 1 AS id", ["1:4 error increment-of-replace"]),
        (f"{MADE} append\n-- incremental cdc=id lookback=1h\nSELECT 1 AS id", ["2:23 error increment-of-append"]),
        (f"{MADE} append\n-- incremental cdc=u\nSELECT id FROM a", ["2:20 error column-missing"]),
        (f"{MADE} key=k\n-- incremental cdc=u\nSELECT u FROM a", ["1:38 error column-missing"]),
        (f"{MADE} append\n-- incremental cdc=u\nSELECT * FROM a", []),
        (f"{MADE} key=k\n-- incremental cdc=u\nSELECT k, max(u) AS u FROM a GROUP BY k", ["3:1 error rows-mixed"]),
        (f"{MADE} append\n-- incremental cdc=u\nSELECT u FROM a LIMIT 5", ["3:1 error rows-mixed"]),
        (f"{MADE}\nSELECT {{partition}} AS p", ["2:8 error no-slice"]),
        (f"{MADE}\nSELECT '{{partition}}' AS p", ["2:9 error no-slice"]),
        (f"{MADE}\n-- partitioned daily\nSELECT {{partition}} AS p, $WM_PARTITION_START AS s, wm_partition(ts) AS w FROM a", []),
        (f"{MADE}\n-- partitioned dynamic key=$.a\nSELECT {{partition}} AS p, $WM_PARTITION_END AS e", ["3:26 error no-window"]),
        (f"{MADE}\nSELECT wm_partition(ts) AS w FROM a", ["2:8 error no-window"]),
        (f"{MADE}\n-- partitioned dialy\nSELECT {{partition}} AS p", ["2:16 error unknown-value"]),
        (f"-- macros\n{MADE}\nCREATE MACRO f() AS 1; SELECT 1", ["1:4 error library-with-table"]),
        ("-- macros\nSELECT 1", ["1:4 error no-library"]),
        ("-- macros\nCREATE MACRO f() AS 1; SELECT 1", ["1:4 error no-library"]),
        ("-- macros\nLOAD spatial; CREATE MACRO f() AS 1", []),
    ],
)
def test_a_header_beside_itself_and_its_body(text: str, findings: list[str]) -> None:
    checked = check({"x.sql": text})
    assert said(checked) == findings
    dropped = {"test-without-table", "bad-value"}
    errors = {found.split()[2] for found in findings if "error" in found}
    assert bool(checked.refused) == bool(errors - dropped)


@pytest.mark.parametrize("name", ["x.py", "x.sh", "x.ts"])
def test_only_sql_is_managed(name: str) -> None:
    checked = check({name: "# materialize ducklake://main/t\n"})
    assert said(checked) == ["1:15 error unmanaged-language"]
    [message] = checked.refused[ScriptPath(name)]
    assert "materialize manual" in message
    assert "land" in message
    assert said(check({name: "# materialize manual ducklake://main/t\n"})) == []


def test_both_ways_out_of_a_replace_from_kafka_are_named() -> None:
    [found] = check({"x.sql": f"-- on kafka://o\n{MADE}\nSELECT id FROM batch"}).diagnostics
    assert all(way in found.message for way in ("`append`", "`key=`", "land", "landed table"))


USER = "-- use lib/money.sql\n-- tag x\nSELECT 1"


@pytest.mark.parametrize(
    ("files", "findings"),
    [
        ({"x.sql": USER}, ["1:8 error unknown-file"]),
        ({"x.sql": USER, "lib/money.sql": "SELECT 1"}, ["1:8 error no-library"]),
        ({"x.sql": USER, "lib/money.sql": "-- macros\nCREATE MACRO f() AS 1"}, []),
        ({"a/x.sql": USER, "a/lib/money.sql": "-- macros\nCREATE MACRO f() AS 1"}, []),
        ({"x.sql": f"{MADE}\n-- data_test lib/rows\nSELECT 1 AS id"}, ["2:14 error unknown-file"]),
        ({"x.sql": f"{MADE}\n-- data_test lib/rows\nSELECT 1 AS id", "lib/rows.sql": "-- note\nSELECT * FROM _wm_target.t WHERE id < 0"}, []),
        ({"x.sql": f"{MADE}\n-- data_test lib/rows\nSELECT 1 AS id", "lib/rows.sql": "SELECT 1; SELECT * FROM _wm_target.t"}, ["2:14 error no-test"]),
        ({"x.sql": f"{MADE}\n-- data_test lib/rows\nSELECT 1 AS id", "lib/rows.sql": "SELECT 1"}, ["2:14 error no-test"]),
        ({"x.sql": f"{MADE}\n-- data_test lib/rows\nSELECT 1 AS id", "lib/rows.sql": "'open"}, ["2:14 error no-test"]),
        ({"x.sql": f"{MADE}\n-- data_test lib/rows.py\nSELECT 1 AS id", "lib/rows.py": "SELECT 1"}, ["2:14 error no-test"]),
        ({"x.sql": f"{MADE}\n-- data_test lib/rows.sql\nSELECT 1 AS id", "lib/rows.sql": "DELETE FROM _wm_target.t"}, ["2:14 error no-test"]),
    ],
)
def test_files_that_a_header_names(files: dict[str, str], findings: list[str]) -> None:
    assert said(check(files)) == findings


def test_a_file_that_is_almost_there_is_suggested() -> None:
    checked = check({"x.sql": "-- on_failure tel.py\nSELECT 1", "tell.py": "print(1)"})
    assert [found.suggestion for found in checked.diagnostics if found.severity == "error"] == ["tell.py"]


def maker(name: str, *lines: str) -> str:
    return "\n".join([*(f"-- {line}" for line in lines), f"-- materialize ducklake://main/{name}", "SELECT 1 AS id"])


def test_a_circle_refuses_all_its_scripts_and_prints_the_path() -> None:
    checked = check({
        "a.sql": maker("a", "on ducklake://main/c"), "b.sql": maker("b", "on ducklake://main/a"), "c.sql": maker("c", "tag x", "on ducklake://main/b"),
        "d.sql": maker("d", "on ducklake://main/c"),
    })
    assert list(checked.refused) == ["a.sql", "b.sql", "c.sql"]
    assert all("cycle a.sql -> b.sql -> c.sql -> a.sql" in found.message for found in checked.diagnostics)
    assert said(checked) == ["1:7 error cycle", "1:7 error cycle", "2:7 error cycle"]
    assert list(checked.scripts) == ["d.sql"]


def test_a_derived_edge_closes_a_circle_and_a_muted_one_does_not() -> None:
    reads = "-- pipeline\n-- materialize ducklake://main/a\nSELECT * FROM b"
    other = maker("b", "on ducklake://main/a")
    assert list(check({"a.sql": reads, "b.sql": other}).refused) == ["a.sql", "b.sql"]
    assert check({"a.sql": f"-- mute ducklake://main/b\n{reads}", "b.sql": other}).refused == {}
    assert check({"a.sql": reads.replace("-- pipeline\n", ""), "b.sql": other}).refused == {}


def test_a_script_that_listens_to_its_own_table_is_refused() -> None:
    checked = check({"a.sql": maker("a", "on ducklake://main/A")})
    assert said(checked) == ["1:7 error cycle"]
    assert "`a.sql` is fired by the table it makes" in checked.diagnostics[0].message
    assert check({"a.sql": "-- pipeline\n-- materialize ducklake://main/a append\nSELECT * FROM src ANTI JOIN a USING (id)"}).refused == {}


def test_two_managed_producers_are_both_refused_and_named() -> None:
    checked = check({"a.sql": maker("t"), "b.sql": maker("T"), "c.py": "# materialize manual ducklake://main/t"})
    assert list(checked.refused) == ["a.sql", "b.sql"]
    assert "`b.sql`" in checked.refused[next(iter(checked.refused))][0]
    assert said(checked) == ["1:16 error two-producers", "1:16 error two-producers"]


def test_a_current_view_has_its_name_for_itself() -> None:
    history = "-- materialize scd2 ducklake://main/dim key=id\nSELECT 1 AS id"
    checked = check({"dim.sql": history, "x.sql": maker("dim_current")})
    assert list(checked.refused) == ["x.sql"]
    assert "`dim.sql`" in checked.diagnostics[-1].message
    assert check({"dim.sql": maker("dim"), "x.sql": maker("dim_current")}).refused == {}


@pytest.mark.parametrize(
    ("upstream", "downstream", "refused"),
    [
        ("partitioned dynamic key=$.t", "partitioned daily", True), ("partitioned hourly", "partitioned dynamic key=$.t", True),
        ("partitioned dynamic key=$.t", "partitioned dynamic key=$.u", False), ("partitioned hourly", "partitioned monthly", False),
        ("partitioned dynamic key=$.t", "tag x", False), ("tag x", "partitioned dynamic key=$.t", False),
    ],
)
def test_keys_and_times_do_not_map(upstream: str, downstream: str, refused: bool) -> None:
    checked = check({"a.sql": maker("a", upstream), "b.sql": maker("b", downstream, "on ducklake://main/a")})
    assert said(checked) == (["2:7 error grain"] if refused else [])
    assert list(checked.refused) == (["b.sql"] if refused else [])


def test_a_type_that_no_payload_gives_is_refused() -> None:
    text = "-- on kafka://o\n-- batch id BIGINT, raw BLOB\n-- materialize ducklake://main/t append\nSELECT id FROM batch"
    checked = check_project({"x.sql": text.encode()}, NAMES, undecodable=lambda spelt: "JSON has no bytes" if spelt == "BLOB" else None)
    assert said(checked) == ["2:25 error undecodable-type"]


@pytest.mark.parametrize(("lines", "code"), [
    (["-- on kafka://a format=raw", "-- batch id BIGINT"], "columns-of-bytes"),
    (["-- on kafka://a format=raw", "-- on kafka://b"], "mixed-formats"),
    (["-- on kafka://a format=raw", "-- partitioned dynamic key=$.k"], "path-into-bytes"),
    (["-- on kafka://a format=raw", "-- partitioned daily event_time=$.ts"], "path-into-bytes"),
])  # fmt: skip
def test_bytes_have_no_members(lines: list[str], code: str) -> None:
    text = "\n".join(["-- pipeline", *lines, "-- materialize ducklake://main/t append", "SELECT value FROM batch"])
    checked = check_project({"x.sql": text.encode()}, ProjectNames(clusters=("main",)))
    assert code in {found.code for found in checked.diagnostics}
    assert checked.refused
