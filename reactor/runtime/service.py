"""One replica, whole: started, watched, and stopped in order.

start: loop ─▶ new subscribers of queues ─▶ what is paused ─▶ scripts ─▶ queues, sources, publishers
stop:  intake ends ─▶ running runs end (at most `drain_seconds`) ─▶ floors are settled ─▶ all is closed
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio
from anyio.abc import TaskGroup

from reactor.core.engine import Engine
from reactor.core.reading import Producers
from reactor.domain.scripts import Script
from reactor.errors import Retryable
from reactor.ports import Clock, State
from reactor.runtime.deciding import PURGE_SECONDS, WAITING_MAX, WRITE_SECONDS, DecisionLog
from reactor.runtime.executor import Executor
from reactor.runtime.graphs import Graph, Graphs
from reactor.runtime.hands import Feeding, Hands, QueueFeeding
from reactor.runtime.health import Probe
from reactor.runtime.loop import Loop
from reactor.runtime.outages import until_it_answers
from reactor.runtime.pausing import Pausing
from reactor.runtime.publishing import Publishing
from reactor.runtime.supervision import TaskEnded, for_ever, periodically
from reactor.runtime.watching import Liveness, Watcher
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS, LOOK_SECONDS, HALTED_SECONDS, PAUSES_SECONDS, TABLES_SECONDS = 5.0, 2.0, 10.0, 1.0, 10.0
SETTLE_AT_STOP_SECONDS = 5.0


@dataclass(slots=True)
class Service:
    """Everything that runs, put together by `wiring`. `graph`: what runs at first.

    `graph_of`: the graph of these scripts; what is read already is kept. Raises `Outage`, `StateForbids` for scripts that may not run.
    `lakes_away`: lakes whose files cannot be reached now, with why (blocking). `interrupt`: ends what the lake is doing, for who cannot wait for a drain; the service is of no use afterwards.
    """

    engine: Engine
    loop: Loop
    executor: Executor
    state: State
    liveness: Liveness
    probe: Probe
    clock: Clock
    telemetry: Telemetry
    publishers: Sequence[Publishing]
    drain_seconds: float
    graph: Graph
    graphs: Graphs
    graph_of: Callable[[Sequence[Script], Producers], Awaitable[Graph]]
    lakes_away: Callable[[], Mapping[str, str]]
    interrupt: Callable[[], None]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    _upcoming: asyncio.Queue[Graph] = field(default_factory=asyncio.Queue)

    @property
    def feedings(self) -> Mapping[tuple[str, str], Feeding]:
        """(tag, source) → what reads it now."""
        return self.graphs.feedings

    async def run(self) -> None:
        """Until `stopping` is set and everything has ended in order. Raises what ended a task that should not end."""
        async with anyio.create_task_group() as tasks:
            decisions = DecisionLog(self.state, self.telemetry)
            hands = Hands(self.loop, self.state, self.executor, decisions, tasks, self.feedings)
            watcher = Watcher(self.loop, self.liveness, self.clock, self.telemetry, self.feedings)
            start = partial(self._start, tasks)
            start("loop", partial(self.loop.run, hands))
            start("heartbeat", partial(periodically, "heartbeat", HEARTBEAT_SECONDS, watcher.keep_alive, anyio.sleep))
            start("watcher", partial(periodically, "watcher", LOOK_SECONDS, watcher.look, anyio.sleep))
            start("decisions", partial(periodically, "decisions", WRITE_SECONDS, decisions.write, anyio.sleep))
            start("purge", partial(periodically, "purge", PURGE_SECONDS, decisions.purge, anyio.sleep))
            start("old runs", partial(periodically, "old runs", PURGE_SECONDS, watcher.forget_old_runs, anyio.sleep))
            start("tables", partial(periodically, "tables", TABLES_SECONDS, watcher.look_at_tables, anyio.sleep))
            start("halted", partial(periodically, "halted", HALTED_SECONDS, watcher.look_at_halted, anyio.sleep))
            async with anyio.create_task_group() as intake:
                intake.start_soon(self._begin, intake, Pausing(self.loop, self.state))
                await self.stopping.wait()
                logger.info("stopping: intake ends", extra={"event": "service_draining"})
                intake.cancel_scope.cancel()
            await self._drain()
            with anyio.move_on_after(SETTLE_AT_STOP_SECONDS), suppress(Retryable):
                await decisions.write(WAITING_MAX)
            tasks.cancel_scope.cancel()
        if not self.stopping.is_set():  # a group that is hit by the cancellation of what one of its tasks waits for ends without an error
            raise TaskEnded("the service ended, and nobody had asked for that")

    async def _begin(self, intake: TaskGroup, pausing: Pausing) -> None:
        """The first graph, and whichever comes after it; who is paused is known before it could run."""
        for publishing in self.publishers:
            await until_it_answers(publishing.subscribe)
        await until_it_answers(pausing.look)
        self._start(intake, "pauses", partial(periodically, "pauses", PAUSES_SECONDS, pausing.look, anyio.sleep))
        graph = self.graph
        while True:
            before = self.graphs.current
            await self.graphs.take_over(graph, intake)
            if self.ready.is_set():
                logger.info("reloaded: %s", graph.changes_from(before), extra={"event": "service_reloaded"})
                self._upcoming.task_done()
            else:
                self._start_publishers(intake)
                self.ready.set()
            graph = await self._upcoming.get()

    def _start_publishers(self, intake: TaskGroup) -> None:
        for publishing in self.publishers:
            self._start(intake, f"publisher {publishing.name}", publishing.run)

    async def reload(self, scripts: Sequence[Script], producers: Producers) -> None:
        """Run these scripts from now on, all of them or none. Raises `Outage`, `StateForbids`; waits for ever if the service ends."""
        self._upcoming.put_nowait(await self.graph_of(scripts, producers))
        await self._upcoming.join()

    def _start(self, tasks: TaskGroup, name: str, work: Callable[[], Awaitable[None]]) -> None:
        tasks.start_soon(for_ever, name, work, name=name)

    async def _drain(self) -> None:
        """Running runs end, floors are settled; what is not done by then is done again by whoever comes next."""
        await self.loop.ask(self._stop_starting)
        with anyio.move_on_after(self.drain_seconds):
            await self.loop.until(lambda engine: not engine.running)
        with anyio.move_on_after(SETTLE_AT_STOP_SECONDS):
            self.loop.tell(lambda engine, _: engine.settle(engine.lanes.values()))
            await self.loop.until(lambda engine: not engine.running)

    @staticmethod
    def _stop_starting(engine: Engine, _now: float) -> None:
        engine.draining = True

    def hint(self) -> None:
        """Something was committed here: look at the outbox now."""
        for feeding in self.feedings.values():
            if isinstance(feeding, QueueFeeding):
                feeding.queue.hint.set()
        for publishing in self.publishers:
            publishing.hint.set()
