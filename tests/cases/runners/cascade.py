"""What one commit sets off downstream: each case in a product of its own, commits by another tool, then the runs with their triggers."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from reactor.domain.lineage import CURRENT_SUFFIX
from reactor.errors import RunFailed
from tests.cases import Case
from tests.cases.comparing import Unknown, any_right, choices, is_right, nearest, unknown_fields
from tests.cases.runners import graphs
from tests.cases.together import each
from tests.harness import Ground, Held, Product, Replica, ground, opened_product
from tests.harness.product import Run
from tests.parts.waiting import until

FIELDS = {"id", "title", "graph", "do", "expect", "why", "decision", "decision_why"}
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
SLICED_SOURCE = "-- partitioned daily\n-- materialize ducklake://main/{name}\nSELECT CAST(random() * 1000000 AS INTEGER) AS id"
CHECKED = {"exit", "names", "meaning"}
PARTS = re.compile("|".join(["on ", "pipeline$", "no on line$", "append$", "body fails$", "SELECT", "materialize ", ".* holds a NULL id$", *graphs.ANNOTATIONS]))
"""Of a graph, beside those that say how a run behaves."""


def environment() -> AbstractContextManager[Ground]:
    """PostgreSQL and a folder."""
    return ground()


async def run_together(cases: Sequence[Case], setup: Case, on: Ground) -> Mapping[str, str | None]:
    """Some at once."""
    del setup
    by_id = {str(case["id"]): dict(case) for case in cases}
    return await each(by_id, lambda name: judged(by_id[name], on), at_once=6)


async def judged(case: Mapping[str, Any], on: Ground) -> str | None:
    """What `check` says wrong, then what happens wrong."""
    unknown_fields(case, FIELDS)
    wanted = choices(case["expect"])
    if "check" in case["do"]:
        checked = graphs.check(case)
        if difference := nearest([graphs.check_differences(checked, one) for one in wanted]):
            return difference
        wanted = [one for one in wanted if not graphs.check_differences(checked, one)]
    if any(set(one) <= CHECKED for one in wanted):
        return None
    async with opened_product(on, watch_external=True) as product:
        return await Cascade(product, {**case, "expect": {"one_of": wanted}}).judged()


@dataclass(slots=True)
class Cascade:
    """One case under way."""

    product: Product
    case: Mapping[str, Any]
    held: dict[str, Held] = field(default_factory=dict)
    inserted: int = 0

    @property
    def steps(self) -> list[str]:
        """What happens, but for `check`."""
        return [step for step in self.case["do"] if step != "check"]

    async def judged(self) -> str | None:
        """All that happens, then everything that is wrong."""
        checked = self.product.put(self._scripts())
        if checked.refused:
            return f"refused: {dict(checked.refused)}"
        await self._make_sources()
        await self._begun().start()
        await self.product.settle()
        for step, following in zip(self.steps, [*self.steps[1:], ""], strict=True):
            await self._step(step)
            if self.product.living and not re.match(r"kill|.* while ", following):
                for held in self.held.values():
                    held.release()
                await self.product.settle()
        runs = [run for run in await self.product.runs() if run.script.removesuffix(".sql") in self.case["graph"]]

        async def differences(expect: Mapping[str, Any]) -> list[str]:
            return [difference for name, wanted in expect.items() for difference in await self._differences(name, wanted, runs)]

        return await any_right(self.case["expect"], differences)

    # -- what is there before

    def _scripts(self) -> dict[str, str]:
        """The graph, and the sources whose slices are committed by managed runs. All tables have the one column `id`."""
        graph = _partitioned_alike(self.case["graph"])
        files = {path: text.replace("SELECT * FROM", "SELECT id FROM") for path, text in graphs.files(graph).items()}
        for name, text in graph.items():
            if "body fails" in _parts(text):
                files[f"{name}.sql"] = re.sub(r"\nSELECT .*", "\nSELECT error('it fails') AS id", files[f"{name}.sql"])
        sliced = {found[1] for step in self.steps if (found := re.match(r"commit (\w+), partition ", step))}
        return files | {f"{name}.sql": SLICED_SOURCE.format(name=name) for name in sliced}

    async def _make_sources(self) -> None:
        """Tables that nobody of the graph makes, in more than one file; they are there before anybody listens."""
        scripts = self.product.opened.checked.scripts.values()
        made = {uri for script in scripts if script.managed for uri in (script.managed.asset, script.managed.asset + CURRENT_SUFFIX)}
        wanted = {uri for script in scripts for uri in (*(e.uri for e in script.edges if e.kind == "asset"), *script.body.reads)} - made
        spelling = {name.lower(): name for text in self.case["graph"].values() for name in re.findall(r"ducklake://main/(\w+)", text)}
        for name in sorted(uri.removeprefix("ducklake://main/") for uri in wanted):
            await self.product.tool.execute(f'CREATE TABLE main."{spelling.get(name, name)}" (id INTEGER)')
            await self._insert(name)
            await self._insert(name)
        for name, text in self.case["graph"].items():
            if re.search(rf"\bmain\.{name}\b", text):  # what a script reads of its own table has to be there when it first runs
                await self.product.tool.execute(f"CREATE TABLE main.{name} (id INTEGER)")
            for part in _parts(text):
                if found := re.fullmatch(r"(\w+) holds a NULL id", part):
                    await self.product.tool.execute(f"INSERT INTO main.{found[1]} VALUES (NULL)")

    def _begun(self) -> Replica:
        """A replica in which runs behave as the graph says."""
        replica = self.product.replica()
        for name, text in self.case["graph"].items():
            for part in _parts(text):
                self._behave(replica, name, part)
        for step in self.steps:
            if found := re.match(r"kill the service between the commit of (\w+) and the start of (\w+)", step):
                self.held["killed"] = replica.gates.hold("stage", graphs.uri(found[2]))
        return replica

    def _behave(self, replica: Replica, name: str, part: str) -> None:
        if part == "body fails once":
            replica.gates.fail("stage", graphs.uri(name), RunFailed("it fails once"))
        elif found := re.fullmatch(r"body fails (\w+) times", part):
            replica.gates.fail("stage", graphs.uri(name), RunFailed("it fails"), _number(found[1]))
        elif re.match(r"the run takes ", part):
            self.held[name] = replica.gates.hold("write", graphs.uri(name))
        elif not PARTS.match(part):
            raise Unknown(f"runner does not know {part!r}")

    # -- what happens

    async def _step(self, step: str) -> None:
        for pattern, act in STEPS:
            if found := re.fullmatch(pattern, step):
                await act(self, found)
                return
        raise Unknown(f"runner does not know the step {step!r}")

    async def _insert(self, *tables: str) -> None:
        """One commit of another tool."""
        self.inserted += 1
        await self.product.tool.execute(*[f"INSERT INTO main.{table} VALUES ({self.inserted})" for table in tables])

    # -- what is so in the end

    async def _differences(self, name: str, wanted: Any, runs: Sequence[Run]) -> list[str]:
        if name in CHECKED:
            return []
        for pattern, look in FACTS:
            if found := re.fullmatch(pattern, name.removesuffix("_between")):
                got = await look(self, found, wanted, runs)
                return [] if is_right(name, got, wanted) else [f"{name}: got {got} wanted {wanted}"]
        raise Unknown(f"runner does not know {name}")


def _partitioned_alike(graph: Mapping[str, str]) -> dict[str, str]:
    """`partitioned daily like a, b` partitions a and b too."""
    filled = dict(graph)
    for text in graph.values():
        if found := re.search(r"(partitioned \w+) like ([^;]+)", text):
            alike = [name for name in re.findall(r"\w+", found[2]) if name in filled and found[1] not in filled[name]]
            filled |= {name: f"{filled[name]}; {found[1]}" for name in alike}
    return filled


def _number(word: str) -> int:
    return NUMBERS.get(word) or int(word)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";")]


# ---------------------------------------------------------------------------------------------------------------- steps in words


async def _commit(cascade: Cascade, found: re.Match[str]) -> None:
    for _ in range(_number(found[2] or "one")):
        await cascade._insert(found[1])


async def _by_hand(cascade: Cascade, found: re.Match[str]) -> None:
    await cascade.product.run_by_hand(f"{found[1]}.sql", found[2] or "")


async def _commit_slice(cascade: Cascade, found: re.Match[str]) -> None:
    run = await cascade.product.run_by_hand(f"{found[1]}.sql", found[2])
    assert run.state == "completed", run.error


async def _one_transaction(cascade: Cascade, found: re.Match[str]) -> None:
    await cascade._insert(*re.findall(r"into (\w+)", found[0]))


async def _kill_between(cascade: Cascade, found: re.Match[str]) -> None:
    del found
    await cascade.held["killed"].reached()
    await cascade.product.kill()


async def _kill(cascade: Cascade, found: re.Match[str]) -> None:
    del found
    await cascade.product.kill()


async def _restart(cascade: Cascade, found: re.Match[str]) -> None:
    del found
    await cascade.product.time_passes()
    await cascade.product.start()


async def _more_while_it_runs(cascade: Cascade, found: re.Match[str]) -> None:
    """All of them are read before the run goes on."""
    count, table, name = _number(found[1]), found[2], found[3]
    held = cascade.held[name]
    await held.reached()
    for _ in range(count):
        await cascade._insert(table)
    (replica,) = cascade.product.living

    async def read() -> bool:
        end = await replica.service.state.outbox_next()
        heads = await replica.service.loop.ask(lambda engine, _: dict(engine.feeds.heads))
        return max(head for feed, head in heads.items() if feed.source_partition.source.startswith("outbox:")) >= end

    await until(read, "all commits are read")
    held.release()


async def _compact(cascade: Cascade, found: re.Match[str]) -> None:
    del found
    for call in ("ducklake_merge_adjacent_files('lake')", "ducklake_expire_snapshots('lake', older_than => now())"):
        await cascade.product.tool.execute(f"CALL {call}")


async def _statement(cascade: Cascade, found: re.Match[str]) -> None:
    sql = found[1].removesuffix(", commit")
    cascade.inserted += 1
    await cascade.product.tool.execute(f"{sql} VALUES ({cascade.inserted})" if re.fullmatch(r"INSERT INTO \S+", sql) else sql)


STEPS: Sequence[tuple[str, Callable[[Cascade, re.Match[str]], Awaitable[None]]]] = (
    (r"commit (\w+)(?:,? (\w+) times)?", _commit),
    (r"run (\w+)(?:, partition (\S+))? by hand", _by_hand),
    (r"commit (\w+), partition (\S+)", _commit_slice),
    (r"one transaction of another tool inserts into .*", _one_transaction),
    (r"kill the service between the commit of \w+ and the start of \w+", _kill_between),
    (r"kill the service", _kill),
    (r"restart", _restart),
    (r"(\w+) more commits to (\w+) while the first run of (\w+) goes on", _more_while_it_runs),
    (r"merge the small files of \w+ and expire old snapshots", _compact),
    (r"((?:ALTER|INSERT|UPDATE|DELETE|CREATE|DROP) .*)", _statement),
)


# ---------------------------------------------------------------------------------------------------------------- facts


def _names(runs: Sequence[Run], state: str) -> Iterator[str]:
    return (run.script.removesuffix(".sql") for run in runs if run.state == state)


def _counted(names: Iterator[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


async def _runs(_: Cascade, __: re.Match[str], ___: Any, runs: Sequence[Run]) -> Any:
    return _counted(_names(runs, "completed"))


async def _order(_: Cascade, __: re.Match[str], ___: Any, runs: Sequence[Run]) -> Any:
    return list(_names(sorted(runs, key=lambda run: run.snapshot_id or 0), "completed"))


async def _failed(_: Cascade, __: re.Match[str], ___: Any, runs: Sequence[Run]) -> Any:
    """Those that no attempt followed."""
    tried = {(run.script, run.partition, run.attempt) for run in runs}
    return _counted(_names([run for run in runs if (run.script, run.partition, run.attempt + 1) not in tried], "failed"))


async def _attempts(_: Cascade, __: re.Match[str], wanted: Any, runs: Sequence[Run]) -> Any:
    counts = _counted(run.script.removesuffix(".sql") for run in runs if run.state in {"completed", "failed"})
    return {name: counts.get(name, 0) for name in wanted}


async def _warnings(cascade: Cascade, _: re.Match[str], wanted: Any, __: Sequence[Run]) -> Any:
    return {name: len(cascade.product.said("data_test_failed", graphs.uri(name))) for name in wanted}


def _triggers(runs: Sequence[Run], script: str) -> list[list[Mapping[str, Any]]]:
    return [list(run.trigger["events"]) for run in runs if run.script == f"{script}.sql" and run.state == "completed"]


def _assets(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({str(event["asset"]).rpartition("/")[2] for event in events})


async def _trigger_lists(_: Cascade, found: re.Match[str], __: Any, runs: Sequence[Run]) -> Any:
    return _assets(_triggers(runs, found[1])[-1])


async def _trigger(_: Cascade, found: re.Match[str], ___: Any, runs: Sequence[Run]) -> Any:
    events = _triggers(runs, found[1])[-1]
    return {"snapshots": len({event["snapshot_id"] for event in events}), "assets": _assets(events)}


async def _trigger_says(_: Cascade, __: re.Match[str], wanted: Any, runs: Sequence[Run]) -> Any:
    changed = any(event["schema_changed"] for run in runs for event in run.trigger["events"])
    return wanted if (wanted == "schema changed") is changed else runs


async def _in_one_trigger(cascade: Cascade, _: re.Match[str], wanted: Any, runs: Sequence[Run]) -> Any:
    (script,) = cascade.case["graph"]
    seen = [event["snapshot_id"] for events in _triggers(runs, script) for event in events]
    return wanted if len(seen) == len(set(seen)) == wanted else seen


async def _partitions(_: Cascade, found: re.Match[str], ___: Any, runs: Sequence[Run]) -> Any:
    return [run.partition for run in runs if run.script == f"{found[1]}.sql" and run.state == "completed"]


async def _snapshot_unchanged(cascade: Cascade, found: re.Match[str], _: Any, __: Sequence[Run]) -> Any:
    return not await cascade.product.updates(graphs.uri(found[1]))


FACTS: Sequence[tuple[str, Callable[[Cascade, re.Match[str], Any, Sequence[Run]], Awaitable[Any]]]] = (
    (r"runs", _runs), (r"order", _order), (r"failed", _failed), (r"attempts", _attempts), (r"warnings", _warnings),
    (r"trigger_says", _trigger_says), (r"every_snapshot_in_exactly_one_trigger", _in_one_trigger), (r"(\w+)_trigger_lists", _trigger_lists),
    (r"(\w+)_trigger", _trigger), (r"(\w+)_partitions", _partitions), (r"(\w+)_snapshot_unchanged", _snapshot_unchanged),
)  # fmt: skip
