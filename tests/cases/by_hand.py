"""Cases whose runs are asked for by hand, all of them in one product: each has a script, a target and a source table of its own."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactor.domain.scripts import ScriptPath
from tests.cases import Case
from tests.cases.comparing import unnamed
from tests.cases.together import while_it_lives
from tests.harness import Ground, Product, opened_product
from tests.harness.product import Run

_TABLE = re.compile(r"\bmain([./])(src|t)(?=_current\b|\b)")


@dataclass(frozen=True, slots=True)
class Managed:
    """One script, its target and its source: `main.t` and `main.src` in the words of the cases."""

    product: Product
    name: str

    @property
    def asset(self) -> str:
        """Of the target."""
        return f"ducklake://main/{self.name}"

    @property
    def path(self) -> str:
        """Of the script."""
        return f"{self.name}.sql"

    def own(self, text: str) -> str:
        """A text with this case's own names of the tables."""
        return _TABLE.sub(lambda found: f"main{found[1]}{self.name}{'_src' if found[2] == 'src' else ''}", text)

    async def make_source(self, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        """The source anew."""
        await self.product.tool.replace(self.own("main.src"), columns, rows)

    async def run(self, partition: str = "") -> "Result":
        """One run by hand; a script that `check` refuses is rejected."""
        if refused := self.product.opened.refused.get(ScriptPath(self.path)):
            return Result(None, " ".join(refused), changed=False)
        updates = len(await self.product.updates(self.asset))
        run = await self.product.run_by_hand(self.path, partition)
        told = len(await self.product.updates(self.asset)) > updates
        marked = await self.product.tool.rows(f"SELECT 1 FROM lake.snapshots() WHERE contains(commit_extra_info, '{run.run_id}')")
        if not told == bool(marked) == (run.snapshot_id is not None):
            raise AssertionError(f"snapshot {run.snapshot_id} of the run row, {marked} of the lake, told: {told}")
        return Result(run, run.error, changed=told)

    async def rows(self, columns: Sequence[str], table: str = "main.t") -> list[list[str | None]] | None:
        """Cells as text; None: there is no such table."""
        own = self.own(table)
        if not await self.product.tool.has(own.removeprefix("main.")):
            return None
        return await self.product.tool.rows(f"SELECT {', '.join(columns)} FROM {own}")

    async def columns(self) -> dict[str, str]:
        """Name and type of each column of the target, but for those that Reactor keeps for itself."""
        return {name: kind for name, kind in (await self.product.tool.columns(self.own("main.t"))).items() if not name.startswith("_wm_")}


@dataclass(frozen=True, slots=True)
class Result:
    """What a run said of itself. `run` None: it was rejected. `changed`: it made a snapshot and an asset-updated event."""

    run: Run | None
    error: str
    changed: bool

    def error_differences(self, wanted: str, words: Sequence[str]) -> Iterator[str]:
        """An error given by sense: what it has to name (`words`: names and cells of the case)."""
        if self.run is not None and self.run.state != "failed":
            yield f"the run is {self.run.state}, wanted an error: {wanted}"
        elif missing := unnamed(wanted, self.error, words):
            yield f"error: got {self.error!r} wanted {wanted!r} (unnamed: {missing})"


async def in_one_product(
    cases: Sequence[Case], on: Ground, script: Callable[[Managed, Case], str], judged: Callable[[Managed, Mapping[str, Any]], Awaitable[str | None]],
) -> Mapping[str, str | None]:
    """What is wrong with each case by id, or None."""
    async with opened_product(on) as product:
        by_id = {str(case["id"]): (Managed(product, own_name(case)), dict(case)) for case in cases}
        product.put({managed.path: script(managed, case) for managed, case in by_id.values()})
        await product.start()
        return await while_it_lives(product, by_id, lambda name: judged(*by_id[name]))


def names_of(columns: Sequence[str]) -> list[str]:
    """Of `name TYPE`."""
    return [column.split()[0] for column in columns]


def words_of(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> list[str]:
    """What an error may have to name."""
    return [*names_of(columns), *(column.split(None, 1)[1] for column in columns), *(cell for row in rows for cell in row if cell)]


def repeated(columns: Sequence[str], rows: Sequence[Sequence[str | None]], key: Sequence[str]) -> list[str]:
    """The parts of keys that more than one row has."""
    at = [names_of(columns).index(name) for name in key]
    keys = [tuple(row[i] for i in at) for row in rows]
    return [str(part) for one in dict.fromkeys(keys) if None not in one and keys.count(one) > 1 for part in one]


def texts(value: object) -> list[str]:
    """A list of texts in a case."""
    assert isinstance(value, list)
    return [str(one) for one in value]


def cells(value: object) -> list[list[str | None]]:
    """Rows in a case."""
    assert isinstance(value, list)
    return [[None if cell is None else str(cell) for cell in row] for row in value]


def option(materialize: str, name: str) -> str:
    """The value of an option of a `materialize` line, empty if it has none."""
    found = re.search(rf"\b{name}=(\S+)", materialize)
    return found[1] if found else ""


def own_name(case: Mapping[str, object]) -> str:
    """Of the tables of a case."""
    return str(case["id"]).replace("-", "_").lower()
