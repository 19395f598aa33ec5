"""Rules about the scripts of a project together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reactor.domain.diagnostics import Diagnostic, Range
from reactor.domain.lineage import CURRENT_SUFFIX, Lineage
from reactor.domain.rules.draft import Draft, refusal
from reactor.domain.scripts import Script, ScriptPath

Found = Iterator[tuple[ScriptPath, Diagnostic]]
Drafts = Mapping[ScriptPath, Draft]


def graph_findings(drafts: Drafts, lineage: Lineage) -> Found:
    """Everything that the graph refuses, with the script it refuses."""
    yield from _circles(drafts, lineage)
    yield from _producers(drafts, lineage)
    yield from _current_views(drafts, lineage)
    yield from _grains(drafts, lineage)


def _circles(drafts: Drafts, lineage: Lineage) -> Found:
    """DP-5: all scripts that run in a circle."""
    for way in lineage.circles():
        knot = lineage.knot(way[0])
        for path in sorted(knot):
            if knot == {path}:
                message = f"`{path}` is fired by the table it makes and would run for ever"
            else:
                message = f"the scripts fire each other for ever: cycle {' -> '.join(way)}"
            made = {script.header.materialize.asset for member in knot if (script := lineage.scripts[member]).header.materialize}
            inside = next(asset for asset in lineage.inputs(path) if asset in made)
            yield path, refusal(_input_place(drafts[path], lineage, inside), "cycle", message)


def _producers(drafts: Drafts, lineage: Lineage) -> Found:
    """AN-13: one managed producer an asset."""
    for asset, paths in lineage.producers.items():
        managed = [path for path in paths if lineage.scripts[path].managed]
        for path in managed if len(managed) > 1 else ():
            others = ", ".join(f"`{other}`" for other in managed if other != path)
            message = f"`{asset}` is also made by {others}: one script makes a table"
            yield path, refusal(drafts[path].place("materialize", "a table"), "two-producers", message)


def _current_views(drafts: Drafts, lineage: Lineage) -> Found:
    """MT-10: the current view of a history has its name for itself."""
    for asset in sorted(lineage.histories):
        for path in lineage.producers.get(asset + CURRENT_SUFFIX, ()):
            history = lineage.producers[asset][0]
            message = f"`{asset + CURRENT_SUFFIX}` is the current view of the history that `{history}` makes: take another name"
            yield path, refusal(drafts[path].place("materialize", "a table"), "current-view", message)


def _grains(drafts: Drafts, lineage: Lineage) -> Found:
    """DP-7: keys are no times."""
    for path, script in lineage.scripts.items():
        for asset in lineage.inputs(path):
            for producer in lineage.producers.get(asset, ()):
                if _clash(script, lineage.scripts[producer]):
                    message = (
                        f"the slices of `{asset}` and of this script cannot be mapped: one has keys (`dynamic`), the other times."
                        f" `{producer}` is partitioned {_kind(lineage.scripts[producer])}"
                    )
                    yield path, refusal(_input_place(drafts[path], lineage, asset), "grain", message)


def _clash(consumer: Script, producer: Script) -> bool:
    kinds = {_kind(consumer), _kind(producer)}
    return None not in kinds and len(kinds) == 2 and "dynamic" in kinds


def _kind(script: Script) -> str | None:
    return script.header.partitioned.kind if script.header.partitioned else None


def _input_place(draft: Draft, lineage: Lineage, asset: str) -> Range:
    """The `on` line of an input; for a derived edge the line that makes the table."""
    for annotation, edge in zip(draft.reading.of("on"), draft.header.edges, strict=True):
        if lineage.event_asset(edge.uri) == asset:
            return annotation.place("a URI")
    return draft.place("materialize") if draft.header.materialize else draft.place("pipeline")
