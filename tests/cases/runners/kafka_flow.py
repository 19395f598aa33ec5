"""Positions, gaps, crashes and hand-overs: each case in a product of its own, over logs with the exact offsets of the case."""

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from reactor.domain.scripts import Routing, ScriptPath
from reactor.domain.spans import Consumer, PositionKey, SourcePartition
from reactor.errors import RunFailed
from reactor.ports import NewPosition
from reactor.wiring import opened_state
from tests.cases import Case
from tests.cases.comparing import Unknown, any_right, choices, unknown_fields
from tests.cases.flow_facts import FlowFacts
from tests.cases.flows import Content, content, days_of, name_of, place
from tests.cases.together import each
from tests.harness import Ground, Held, Product, Replica, ground, opened_product
from tests.parts.waiting import until

ASSET, PATH, PROBE = "ducklake://main/orders", ScriptPath("orders.sql"), "seen.sql"
FIELDS = {
    "id", "title", "log", "log_start", "log_end", "position", "group_offset", "then", "script", "script_select", "expect", "why", "note", "decision",
    "decision_why",
}  # fmt: skip
PROBE_TEXT = """-- pipeline
-- on kafka://orders
-- materialize ducklake://main/seen append
-- debounce 1s
SELECT _offset, len(_headers) AS headers FROM batch"""


def environment() -> AbstractContextManager[Ground]:
    """PostgreSQL and a folder."""
    return ground()


async def run_together(cases: Sequence[Case], setup: Case, on: Ground) -> Mapping[str, str | None]:
    """Some at once."""
    by_id = {str(case["id"]): dict(case) for case in cases}

    async def one(name: str) -> str | None:
        async with opened_product(on) as product:
            return await Flow(product, by_id[name], dict(setup)).judged()

    return await each(by_id, one, at_once=4)


@dataclass(slots=True)
class Flow:
    """One case under way."""

    product: Product
    case: Mapping[str, Any]
    setup: Mapping[str, Any]
    replicas: dict[str, Replica] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    begun: bool = False
    produced_at: float = 0.0

    async def judged(self) -> str | None:
        """All that happens, then everything that is wrong."""
        unknown_fields(self.case, FIELDS)
        checked = self.product.put(self.scripts())
        if refused := checked.refused.get(PATH):
            return f"the script is refused: {refused}"
        await self._prepare()
        for step in self.case.get("then", []):
            await self._step(step)
        await self.begin()
        await self.product.settle()
        found = FlowFacts(self.product, ASSET, PATH, self.produced_at)
        return await any_right(self.case["expect"], found.differences)

    # -- what is there before

    def scripts(self) -> dict[str, str]:
        """The script of the case; with a second one that counts headers, if the case asks for them."""
        lines = list(self.setup[self.case.get("script", "script")])
        if "script_select" in self.case:
            first_of = r"list_filter(_headers, h -> h.name = '\1')[1].value"
            lines[-1] = re.sub(r"<hex of the first header named (\w+)>", rf"hex({first_of})", self.case["script_select"])
        probe = {PROBE: PROBE_TEXT} if any("headers_kept" in one for one in choices(self.case["expect"])) else {}
        return {PATH: "\n".join(lines), **probe}

    def contents(self) -> Mapping[SourcePartition, Content]:
        """The logs of the case."""
        now_ms = round(time.time() * 1000)
        return {place(self.product.logs, name): content(given, now_ms) for name, given in self.case["log"].items()}

    def _said(self, bound: str, partition: SourcePartition, otherwise: int) -> int:
        """A bound of the log: one number for all, or one by name."""
        given = self.case.get(bound, otherwise)
        return int(given.get(name_of(partition), otherwise) if isinstance(given, dict) else given)

    async def _prepare(self) -> None:
        """Logs, positions and group offsets."""
        logs = self.product.logs
        for partition, found in self.contents().items():
            logs.make(*_split(partition), start=self._said("log_start", partition, found.start))
        group = self.product.opened.loaded.settings.group_id("main")
        for name, offset in self.case.get("group_offset", {}).items():
            logs.group_offsets[group, place(logs, name)] = offset
        if "position" in self.case:
            async with opened_state(self.product.opened.project) as state:
                await state.insert_positions([self._position(name, floor) for name, floor in self.case["position"].items()])

    def _position(self, name: str, floor: int) -> NewPosition:
        """As an earlier life has left it."""
        partitioning = self.product.opened.checked.scripts[PATH].header.partitioned
        key = PositionKey(Consumer(ASSET), place(self.product.logs, name))
        return NewPosition(key, floor, Routing(partitioning).fingerprint, "earliest")

    def fill(self) -> None:
        """All records of the case are written."""
        self.produced_at = time.time()
        for partition, found in self.contents().items():
            self.product.logs.produce(partition, found.records, end=self._said("log_end", partition, found.end))

    # -- what happens

    async def begin(self, name: str = "A", *, filled: bool = True) -> Replica:
        """The first replica serves, over the log of the case or (not `filled`) an empty one; once."""
        if not self.begun:
            self.begun = True
            if filled:
                self.fill()
            await self._started(name).start()
        return self.replicas[name]

    def _started(self, name: str) -> Replica:
        """A replica by its name in the case; made, not started, if it is new."""
        if name not in self.replicas:
            self.replicas[name] = self.product.replica()
        return self.replicas[name]

    def _hold(self, name: str, partition: str = "") -> None:
        self.held[name] = self._started(name).gates.hold("commit", ASSET, partition)

    async def _step(self, step: object) -> None:
        if isinstance(step, dict):
            ((word, value),) = step.items()
            await self._command(word, value)
            return
        for pattern, act in PHRASES:
            if found := re.fullmatch(pattern, str(step)):
                await act(self, found)
                return
        raise Unknown(f"runner does not know the step {step!r}")

    async def _command(self, word: str, value: Any) -> None:
        match word:
            case "settle":
                await self.begin()
                await self.product.settle()
            case "restart":
                await self.begin()
                await self.product.stop()
                await self.restarted()
            case "kill":
                await self.begin()
                await self.product.kill()
            case "truncate":
                for name, start in value.items():
                    self.product.logs.truncate(place(self.product.logs, name), start)
            case "add_source_partition":
                self.product.logs.make(*_split(place(self.product.logs, value)))
            case "produce":
                for name, given in value.items():
                    found = content(given, round(time.time() * 1000))
                    self.product.logs.produce(place(self.product.logs, name), found.records, end=found.end)
            case _:
                raise Unknown(f"runner does not know the step {word!r}")

    async def restarted(self) -> None:
        """A new life, after the leases of the dead have run out."""
        await self.product.time_passes()
        self.replicas["A"] = await self.product.start()

    async def completed(self, replica: str = "") -> None:
        """Wait for a completed run, of one replica or any."""

        async def there() -> bool:
            runs = [run for run in await self.product.runs(PATH) if run.state == "completed"]
            return any(not replica or run.replica == self.replicas[replica].holder for run in runs)

        await until(there, f"a run of {replica or 'any replica'} has completed")


def _split(partition: SourcePartition) -> tuple[str, int]:
    topic, _, number = name_of(partition).rpartition("/")
    return topic, int(number)


# ---------------------------------------------------------------------------------------------------------------- steps in words


async def _held_and_killed(flow: Flow, _: re.Match[str]) -> None:
    if "A" not in flow.held:
        flow._hold("A")
    await flow.begin()
    await flow.held["A"].reached()
    await flow.product.kill()


async def _killed(flow: Flow, _: re.Match[str]) -> None:
    await flow.begin()
    await flow.product.kill()


async def _killed_before_courtesy(flow: Flow, _: re.Match[str]) -> None:
    await flow.begin()
    await flow.product.kill()
    flow.product.logs.group_offsets.clear()


async def _restart(flow: Flow, _: re.Match[str]) -> None:
    await flow.restarted()


async def _commits(flow: Flow, _: re.Match[str]) -> None:
    await flow.begin()
    await flow.completed()


async def _slice_commits(flow: Flow, found: re.Match[str]) -> None:
    """An append takes all due slices at once, and each alone if that fails: so it is made to fail once."""
    gates = flow._started("A").gates
    gates.fail("stage", ASSET, RunFailed("all slices together"))
    for other in {day for given in flow.case["log"].values() for day in days_of(str(given)).values()} - {found[1]}:
        flow._hold("A", partition=other)
    await flow.begin()
    await flow.completed()


async def _takes_and_is_held(flow: Flow, found: re.Match[str]) -> None:
    flow._hold(found[1])
    await flow.begin(found[1])
    await flow.held[found[1]].reached()


async def _moves(flow: Flow, found: re.Match[str]) -> None:
    replica = flow._started(found[2])
    if not replica.lives:
        await replica.start()
    assert replica.source is not None
    flow.product.logs.move(place(flow.product.logs, found[1]), replica.source)


async def _reads_and_commits(flow: Flow, found: re.Match[str]) -> None:
    await flow.completed(found[1])
    (run,) = [run for run in await flow.product.runs(PATH) if run.replica == flow.replicas[found[1]].holder]
    read = [(position["from"], position["to"]) for position in run.trigger["positions"]]
    assert read == [(int(found[2]), int(found[4]) + 1)], f"{found[1]} has read {read}"


async def _released(flow: Flow, found: re.Match[str]) -> None:
    flow.held[found[1]].release()


async def _quiet(flow: Flow, _: re.Match[str]) -> None:
    """The record comes to a product that waits for it."""
    await flow.begin(filled=False)
    flow.fill()
    await flow.completed()


async def _lake_refuses(flow: Flow, _: re.Match[str]) -> None:
    await flow.begin(filled=False)
    await flow.product.settle()
    flow.product.refuse_writes(refused=True)
    flow.fill()

    async def refused() -> bool:
        return bool(await flow.product.fetch("SELECT 1 FROM reactor.run WHERE state IN ('aborted', 'failed')"))

    await until(refused, "the lake has refused a write")


async def _lake_works(flow: Flow, _: re.Match[str]) -> None:
    flow.product.refuse_writes(refused=False)


async def _sigterm(flow: Flow, _: re.Match[str]) -> None:
    await flow.begin()
    await flow.product.stop()


Act = Callable[[Flow, re.Match[str]], Awaitable[None]]
PHRASES: Sequence[tuple[str, Act]] = (
    (r"the process dies before any offset is committed to Kafka", _killed_before_courtesy),
    (r"the process dies .*before the commit", _held_and_killed),
    (r"the process dies before (\S+) commits", _held_and_killed),
    (r"(?:the process|the service) (?:dies|is killed)", _killed),
    (r"restart", _restart),
    (r"the run commits", _commits),
    (r"the slice (\S+) commits", _slice_commits),
    (r"replica (\w+) takes offsets (\d+)\.\.(\d+) and is held just before its commit", _takes_and_is_held),
    (r"(\S+/\d+) moves (?:back )?to replica (\w+)", _moves),
    (r"(\w+) reads from the position (\d+) and commits (\d+)\.\.(\d+)", _reads_and_commits),
    (r"(\w+) is released", _released),
    (r"no further record for .*", _quiet),
    (r"the lake refuses the write.*", _lake_refuses),
    (r"the lake works again", _lake_works),
    (r"SIGTERM", _sigterm),
)
