"""Cases that send records, all of them in one product: each has a topic, a script and a table of its own."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from reactor.domain.scripts import ScriptPath
from reactor.testing import Record
from tests.cases.comparing import told
from tests.cases.flows import octets
from tests.cases.together import each, raised
from tests.harness import Product

KEY, HEADERS = b"key \xff", (("h", b"\x00\xff"), ("h", b""))
"""Of records where the case says nothing: the quarantine must hold them as they were."""


@dataclass(frozen=True, slots=True)
class Table:
    """What became of one script that appends a topic to a table, both called `name`."""

    product: Product
    name: str

    @property
    def asset(self) -> str:
        """Its URI."""
        return f"ducklake://main/{self.name}"

    @property
    def path(self) -> str:
        """Of its script."""
        return f"{self.name}.sql"

    @property
    def refused(self) -> Sequence[str]:
        """Why its script does not run."""
        return self.product.opened.refused.get(ScriptPath(self.path), ())

    async def position(self) -> int | None:
        """The next offset of its only source partition."""
        return (await self.product.positions(self.asset)).get(f"{self.name}/0")

    async def rows(self, *expressions: str) -> list[list[str | None]]:
        """Of the table; none if there is no table. What is no column is an expression."""
        if not await self.product.tool.has(self.name):
            return []
        columns = await self.product.tool.columns(f"main.{self.name}")
        selected = ", ".join(f'"{e}" AS c{i}' if e in columns else f"{e} AS c{i}" for i, e in enumerate(expressions))
        return await self.product.tool.rows(f"SELECT {selected} FROM main.{self.name}")

    async def counted(self, outcome: str) -> float:
        """Records by what became of them, as the metric of the living replica says."""
        (replica,) = self.product.living
        return replica.service.telemetry.registry.get_sample_value("reactor_events_settled_total", {"asset": self.asset, "outcome": outcome}) or 0.0

    async def in_order(self, position: int, commits: int) -> list[str]:
        """The position passes all records of a batch in the one commit of its rows; nothing fails, nothing is tried again."""
        got = {"position": await self.position(), "runs": [run.state for run in await self.product.runs(self.path)]}
        wanted = {"position": position, "runs": ["completed"] * commits}
        return [f"{name}: got {got[name]} wanted {wanted[name]}" for name in wanted if got[name] != wanted[name]]

    def set_aside(self, got: Sequence[Mapping[str, str | None]], sent: Record, expect: Mapping[str, Any]) -> Iterator[str]:
        """How the only row of the quarantine differs from this record and what the case says of it."""
        if len(got) != 1:
            yield f"quarantine: got {got} wanted 1 row"
            return
        wanted = {
            "reason": expect["quarantine"], "source": f"kafka://main/{self.name}", "source_partition": "0", "offset": str(sent.offset),
            "value": _hex(sent.value), "key": _hex(sent.key),
            "headers": json.dumps([[name, _hex(value)] for name, value in sent.headers], separators=(",", ":"), ensure_ascii=False),
        }  # fmt: skip
        wanted |= {"column": expect["column"]} if "column" in expect else {}
        wanted |= {"value": expect["bytes_kept"]} if "bytes_kept" in expect else {}
        yield from (f"quarantine {name}: got {got[0][name]!r} wanted {value!r}" for name, value in wanted.items() if got[0][name] != value)


class Tried(Protocol):
    """One case in a product."""

    @property
    def table(self) -> Table:
        """Where its rows go."""
        ...

    @property
    def script(self) -> str:
        """What runs."""
        ...

    @property
    def batches(self) -> Sequence[Sequence[Record]]:
        """What is sent, one batch after the other."""
        ...

    @property
    def later(self) -> Record:
        """A sound record of a later batch."""
        ...

    async def differences(self) -> str | None:
        """What is wrong when all batches are in."""
        ...

    async def later_differences(self) -> list[str]:
        """What is wrong when the later batch is in too."""
        ...


async def run_all(product: Product, tried: Mapping[str, Tried]) -> Mapping[str, str | None]:
    """All cases, by id, through one product."""
    scripts, wrong = readable(tried, lambda one: {one.table.path: one.script})
    product.put({path: text for script in scripts.values() for path, text in script.items()})
    wrong |= {case: f"the script is refused: {tried[case].table.refused}" for case in scripts if tried[case].table.refused}
    sent, unread = readable({case: tried[case] for case in scripts if case not in wrong}, lambda one: [*one.batches, [one.later]])
    wrong |= unread
    tried = {case: tried[case] for case in sent}
    for one in tried.values():
        await product.streams.make(one.table.name)
    restless: TimeoutError | None = None
    for turn in range(max((len(batches) - 1 for batches in sent.values()), default=0)):
        for case, batches in sent.items():
            if turn < len(batches) - 1:
                await product.streams.produce(tried[case].table.name, 0, batches[turn])
        if not product.living:
            await product.start()
        restless = await _unsettled(product) or restless
    answers = await each(tried, lambda case: tried[case].differences())
    for case, batches in sent.items():
        await product.streams.produce(tried[case].table.name, 0, batches[-1])
    restless = await _unsettled(product) or restless
    later = await each(tried, lambda case: _judged_later(tried[case]))
    found = {case: answer or later[case] for case, answer in answers.items()} | wrong
    if restless and not any(found.values()):
        raise restless
    return found


T = TypeVar("T")


def readable(tried: Mapping[str, Tried], read: Callable[[Tried], T]) -> tuple[dict[str, T], dict[str, str]]:
    """What cases say, and what is wrong with those that cannot be read."""
    said: dict[str, T] = {}
    wrong: dict[str, str] = {}
    for case, one in tried.items():
        try:
            said[case] = read(one)
        except Exception as error:  # noqa: BLE001  (a case that is no case fails alone)
            wrong[case] = raised(error)
    return said, wrong


async def _unsettled(product: Product) -> TimeoutError | None:
    """A product that one case keeps from coming to rest: which one, each will tell."""
    try:
        await product.settle()
    except TimeoutError as error:
        return error
    return None


async def _judged_later(one: Tried) -> str | None:
    return told(iter(await one.later_differences()))


def record(offset: int, given: object) -> Record:
    """A record as a case gives it: its text, null for a tombstone, or an object that says more than the value."""
    said: Mapping[str, Any] = given if isinstance(given, dict) else {"value": given}
    headers = [(str(name), octets(text)) for name, text in said["headers"]] if "headers" in said else HEADERS
    stamp = {"timestamp_ms": said["timestamp"]} if "timestamp" in said else {}
    return Record(offset, value_of(said), octets(said["key"]) if "key" in said else KEY, headers, **stamp)


def value_of(given: Mapping[str, Any]) -> bytes | None:
    """The exact bytes of `value`, `value_base64` or `value_repeat`."""
    if "value_base64" in given:
        return base64.b64decode(given["value_base64"])
    if "value_repeat" in given:
        r = given["value_repeat"]
        text = r["prefix"] + r["unit"] * r["times"] + r.get("middle", "") + r.get("unit_after", "") * r["times"] + r["suffix"]
        return str(text).encode()
    return None if given["value"] is None else str(given["value"]).encode()


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
