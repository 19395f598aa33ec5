"""Managed strategies over several runs: runs by hand in a live product, then SQL, events and the lake's own snapshots."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tests.cases import Case
from tests.cases.by_hand import Managed, cells, names_of, option, own_name, repeated, texts, words_of
from tests.cases.comparing import same_rows, told, unknown_fields
from tests.cases.together import each
from tests.harness import Ground, ground, opened_product

FIELDS = {"id", "title", "materialize", "columns", "partitioned", "runs", "expect", "why", "decision", "decision_why", "select", "table"}
RUN_FIELDS = {"src", "columns", "partition", "rows", "changed", "error"}
TIME = re.compile(r"@\d+")


def environment() -> AbstractContextManager[Ground]:
    """PostgreSQL and a folder."""
    return ground()


async def run_together(cases: Sequence[Case], setup: Case, on: Ground) -> Mapping[str, str | None]:
    """All in one product."""
    async with opened_product(on) as product:
        managed = {str(case["id"]): Managed(product, own_name(case)) for case in cases}
        product.put({managed[str(case["id"])].path: script(managed[str(case["id"])], case, setup) for case in cases})
        await product.start()
        by_id = {str(case["id"]): dict(case) for case in cases}
        return await each(by_id, lambda name: _judged(managed[name], by_id[name]))


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
        unknown_fields(run, RUN_FIELDS)
        if difference := told(iter(await _differences(managed, case, run))):
            return f"run {number}: {difference}"
    return None


async def _differences(managed: Managed, case: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    columns, src = texts(run.get("columns", case["columns"])), cells(run["src"])
    table = str(case.get("table", "main.t"))
    selected = str(case["select"]).split(", ") if "select" in case else names_of(columns)
    await managed.make_source(columns, src)
    before = None if "error" not in run else await managed.rows(["*"], table)
    result = await managed.run(str(run.get("partition", "")))
    if "error" in run:
        words = words_of(columns, src)
        wanted = str(run["error"])
        if re.search(r"\bshows (it|them)\b", wanted):
            wanted += f" ({', '.join(repeated(columns, src, option(case['materialize'], 'key').split(',')))})"
        after = await managed.rows(["*"], table)
        kept = [] if after == before and not result.changed else [f"the table is not as before: {after}, it was {before}"]
        return [*result.error_differences(wanted, words), *kept]
    if result.error:
        return [f"the run failed: {result.error}"]
    got, wanted_rows = await managed.rows(selected, table), cells(run["rows"])
    found = [] if same_rows(with_times(got or [], wanted_rows), wanted_rows) else [f"rows: got {got} wanted {wanted_rows}"]
    if run["changed"] != "either" and result.changed is not run["changed"]:
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
