"""One life of a service: started, asked whether it is at rest, stopped in order or killed."""

import asyncio
from collections.abc import Mapping
from functools import partial

from reactor.core.effects import Feed
from reactor.core.engine import Engine
from reactor.core.lanes import Lane
from reactor.domain.spans import PositionKey, SourcePartition
from reactor.errors import Outage
from reactor.project import Project
from reactor.runtime.hands import ExternalFeeding, QueueFeeding
from reactor.runtime.service import Service
from reactor.testing import GatedLake, ScriptedSource
from reactor.wiring import Instead, opened_service
from tests.harness.gates import Gates


class Replica:
    """`service` is there between `start` and the end. `gates` may be set before the start."""

    def __init__(self, project: Project, instead: Instead) -> None:
        self.gates = Gates()
        self.service: Service
        self.source: ScriptedSource | None = None
        self._project, self._instead = project, instead
        self._opened = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when it serves; raises what keeps it from it."""
        self._task = asyncio.create_task(self._live())
        serves = asyncio.ensure_future(self._serves())
        await asyncio.wait([self._task, serves], return_when=asyncio.FIRST_COMPLETED)
        serves.cancel()
        self.raise_if_ended()

    async def _serves(self) -> None:
        await self._opened.wait()
        await self.service.ready.wait()

    async def _live(self) -> None:
        instead = Instead(self._instead.source and self._source, lambda lake: GatedLake(lake, self.gates))
        async with opened_service(self._project, instead=instead) as self.service:
            self._opened.set()
            await self.service.run()

    def _source(self, cluster: str, group: str, topics: object) -> ScriptedSource:
        make = self._instead.source
        assert make is not None
        made = make(cluster, group, topics)  # type: ignore[arg-type]
        assert isinstance(made, ScriptedSource)
        self.source = made
        return made

    @property
    def task(self) -> asyncio.Task[None]:
        """Which serves."""
        assert self._task is not None
        return self._task

    @property
    def holder(self) -> str:
        """The name by which its runs are known."""
        return self.service.executor._holder

    @property
    def lives(self) -> bool:
        """Whether it still serves."""
        return self._task is not None and not self._task.done()

    def raise_if_ended(self) -> None:
        """A service that ends by itself has failed."""
        if self._task is not None and self._task.done():
            self._task.result()
            raise AssertionError("the service has ended by itself")

    async def reload(self, project: Project) -> None:
        """Run these scripts from now on."""
        await self.service.reload(project.scripts, project.producers)

    async def stop(self) -> None:
        """In order, as after SIGTERM."""
        self.service.stopping.set()
        await self.task

    async def die(self) -> None:
        """All tasks end without a word. Whoever calls it has ended the sessions of the database."""
        self.gates.kill()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)  # how it ends is nobody's to say, so nobody complains that it was not asked

    def hint(self) -> None:
        """Look at the queues now."""
        for feeding in self.service.feedings.values():
            if isinstance(feeding, QueueFeeding):
                feeding.queue.hint.set()

    @property
    def halted(self) -> Mapping[PositionKey, str]:
        """What is not read, and why."""
        return {key: why for feeding in self.service.feedings.values() for key, why in feeding.intake.halted.items()}

    # -- at rest

    async def still(self) -> int | None:
        """A number that is the same as long as nothing happens; None: something does."""
        return await self.service.loop.ask(lambda engine, _: engine._tickets if all(_idle(lane) for lane in engine.lanes.values()) else None)

    async def ends(self, partitions: Mapping[str, list[SourcePartition]]) -> Mapping[Feed, int]:
        """Where everything that it may read ends now. `partitions`: of each topic's URI. Raises `Outage`."""
        ends: dict[Feed, int] = {}
        for (tag, source), feeding in self.service.feedings.items():
            if isinstance(feeding, QueueFeeding):
                ends[Feed(tag, feeding.queue.partition)] = await feeding.queue.end()
            elif isinstance(feeding, ExternalFeeding):
                bounds = await feeding.source.bounds(partitions[source])
                if bounds.keys() != set(partitions[source]):
                    raise Outage(f"{source} cannot be asked")
                ends |= {Feed(tag, partition): found.end for partition, found in bounds.items()}
        return ends

    async def behind(self, ends: Mapping[Feed, int]) -> tuple[int | None, Mapping[Feed, int]]:
        """As `still`, and what it does not stand at the end of; floors are settled on the way."""
        halted = {key.source_partition for key in self.halted}
        return await self.service.loop.ask(partial(_behind, ends, halted))

    def settle_floors(self) -> None:
        """What the engine does every ten seconds."""
        self.service.loop.tell(lambda engine, _: engine.settle(engine.lanes.values()))


def _idle(lane: Lane) -> bool:
    ledgers = lane.ledgers.values()
    quiet = all(x.inflight is None and not x.open and x.detached is None and all(b.catchup is None for b in x.blocked.values()) for x in ledgers)
    return lane.running is None and not len(lane.debouncer) and quiet


def _behind(ends: Mapping[Feed, int], halted: set[SourcePartition], engine: Engine, _now: float) -> tuple[int | None, Mapping[Feed, int]]:
    still = engine._tickets if not engine.running and all(_idle(lane) for lane in engine.lanes.values()) else None
    behind = {}
    for feed, end in ends.items():
        listeners = list(engine.feeds.listeners(feed))
        if not listeners or feed.source_partition in halted:
            continue
        ledgers = [ledger for _, ledger in engine.feeds.ledgers(feed)]
        loading = len(ledgers) < len(listeners)  # another routing has taken over
        if loading or engine.feeds.heads.get(feed, -1) < end or any(ledger.floor < end for ledger in ledgers):
            behind[feed] = end
    return still, behind
