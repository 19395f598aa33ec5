"""Other columns in the second run of a table with a fixed shape: two runs by hand in a live product, then SQL, the run's result and the log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tests.cases import Case
from tests.cases.by_hand import Managed, Result, cells, own_name, texts, words_of
from tests.cases.comparing import Unknown, same_rows, told, unknown_fields
from tests.cases.together import each
from tests.harness import Ground, ground, opened_product

PARTITION = "2026-03-01"
FIELDS = {"columns", "rows", "reported", "error", "schema_version", "types", "table_has", "rows_by_name"}


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
        return await each(by_id, lambda name: _judged(managed[name], by_id[name], dict(setup)))


def script(managed: Managed, case: Case, setup: Case) -> str:
    """The script of a case."""
    strategy, mode = str(case["strategy"]), str(case["mode"])
    text = "\n".join(texts(setup["script"]))
    text = text.replace(" on_schema_change=<mode>", "" if mode == "(not given)" else f" on_schema_change={mode}")
    text = text.replace(" <strategy>", "" if strategy == "slice" else f" {strategy}")
    return managed.own("-- partitioned daily\n" + text if strategy == "slice" else text)


async def _judged(managed: Managed, case: Mapping[str, Any], setup: Mapping[str, Any]) -> str | None:
    expect: Mapping[str, Any] = case["expect"]
    unknown_fields(expect, FIELDS)
    partition = PARTITION if case["strategy"] == "slice" else ""
    first, second = case.get("run1", setup["run1"]), case["run2"]
    await managed.make_source(texts(first["columns"]), cells(first["rows"]))
    made = await managed.run(partition)
    if made.run is None or made.error:
        return f"the first run failed: {made.error}"
    before = (await managed.columns(), await managed.rows(["*"]))
    await managed.make_source(texts(second["columns"]), cells(second["rows"]))
    result = await managed.run(partition)
    if "error" in expect:
        words = words_of([*texts(first["columns"]), *texts(second["columns"])], cells(second["rows"]))
        after = (await managed.columns(), await managed.rows(["*"]))
        kept = [] if after == before else [f"the table is not as before: {after}, it was {before}"]
        return told(iter([*result.error_differences(str(expect["error"]), words), *kept]))
    if result.error:
        return f"the second run failed: {result.error}"
    return told(iter([*await _of_table(managed, expect), *_reported(managed, expect, result)]))


async def _of_table(managed: Managed, expect: Mapping[str, Any]) -> list[str]:
    columns, found = await managed.columns(), []
    for name in expect:
        match name:
            case "columns":
                got: object = list(columns)
            case "rows":
                rows = await managed.rows(texts(expect["columns"])) or []
                got = expect["rows"] if same_rows(rows, expect["rows"]) else rows
            case "types":
                got = {column: columns.get(column) for column in expect["types"]}
            case "table_has":
                got = expect["table_has"] if set(columns) == set(expect["table_has"]) else list(columns)
            case "rows_by_name":
                names = list(expect["rows_by_name"][0])
                rows = await managed.rows(names) or []
                wanted = [[row[one] for one in names] for row in expect["rows_by_name"]]
                got = expect["rows_by_name"] if same_rows(rows, wanted) else rows
            case "schema_version":
                versions = await managed.product.fetch("SELECT max(version) FROM reactor.materialized_asset_schema WHERE asset = $1", managed.asset)
                got = versions[0][0]
            case "reported":
                continue
            case _:
                raise Unknown(f"runner does not know {name}")
        if got != expect[name]:
            found.append(f"{name}: got {got} wanted {expect[name]}")
    return found


def _reported(managed: Managed, expect: Mapping[str, Any], result: Result) -> Iterator[str]:
    """Drift stands in the run's result, and the log names each column of it; where there is none, the log is silent."""
    if "reported" not in expect or result.run is None:
        return
    wanted: Mapping[str, list[str]] = expect["reported"]
    got = {word: list(names) for word, names in result.run.drift.items() if names}
    if got != wanted:
        yield f"reported: got {got} wanted {wanted}"
    said = " ".join(managed.product.said("run_warned", managed.asset))
    missing = [name for names in wanted.values() for name in names if name not in said]
    if missing or (said and not wanted):
        yield f"log: got {said!r} wanted {wanted}"
