"""The given cases of managed strategies and of schema drift, against staged runs alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reactor.domain.runs import Strategy
from reactor.domain.scripts import Script
from reactor.errors import ReactorError
from tests.cases.files import read_kinds
from tests.lake.driving import DAILY, Bench, Ran, managed

pytestmark = pytest.mark.long  # the same cases go through the whole product in tests/cases
KINDS = {kind.name: kind for kind in read_kinds(Path(__file__).parents[1] / "cases")}
Case = dict[str, Any]


def cases(kind: str, has_its_row: Any) -> list[Any]:
    return [pytest.param(case, id=str(case["id"])) for case in KINDS[kind].cases if has_its_row(case)]


@pytest.fixture
def shared(module_bench: Bench) -> Bench:
    """Without the tables of the case before."""
    for name in ("t", "src"):
        module_bench.rows(f"DROP TABLE IF EXISTS lake_main.main.{name}")
    return module_bench


def make_source(bench: Bench, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
    bench.rows(f"CREATE OR REPLACE TABLE lake_main.main.src ({', '.join(columns)})")
    for row in rows:
        cells = ", ".join("NULL" if cell is None else "'" + cell.replace("'", "''") + "'" for cell in row)
        bench.rows(f"INSERT INTO lake_main.main.src VALUES ({cells})")


def script_of(line: str, *, partitioned: bool) -> Script:
    words = line.split()[2:]
    options = dict(word.split("=", 1) for word in words if "=" in word)
    strategy: Strategy = "append" if "append" in words else "merge" if "key" in options else "replace"
    key = options["key"].split(",") if "key" in options else ()
    return managed("SELECT * FROM main.src", strategy, key=key, latest=options.get("latest"), partitioned=DAILY if partitioned else None)


def as_set(rows: Sequence[Sequence[str | None]]) -> list[list[str | None]]:
    return sorted(([*row] for row in rows), key=lambda row: [(cell is not None, cell) for cell in row])


@pytest.mark.parametrize("case", cases("materialize", lambda c: "scd2" not in c["materialize"] and "history" not in c["materialize"].split()))
def test_materialize(shared: Bench, case: Case) -> None:
    bench = shared
    script = script_of(case["materialize"], partitioned="partitioned" in case)
    columns = [column.split()[0] for column in case["columns"]]
    for run in case["runs"]:
        make_source(bench, case["columns"], run["src"])
        before = bench.snapshot()
        if "error" in run:
            kept = tables(bench)
            with pytest.raises(ReactorError) as raised:
                bench.run(script, run.get("partition", ""))
            assert words_of(run["error"]) in str(raised.value).lower()
            assert (bench.snapshot(), tables(bench)) == (before, kept)
            continue
        ran = bench.run(script, run.get("partition", ""))
        assert bench.texts(f"SELECT {', '.join(columns)} FROM main.t") == as_set(run["rows"])
        if run["changed"] != "either":
            assert ran.changed is run["changed"]
            assert (bench.snapshot() > before) is run["changed"]


def tables(bench: Bench) -> Any:
    return bench.rows("SELECT table_name, estimated_size FROM duckdb_tables() WHERE database_name = 'lake_main' ORDER BY ALL")


def words_of(error: str) -> str:
    """The beginning of the sentence, which says what is wrong."""
    return error.partition(";")[0].removeprefix("the ").lower()


@pytest.mark.parametrize("case", cases("schema_change", lambda c: c["mode"] in {"warn", "(not given)"}))
def test_schema_change_warn(shared: Bench, case: Case) -> None:
    bench = shared
    first, then, expect = KINDS["schema_change"].setup["run1"], case["run2"], case["expect"]
    partition = "2026-03-01" if case["strategy"] == "slice" else ""
    options = "" if case["strategy"] == "slice" else case["strategy"]
    script = script_of(f"materialize ducklake://main/t {options}", partitioned=bool(partition))
    make_source(bench, first["columns"], first["rows"])  # type: ignore[index]
    bench.run(script, partition)
    make_source(bench, then["columns"], then["rows"])
    if "error" in expect:
        with pytest.raises(ReactorError, match=expect["error"].split(": ")[1]) as raised:
            bench.run(script, partition)
        assert expect["error"].split(":")[0] in str(raised.value)
        return
    ran = bench.run(script, partition)
    assert [row[0] for row in bench.rows("DESCRIBE main.t") if row[0] != "_wm_partition"] == expect["columns"]
    assert bench.texts(f"SELECT {', '.join(expect['columns'])} FROM main.t") == as_set(expect["rows"])
    assert reported(ran) == expect["reported"]


def reported(ran: Ran) -> dict[str, list[str]]:
    drift = {"added": ran.drift.added, "removed": ran.drift.removed, "type_changed": ran.drift.type_changed}
    return {word: [*names] for word, names in drift.items() if names}
