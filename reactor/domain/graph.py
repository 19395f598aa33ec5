"""The graph as it is shown: scripts, what fires them, what they make and what they only read, in levels from the sources down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from reactor.domain.lineage import Lineage
from reactor.domain.scripts import Edge, Script, ScriptPath

NodeKind = Literal["script", "asset", "stream", "trigger"]
ArrowKind = Literal["fires", "makes", "reads"]


@dataclass(frozen=True, slots=True)
class Node:
    """`id`: a script's path, an asset's URI, or a native trigger's text. `level`: 0 has nothing before it. `state`: of scripts."""

    id: str
    kind: NodeKind
    level: int
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """`source` fires or is read by the script `target`, or is the script that makes it."""

    source: str
    target: str
    kind: ArrowKind


@dataclass(frozen=True)
class Graph:
    """Nodes by level, then by id; arrows in the order of their ends. Scripts that are refused have no arrows: nobody knows what they say."""

    nodes: Sequence[Node]
    arrows: Sequence[Arrow]

    @cached_property
    def _after(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for arrow in self.arrows:
            if arrow.kind != "reads":
                found.setdefault(arrow.source, []).append(arrow.target)
        return found

    def after(self, node: str) -> Sequence[str]:
        """What it fires or makes."""
        return self._after.get(node, ())

    @property
    def roots(self) -> Sequence[str]:
        """What nothing fires and nothing makes."""
        led_to = {arrow.target for arrow in self.arrows if arrow.kind != "reads"}
        return [node.id for node in self.nodes if node.id not in led_to]


def graph_of(lineage: Lineage, inactive: Mapping[ScriptPath, Sequence[str]], refused: Mapping[ScriptPath, Sequence[str]]) -> Graph:
    """What `check` found, as a graph."""
    arrows = sorted({arrow for script in lineage.scripts.values() for arrow in _arrows(lineage, script)}, key=lambda a: (a.source, a.target, a.kind))
    levels = _levels(lineage)
    kinds = {_fires(lineage, edge): _KINDS.get(edge.kind, "trigger") for script in lineage.scripts.values() for edge in script.edges}
    found = [Node(path, "script", levels[path], "inactive" if path in inactive else "active") for path in lineage.scripts]
    found += [Node(path, "script", 0, "refused") for path in refused]
    names = {end for arrow in arrows for end in (arrow.source, arrow.target)} - lineage.scripts.keys()
    found += [Node(name, kinds.get(name, "asset"), levels.get(name, 0)) for name in names]
    return Graph(sorted(found, key=lambda node: (node.level, node.id)), arrows)


_KINDS: Final[Mapping[str, NodeKind]] = {"asset": "asset", "s3": "asset", "file": "asset", "kafka": "stream"}


def _fires(lineage: Lineage, edge: Edge) -> str:
    """The node that an edge starts at."""
    return lineage.event_asset(edge.uri) if edge.kind in _KINDS else f"{edge.kind} {edge.uri}".strip()


def _arrows(lineage: Lineage, script: Script) -> Iterator[Arrow]:
    fires, target = {_fires(lineage, edge) for edge in script.edges}, script.header.materialize
    yield from (Arrow(node, script.path, "fires") for node in fires)
    only_read = {lineage.event_asset(uri) for uri in script.body.reads} - fires - {target.asset if target else ""}
    yield from (Arrow(uri, script.path, "reads") for uri in only_read)
    if target is not None:
        yield Arrow(script.path, target.asset, "makes")


def _levels(lineage: Lineage) -> Mapping[str, int]:
    """How many steps lead to a node at most. A script comes behind whatever makes its inputs."""
    levels: dict[str, int] = {}
    for path in lineage.order():
        script, before = lineage.scripts[path], [_fires(lineage, edge) for edge in lineage.scripts[path].edges]
        levels[path] = 1 + max((levels.setdefault(node, 0) for node in before), default=-1)
        if script.header.materialize is not None:
            made = script.header.materialize.asset
            levels[made] = max(levels.get(made, 0), levels[path] + 1)
    return levels
