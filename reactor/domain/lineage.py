"""The graph of a project: which script makes an asset, which scripts an asset fires, in which order, and where it runs in a circle.

An edge goes from an asset to a script (`Script.edges`: the `on` lines, and what the body reads where edges are derived) and from a script to
the asset it materializes. A read that is no edge is not here: a body that reads its own table makes no circle. The current view of a
history, `<table>_current`, changes with its table and stands for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Final

from reactor.domain.scripts import Script, ScriptPath

CURRENT_SUFFIX: Final = "_current"


class Lineage:
    """Immutable; scripts by path. Paths come out sorted, so every answer is the same for the same files."""

    def __init__(self, scripts: Iterable[Script]) -> None:
        self.scripts: Mapping[ScriptPath, Script] = {script.path: script for script in sorted(scripts, key=lambda s: s.path)}

    @cached_property
    def producers(self) -> Mapping[str, tuple[ScriptPath, ...]]:
        """Asset → the scripts that materialize it, `manual` ones too."""
        return _grouped((script.header.materialize.asset, path) for path, script in self.scripts.items() if script.header.materialize)

    @cached_property
    def histories(self) -> frozenset[str]:
        """Assets that have a current view."""
        targets = (script.header.materialize for script in self.scripts.values())
        return frozenset(target.asset for target in targets if target and target.strategy == "scd2")

    @cached_property
    def consumers(self) -> Mapping[str, tuple[ScriptPath, ...]]:
        """Asset → the scripts that its events fire."""
        return _grouped((asset, path) for path in self.scripts for asset in self.inputs(path))

    def event_asset(self, uri: str) -> str:
        """The asset whose events report a change of this one: the table of a current view, else itself."""
        table = uri.removesuffix(CURRENT_SUFFIX)
        return table if table != uri and table in self.histories else uri

    def inputs(self, path: ScriptPath) -> tuple[str, ...]:
        """The assets that fire a script, each once."""
        return tuple(dict.fromkeys(self.event_asset(edge.uri) for edge in self.scripts[path].edges))

    def downstream(self, path: ScriptPath) -> tuple[ScriptPath, ...]:
        """The scripts that are fired by what this one makes."""
        target = self.scripts[path].header.materialize
        return self.consumers.get(target.asset, ()) if target else ()

    def upstream(self, path: ScriptPath) -> tuple[ScriptPath, ...]:
        """The scripts whose assets fire this one."""
        return tuple(sorted({producer for asset in self.inputs(path) for producer in self.producers.get(asset, ())}))

    def descendants(self, path: ScriptPath) -> frozenset[ScriptPath]:
        """All that may run because this one did; itself only in a circle."""
        return _reached(path, self.downstream)

    def ancestors(self, path: ScriptPath) -> frozenset[ScriptPath]:
        """All that this one may run because of; itself only in a circle."""
        return _reached(path, self.upstream)

    def order(self) -> tuple[ScriptPath, ...]:
        """Every script behind all its upstreams, by path where that leaves a choice; scripts that wait for a circle are left out."""
        waits = {path: len(self.upstream(path)) for path in self.scripts}
        ready = [path for path, count in waits.items() if count == 0]
        heapify(ready)
        found: list[ScriptPath] = []
        while ready:
            path = heappop(ready)
            found.append(path)
            for consumer in self.downstream(path):
                waits[consumer] -= 1
                if waits[consumer] == 0:
                    heappush(ready, consumer)
        return tuple(found)

    def circles(self) -> tuple[tuple[ScriptPath, ...], ...]:
        """For each knot of scripts that fire each other: a shortest way round, from its first script back to it."""
        left = sorted(self.scripts.keys() - set(self.order()))
        found: list[tuple[ScriptPath, ...]] = []
        knotted: set[ScriptPath] = set()
        for path in left:
            if path not in knotted and path in (reached := self.descendants(path)):
                knotted |= reached & self.ancestors(path)
                found.append(self._round(path))
        return tuple(found)

    def knot(self, path: ScriptPath) -> frozenset[ScriptPath]:
        """The scripts that run in a circle with this one."""
        return self.descendants(path) & self.ancestors(path)

    def _round(self, start: ScriptPath) -> tuple[ScriptPath, ...]:
        before: dict[ScriptPath, ScriptPath] = {}
        queue = deque([start])
        while start not in before:
            path = queue.popleft()
            for consumer in self.downstream(path):
                if consumer not in before:
                    before[consumer] = path
                    queue.append(consumer)
        way = [start, before[start]]
        while way[-1] != start:
            way.append(before[way[-1]])
        return tuple(reversed(way))


def _grouped(pairs: Iterable[tuple[str, ScriptPath]]) -> Mapping[str, tuple[ScriptPath, ...]]:
    found: dict[str, list[ScriptPath]] = {}
    for asset, path in pairs:
        found.setdefault(asset, []).append(path)
    return {asset: tuple(paths) for asset, paths in found.items()}


def _reached(start: ScriptPath, step: Callable[[ScriptPath], Iterable[ScriptPath]]) -> frozenset[ScriptPath]:
    seen: set[ScriptPath] = set()
    queue = deque([start])
    while queue:
        for path in step(queue.popleft()):
            if path not in seen:
                seen.add(path)
                queue.append(path)
    return frozenset(seen)
