"""Other columns in the second run of a table with a fixed shape: two runs by hand in a live product, then SQL, the run's result and the log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tests.cases import Case
from tests.cases.by_hand import Managed, Result, cells, in_one_product, texts, words_of
from tests.cases.comparing import Unknown, any_right, is_right, same_rows, unknown_fields
from tests.harness import Ground, ground

PARTITION = "2026-03-01"
FIELDS = {"columns", "rows", "reported", "error", "schema_version", "types", "table_has", "rows_by_name"}


def environment() -> AbstractContextManager[Ground]:
    """PostgreSQL and a folder."""
    return ground()


async def run_together(cases: Sequence[Case], setup: Case, on: Ground) -> Mapping[str, str | None]:
    """All in one product."""
    facts = dict(setup)
    return await in_one_product(cases, on, lambda managed, case: script(managed, case, setup), lambda managed, case: _judged(managed, case, facts))


def script(managed: Managed, case: Case, setup: Case) -> str:
    """The script of a case."""
    strategy, mode = str(case["strategy"]), str(case["mode"])
    text = "\n".join(texts(setup["script"]))
    text = text.replace(" on_schema_change=<mode>", "" if mode == "(not given)" else f" on_schema_change={mode}")
    text = text.replace(" <strategy>", "" if strategy == "slice" else f" {strategy}")
    return managed.own("-- partitioned daily\n" + text if strategy == "slice" else text)


async def _judged(managed: Managed, case: Mapping[str, Any], setup: Mapping[str, Any]) -> str | None:
    partition = PARTITION if case["strategy"] == "slice" else ""
    first, second = case.get("run1") or setup["run1"], case["run2"]
    await managed.make_source(texts(first["columns"]), cells(first["rows"]))
    made = await managed.run(partition)
    if made.run is None or made.error:
        return f"the first run failed: {made.error}"
    before = await _table(managed)
    await managed.make_source(texts(second["columns"]), cells(second["rows"]))
    result = await managed.run(partition)
    words = words_of([*texts(first["columns"]), *texts(second["columns"])], cells(second["rows"]))

    async def differences(expect: Mapping[str, Any]) -> list[str]:
        unknown_fields((name.removesuffix("_between") for name in expect), FIELDS)
        if "error" in expect:
            after = await _table(managed)
            kept = [] if after == before else [f"the table is not as before: {after}, it was {before}"]
            return [*result.error_differences(str(expect["error"]), words), *kept]
        if result.error:
            return [f"the second run failed: {result.error}"]
        return [*await _of_table(managed, expect), *_reported(managed, expect, result)]

    return await any_right(case["expect"], differences)


async def _table(managed: Managed) -> object:
    """Its columns and rows."""
    return await managed.columns(), await managed.rows(["*"])


async def _of_table(managed: Managed, expect: Mapping[str, Any]) -> list[str]:
    columns, found = await managed.columns(), []
    for name in expect:
        match name.removesuffix("_between"):
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
        if not is_right(name, got, expect[name]):
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
