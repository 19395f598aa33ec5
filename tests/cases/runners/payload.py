"""Payloads into declared columns: through reader, splitter, lanes, decoder and commit of the product, then SQL on the lake."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from reactor.testing import Record
from tests.cases import Case
from tests.cases.by_hand import own_name
from tests.cases.comparing import Unknown, any_right, same_cell, unknown_fields
from tests.cases.streamed import Table, record, run_all
from tests.harness import Ground, Product, ground, opened_product

LATER = '{"id":9}'
FIELDS = {"row", "rows", "compare", "quarantine", "column", "bytes_kept", "no_row", "quarantined", "asset_updated", "position"}


def environment() -> AbstractContextManager[Ground]:
    """PostgreSQL and a folder."""
    return ground()


async def run_together(cases: Sequence[Case], setup: Case, on: Ground) -> Mapping[str, str | None]:
    """All through one product."""
    async with opened_product(on) as product:
        return await run_in(product, cases, setup)


async def run_in(product: Product, cases: Sequence[Case], setup: Case, prefix: str = "") -> Mapping[str, str | None]:
    """All through this product. `prefix`: of their topics and tables."""
    return await run_all(product, {str(case["id"]): _Payload(Table(product, prefix + own_name(case)), dict(case), dict(setup)) for case in cases})


@dataclass(frozen=True, slots=True)
class _Payload:
    """One case."""

    table: Table
    case: Mapping[str, Any]
    setup: Mapping[str, Any]

    @property
    def raw(self) -> bool:
        """Whether it declares no columns."""
        return str(self.case["columns"]).startswith("(none")

    @property
    def script(self) -> str:
        columns, name = self.case["columns"], self.table.name
        lines = [line.replace("kafka://in", f"kafka://{name}").replace("main/t ", f"main/{name} ") for line in self.setup["script"]]
        if self.raw:
            found = re.search(r"\bSELECT .*[^)]", columns)
            if found is None:
                raise Unknown(f"runner does not know columns {columns!r}")
            return "\n".join([*(line for line in lines if line.startswith("--") and not line.startswith("-- batch")), found[0]])
        selected = ", ".join(f'"{column}"' for column in ["id", *names(columns)])
        return "\n".join(lines).replace("<columns of the case>", columns).replace("<id and the columns of the case>", selected)

    @property
    def batches(self) -> Sequence[Sequence[Record]]:
        given = self.case.get("batches") or [self.case.get("records") or ['{"id":1}', self.case, '{"id":3}']]
        offsets = iter(range(sum(map(len, given))))
        return [[record(next(offsets), one) for one in batch] for batch in given]

    @property
    def _neighbours(self) -> set[str] | None:
        """Ids of the records around that of the case; None: the case lists all of its records."""
        return None if {"records", "batches"} & self.case.keys() else {"1", "3"}

    @property
    def sent(self) -> int:
        """How many records."""
        return sum(map(len, self.batches))

    @property
    def later(self) -> Record:
        return record(self.sent, LATER)

    async def differences(self) -> str | None:
        return await any_right(self.case["expect"], self._differences)

    async def _differences(self, expect: Mapping[str, Any]) -> list[str]:
        unknown_fields(expect, FIELDS)
        quarantined = await self.table.product.quarantined(self.table.asset)
        found = await self.table.in_order(expect.get("position", self.sent), len(self.batches))
        found += self._of_quarantine(expect, quarantined)
        if "asset_updated" in expect and (updates := await self.table.product.updates(self.table.asset)):
            found.append(f"asset_updated: got {updates} wanted {expect['asset_updated']}")
        return found + await self._of_rows(expect, self.sent - len(quarantined) - ("no_row" in expect))

    def _of_quarantine(self, expect: Mapping[str, Any], got: Sequence[Mapping[str, str | None]]) -> Iterator[str]:
        if "quarantine" in expect:
            sent = [record for batch in self.batches for record in batch]
            found = [record for record in sent if got and self._neighbours is None and str(record.offset) == got[0]["offset"]]
            yield from self.table.set_aside(got, found[0] if found else sent[1], expect)
        elif len(got) != int(expect.get("quarantined", 0)):
            yield f"quarantine: got {got} wanted {int(expect.get('quarantined', 0))} rows"

    async def _of_rows(self, expect: Mapping[str, Any], count: int) -> list[str]:
        """Every record that was not set aside is a row, the neighbours too."""
        ids = [row[0] for row in await self.table.rows("(value->>'id')" if self.raw else "id")]
        beside = self._neighbours or set()
        found = [] if len(ids) == count and beside <= set(ids) else [f"ids: got {ids} wanted {count}, with {sorted(beside)}"]
        if "no_row" in expect:
            outcome = str(expect["no_row"]).removeprefix("counted as ")
            counted = await self.table.counted(outcome)
            return found + ([] if counted == 1 else [f"counted as {outcome}: got {counted} wanted 1"])
        wanted = expect["rows"] if "rows" in expect else [expect["row"]] if "row" in expect else []
        return found + (await self._compared(wanted, str(expect.get("compare", ""))) if wanted else [])

    async def _compared(self, wanted: Sequence[Mapping[str, str | None]], compare: str) -> list[str]:
        """Each wanted row is there, with its multiplicity."""
        picked = list(wanted[0])
        got = await self.table.rows(*picked)
        left = list(got)
        for row in wanted:
            found = next((cells for cells in left if all(same_cell(c, row[n], _mode(compare, n)) for c, n in zip(cells, picked, strict=True))), None)
            if found is None:
                return [f"rows: got {got} wanted {row}"]
            left.remove(found)
        return []

    async def later_differences(self) -> list[str]:
        rows, position = await self.table.rows("value" if self.raw else "id"), await self.table.position()
        wanted = [LATER if self.raw else "9"]
        return [] if wanted in rows and position == self.sent + 1 else [f"a later batch: got {rows} at {position} wanted {wanted} at {self.sent + 1}"]


def names(columns: str) -> list[str]:
    """Of a `batch` line: `a BIGINT, "ship.to code" VARCHAR, d DECIMAL(12,2)`."""
    found = re.findall(r'(?:^|,)\s*("(?:[^"]|"")+"|\w+)\s+\w[^,(]*(?:\([^)]*\)[^,]*)?', columns)
    return [name.strip('"').replace('""', '"') for name in found]


def _mode(compare: str, column: str) -> str:
    """`a as JSON` holds for column a alone."""
    words = compare.split()
    return compare if len(words) < 2 or words[1] != "as" or words[0] == column else ""
