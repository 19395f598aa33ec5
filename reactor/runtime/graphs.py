"""Which scripts run, and what feeds them: one graph at a time, and another one takes over whole (OP-12).

    who is new is subscribed ─▶ engine.set_scripts ─▶ readers that nobody needs end ─▶ the others read their topics ─▶ new readers begin

Whoever is new is subscribed before anything is read that could fire it. A running run ends on the text that it began with; another routing
takes over at a common cut (`core.edits`). All that is stored is keyed by asset, so neither a new text nor a new path loses anything.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
from anyio.abc import TaskGroup

from reactor.core.lanes import routing_of
from reactor.core.reading import Producers
from reactor.domain.scripts import Script
from reactor.domain.spans import Consumer
from reactor.runtime.hands import ExternalFeeding, Feeding, QueueFeeding
from reactor.runtime.loop import Loop
from reactor.runtime.outages import until_it_answers
from reactor.runtime.supervision import for_ever
from reactor.telemetry import Telemetry

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Graph:
    """`producers`: asset → how its producer partitions it; `feedings`: (tag, source) → what reads it."""

    scripts: Sequence[Script] = ()
    producers: Producers = field(default_factory=dict)
    feedings: Mapping[tuple[str, str], Feeding] = field(default_factory=dict)

    @property
    def readers(self) -> Mapping[Feeding, frozenset[str]]:
        """Each reader, with the sources that it reads."""
        sources: defaultdict[Feeding, set[str]] = defaultdict(set)
        for (_, source), feeding in self.feedings.items():
            sources[feeding].add(source)
        return {feeding: frozenset(read) for feeding, read in sources.items()}

    def subscribers(self, feeding: QueueFeeding) -> Mapping[Consumer, str]:
        """Who reads a queue, with their routing: the inbox everybody, the outbox who is fired by assets."""
        asked = feeding.queue.partition.source.startswith("inbox:")
        mine = [s for s in self.scripts if (s.header.tag or "") == feeding.intake.tag]
        return {Consumer(s.consumer): routing_of(s).fingerprint for s in mine if asked or any(e.kind == "asset" for e in s.edges)}

    def changes_from(self, before: Graph) -> str:
        """In words."""
        old, new = ({s.path: s for s in graph.scripts} for graph in (before, self))
        words = {
            "new": new.keys() - old.keys(), "gone": old.keys() - new.keys(), "changed": {path for path in new.keys() & old.keys() if new[path] != old[path]},
        }
        return "; ".join(f"{word}: {', '.join(sorted(paths))}" for word, paths in words.items() if paths) or "no script is another"


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """The task of a reader."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class Graphs:
    """The graph that runs. `feedings`: what reads a source now, a mapping for those who carry effects out and look."""

    loop: Loop
    telemetry: Telemetry
    current: Graph = field(default_factory=Graph)
    feedings: dict[tuple[str, str], Feeding] = field(default_factory=dict)
    _reading: dict[Feeding, _Reading] = field(default_factory=dict)

    async def take_over(self, graph: Graph, tasks: TaskGroup) -> None:
        """Run this graph instead; new readers are tasks of this group."""
        before, self.current = self.current, graph
        self.feedings |= graph.feedings
        await self._subscribe(before)
        self.loop.tell(lambda engine, _: engine.set_scripts(graph.scripts, graph.producers))
        await self.loop.ask(lambda _engine, _now: None)  # it is done
        await self._end_or_subscribe(before.readers, graph.readers)
        for key in before.feedings.keys() - graph.feedings.keys():
            del self.feedings[key]
        for asset in {s.consumer for s in before.scripts} - {s.consumer for s in graph.scripts}:
            self.telemetry.forget_asset(asset)
        for feeding in graph.readers:
            if feeding not in self._reading:
                self._reading[feeding] = reading = _Reading()
                tasks.start_soon(self._read, feeding, reading)

    async def _end_or_subscribe(self, before: Mapping[Feeding, frozenset[str]], now: Mapping[Feeding, frozenset[str]]) -> None:
        for feeding, sources in before.items():
            if feeding not in now:
                await self._end(feeding)
            elif isinstance(feeding, ExternalFeeding) and sources != now[feeding]:
                await feeding.source.subscribe([source.partition("://")[2].partition("/")[2] for source in now[feeding]])

    async def _subscribe(self, before: Graph) -> None:
        for feeding in self.current.readers:
            if not isinstance(feeding, QueueFeeding):
                continue
            known = before.subscribers(feeding)
            new = {consumer: routing for consumer, routing in self.current.subscribers(feeding).items() if consumer not in known}
            await until_it_answers(partial(feeding.subscribe, new))

    async def _read(self, feeding: Feeding, reading: _Reading) -> None:
        """A task that never ends by itself."""
        name = f"reader of {', '.join(sorted(self.current.readers[feeding]))} {feeding.intake.tag}".rstrip()
        try:
            with reading.scope:
                await for_ever(name, feeding.run)
        finally:
            reading.over.set()

    async def _end(self, feeding: Feeding) -> None:
        reading = self._reading.pop(feeding)
        reading.scope.cancel()
        await reading.over.wait()
        await feeding.intake.closed()
