"""Managed strategies over several runs: runs by hand in a live product, then SQL, events and the lake's own snapshots."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tests.cases import Case
from tests.cases.by_hand import Managed, Result, cells, in_one_product, names_of, option, repeated, texts, words_of
from tests.cases.comparing import choices, nearest, same_rows, unknown_fields
from tests.harness import Ground, ground

FIELDS = {"id", "title", "materialize", "columns", "partitioned", "runs", "expect", "why", "decision", "decision_why", "select", "table"}
RUN_FIELDS = {"src", "columns", "partition", "rows", "changed", "error"}
TIME = re.compile(r"@\d+")


def environment() -> AbstractContextManager[Ground]:
    """PostgreSQL and a folder."""
    return ground()


async def run_together(cases: Sequence[Case], setup: Case, on: Ground) -> Mapping[str, str | None]:
    """All in one product."""
    return await in_one_product(cases, on, lambda managed, case: script(managed, case, setup), _judged)


def script(managed: Managed, case: Case, setup: Case) -> str:
    """The script of a case."""
    filled = {"<materialize line of the case>": str(case["materialize"]), "<partitioned line, if any>": str(case.get("partitioned", ""))}
    lines = texts(setup["script"])
    for place, text in filled.items():
        lines = [line.replace(place, text) for line in lines]
    return managed.own("\n".join(line for line in lines if line != "-- "))


async def _judged(managed: Managed, case: Mapping[str, Any]) -> str | None:
    unknown_fields(case, FIELDS)
    for number, run in enumerate(case["runs"], 1):
        if difference := await _difference(managed, case, run):
            return f"run {number}: {difference}"
    return None


async def _difference(managed: Managed, case: Mapping[str, Any], run: Mapping[str, Any]) -> str | None:
    wanted = choices(run)
    for one in wanted:
        unknown_fields(one, RUN_FIELDS)
    table = str(case.get("table", "main.t"))
    await managed.make_source(texts(run.get("columns", case["columns"])), cells(run["src"]))
    before = await managed.rows(["*"], table) if any("error" in one for one in wanted) else None
    result = await managed.run(str(run.get("partition", "")))
    return nearest([await _differences(managed, case, one, result, before) for one in wanted])


async def _differences(
    managed: Managed, case: Mapping[str, Any], run: Mapping[str, Any], result: Result, before: Sequence[Sequence[str | None]] | None
) -> list[str]:
    columns, src, table = texts(run.get("columns", case["columns"])), cells(run["src"]), str(case.get("table", "main.t"))
    if "error" in run:
        wanted = str(run["error"])
        if re.search(r"\bshows (it|them)\b", wanted):
            wanted += f" ({', '.join(repeated(columns, src, option(case['materialize'], 'key').split(',')))})"
        after = await managed.rows(["*"], table)
        kept = [] if after == before and not result.changed else [f"the table is not as before: {after}, it was {before}"]
        return [*result.error_differences(wanted, words_of(columns, src)), *kept]
    if result.error:
        return [f"the run failed: {result.error}"]
    found = []
    if "rows" in run:
        selected = str(case["select"]).split(", ") if "select" in case else names_of(columns)
        got, wanted_rows = await managed.rows(selected, table), cells(run["rows"])
        found += [] if same_rows(with_times(got or [], wanted_rows), wanted_rows) else [f"rows: got {got} wanted {wanted_rows}"]
    if run.get("changed", "either") != "either" and result.changed is not run["changed"]:
        found.append(f"changed: got {result.changed} wanted {run['changed']}")
    return found


def with_times(got: list[list[str | None]], wanted: Sequence[Sequence[str | None]]) -> list[list[str | None]]:
    """The effective times as `@n`: the same order, the same value wherever one stands."""
    columns = {at for row in wanted for at, cell in enumerate(row) if cell is not None and TIME.fullmatch(cell)}
    names = sorted({row[at] or "" for row in wanted for at in columns if row[at] is not None}, key=lambda name: int(name[1:]))
    times = sorted({row[at] or "" for row in got for at in columns if row[at] is not None})
    if len(names) != len(times):
        return got
    name_of = dict(zip(times, names, strict=True))
    return [[name_of.get(cell, cell) if at in columns and cell is not None else cell for at, cell in enumerate(row)] for row in got]
