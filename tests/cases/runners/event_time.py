"""Which asset partition a record goes to: through the product, `{partition}` as the SELECT sees it.

The instant is no column of a batch, so it is asked of the reader of event times itself, over the very span that the product gets.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reactor.domain.partitions import calendar_of, rfc3339
from reactor.domain.scripts import HeaderField, Partitioning, ScriptPath
from reactor.lake.decoding.event_time import read_event_times
from reactor.testing import Record
from reactor.testing.logs import span
from tests.cases import Case
from tests.cases.by_hand import own_name
from tests.cases.comparing import Unknown, any_right, same_rows, unknown_fields
from tests.cases.streamed import Table, record, run_all
from tests.harness import Ground, Product, ground, opened_product

NEIGHBOUR = "2026-03-01T12:00:00Z"
DEFAULT_OPTIONS = "daily event_time=$.ts"
KEPT_WATERMARKS = "SELECT 1 FROM information_schema.columns WHERE table_schema = 'reactor' AND column_name LIKE '%watermark%'"
"""Nobody keeps one so far, so none can move."""
FIELDS = {"partition", "instant", "quarantine", "watermark_moves", "counted_as"}


def environment() -> AbstractContextManager[Ground]:
    """PostgreSQL and a folder."""
    return ground()


async def run_together(cases: Sequence[Case], setup: Case, on: Ground) -> Mapping[str, str | None]:
    """All through one product."""
    async with opened_product(on) as product:
        return await run_in(product, cases, setup)


async def run_in(product: Product, cases: Sequence[Case], setup: Case, prefix: str = "") -> Mapping[str, str | None]:
    """All through this product. `prefix`: of their topics and tables."""
    return await run_all(product, {str(case["id"]): _Placed(Table(product, prefix + own_name(case)), dict(case), dict(setup)) for case in cases})


@dataclass(frozen=True, slots=True)
class _Placed:
    """One case."""

    table: Table
    case: Mapping[str, Any]
    setup: Mapping[str, Any]

    @property
    def options(self) -> str:
        """Behind `partitioned`."""
        return str(self.case.get("options", DEFAULT_OPTIONS))

    @property
    def script(self) -> str:
        text = "\n".join(self.setup["script"]).replace("<kind> <options of the case>", self.options)
        return text.replace("kafka://readings", f"kafka://{self.table.name}").replace("main/readings ", f"main/{self.table.name} ")

    @property
    def partitioning(self) -> Partitioning:
        """As the header says."""
        found = self.table.product.opened.checked.scripts[ScriptPath(self.table.path)].header.partitioned
        assert found is not None
        return found

    @property
    def batches(self) -> Sequence[Sequence[Record]]:
        return [[self._beside(0, 1), record(1, {"headers": [], **self.case}), self._beside(2, 3)]]

    @property
    def later(self) -> Record:
        return self._beside(3, 9)

    def _beside(self, offset: int, id_: int) -> Record:
        """A good record whose event time is given in the way in which the case reads it."""
        source = self.partitioning.event_time
        if isinstance(source, tuple):
            at: Any = NEIGHBOUR
            for name in reversed(source):
                at = {name: at}
            return record(offset, {"value": json.dumps({"id": id_, **at}), "headers": []})
        name = source.name if isinstance(source, HeaderField) else "event_time"
        return record(offset, {"value": json.dumps({"id": id_}), "headers": [[name, NEIGHBOUR]] if source or self.case.get("headers") else []})

    async def differences(self) -> str | None:
        return await any_right(self.case["expect"], self._differences)

    async def _differences(self, expect: Mapping[str, Any]) -> list[str]:
        unknown_fields(expect, FIELDS)
        quarantined = await self.table.product.quarantined(self.table.asset)
        found = await self.table.in_order(3, commits=1)
        if "quarantine" in expect:
            found += self.table.set_aside(quarantined, self.batches[0][1], expect)
        elif quarantined:
            found.append(f"quarantine: got {quarantined} wanted none")
        found += await self._of_rows(expect) + self._of_instant(expect)
        if "watermark_moves" in expect and await self.table.product.fetch(KEPT_WATERMARKS):
            raise Unknown("runner does not know how the watermark of an asset is looked at")
        if "counted_as" in expect and (counted := await self.table.counted(expect["counted_as"])) != 1:
            found.append(f"counted as {expect['counted_as']}: got {counted} wanted 1")
        return found

    async def _of_rows(self, expect: Mapping[str, Any]) -> list[str]:
        beside = calendar_of(self.partitioning).slice_of(_micros(NEIGHBOUR)).identity
        wanted = [[beside, "1"], [beside, "3"], *([[expect["partition"], "2"]] if "partition" in expect else [])]
        got = await self.table.rows("p", "id")
        return [] if same_rows(got, wanted) else [f"rows: got {got} wanted {wanted}"]

    def _of_instant(self, expect: Mapping[str, Any]) -> list[str]:
        if "instant" not in expect:
            return []
        records = span(self.table.product.streams.partitions(self.table.name)[0], 0, 3, self.batches[0]).records
        read = read_event_times(records, self.partitioning.event_time)
        if read.reasons[1].as_py() is not None:  # of the default chain, so the record goes by its arrival: nobody can name that beforehand
            return [f"instant: got none ({read.reasons[1]}) wanted {expect['instant']}"]
        got = int(read.micros[1])
        return [] if got == _micros(expect["instant"]) else [f"instant: got {rfc3339(got)} wanted {expect['instant']}"]

    async def later_differences(self) -> list[str]:
        rows, position = await self.table.rows("id"), await self.table.position()
        return [] if ["9"] in rows and position == 4 else [f"a later batch: got {rows} at {position} wanted 9 at 4"]


def _micros(text: str) -> int:
    at = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return (at.days * 86_400 + at.seconds) * 1_000_000 + at.microseconds
