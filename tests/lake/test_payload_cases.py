"""The given payload cases through the lake: records in, rows and quarantine rows out, in one commit."""

import base64
from pathlib import Path
from typing import Any

import pytest

from reactor.domain.scripts import Script
from tests.cases.files import read_kinds
from tests.lake.driving import Bench, Record, feed, managed, raw_span

PAYLOAD = next(kind for kind in read_kinds(Path(__file__).parents[1] / "cases") if kind.name == "payload")
Case = dict[str, Any]


def bytes_of(case: Case) -> bytes | None:
    if "value_base64" in case:
        return base64.b64decode(case["value_base64"])
    if "value_repeat" in case:
        r = case["value_repeat"]
        return str(r["prefix"] + r["unit"] * r["times"] + r.get("middle", "") + r.get("unit_after", "") * r["times"] + r["suffix"]).encode()
    return None if case["value"] is None else str(case["value"]).encode()


def columns_of(text: str) -> list[tuple[str, str]]:
    """`a BIGINT, "ship.to code" VARCHAR, d DECIMAL(12,2)`."""
    found, rest = [], text
    while rest:
        name, rest = rest[1:].split('" ', 1) if rest.startswith('"') else rest.split(" ", 1)
        depth, end = 0, 0
        while end < len(rest) and (depth or rest[end] != ","):
            depth += (rest[end] == "(") - (rest[end] == ")")
            end += 1
        found.append((name, rest[:end].strip()))
        rest = rest[end + 1 :].strip()
    return found


def script_of(case: Case) -> Script:
    if case["columns"].startswith("(none"):
        select = case["columns"].split("; ")[1].removesuffix(")")
        return managed(f"SELECT * FROM ({select})", "append", reads_batch=True)
    columns = [("id", "BIGINT"), *columns_of(case["columns"])]
    names = ", ".join('"' + name + '"' for name, _ in columns)
    return managed(f"SELECT * FROM (SELECT {names} FROM batch)", "append", batch=columns)


def batches_of(case: Case) -> list[list[Record]]:
    if "batches" in case:
        return [[Record(text.encode()) for text in batch] for batch in case["batches"]]
    if "records" in case:
        return [[Record(text.encode()) for text in case["records"]]]
    key = case["key"].encode() if "key" in case else None
    return [[Record(b'{"id":1}'), Record(bytes_of(case), key), Record(b'{"id":3}')]]


@pytest.fixture
def shared(module_bench: Bench) -> Bench:
    """Without the tables of the case before."""
    for name in ("t", "_reactor_quarantine"):
        module_bench.rows(f"DROP TABLE IF EXISTS lake_main.main.{name}")
    return module_bench


@pytest.mark.long  # the same cases go through the whole product in tests/cases
@pytest.mark.parametrize("case", [pytest.param(case, id=str(case["id"])) for case in PAYLOAD.cases])
def test_payload(shared: Bench, case: Case) -> None:
    bench = shared
    script = script_of(case)
    lo, ran = 0, []
    for batch in batches_of(case):
        ran += feed(bench, script, raw_span(batch, lo))
        lo += len(batch)
    wanted = case["expect"].get("one_of", [case["expect"]])
    assert any(matches(bench, case, expect) for expect in wanted), seen(bench)
    if "quarantine" in wanted[0]:
        assert ran[0].outcomes["quarantined"] == 1
    feed(bench, script, raw_span([b'{"id":9}'], lo))
    assert "9" in str(bench.texts("SELECT * FROM main.t"))


def seen(bench: Bench) -> str:
    quarantine = "SELECT * FROM main._reactor_quarantine" if has(bench, "_reactor_quarantine") else "SELECT 'no quarantine'"
    return f"rows {bench.texts('SELECT * FROM main.t') if has(bench, 't') else []}, {bench.texts(quarantine)}"


def has(bench: Bench, table: str) -> bool:
    return bool(bench.rows(f"SELECT 1 FROM duckdb_tables() WHERE database_name = 'lake_main' AND table_name = '{table}'"))


def matches(bench: Bench, case: Case, expect: Case) -> bool:
    quarantined = bench.rows('SELECT reason, "column", hex(value), "offset", source, source_partition FROM main._reactor_quarantine') if has(
        bench, "_reactor_quarantine") else []
    if "quarantined" in expect and expect["quarantined"] is not False:
        return len(quarantined) == expect["quarantined"] and not has(bench, "t")
    if "quarantine" in expect:
        value = bytes_of(case) or b""
        row = (expect["quarantine"], expect.get("column"), value.hex().upper(), 1, "kafka://main/in", "0")
        return quarantined == [row] and ids(bench) == ["1", "3"]
    if quarantined:
        return False
    if "no_row" in expect:
        return ids(bench) == ["1", "3"]
    if "rows" in expect:
        picked = list(expect["rows"][0])
        return bench.texts(f"SELECT {', '.join(picked)} FROM main.t") == sorted([row[n] for n in picked] for row in expect["rows"])
    row = expect["row"]
    exprs = ", ".join(name if "(" in name else "decode(_key) AS _key" if name == "_key" else '"' + name + '"' for name in row)
    found = bench.texts(f"SELECT {exprs} FROM main.t")
    blanks = " " if "compare" in case["expect"] else ""
    return stripped([*row.values()], blanks) in [stripped(cells, blanks) for cells in found] and len(found) == 3


def stripped(cells: list[str | None], blanks: str) -> list[str | None]:
    return [cell.replace(blanks, "") if cell and blanks else cell for cell in cells]


def ids(bench: Bench) -> list[str | None]:
    return [row[0] for row in bench.texts("SELECT id FROM main.t")]
