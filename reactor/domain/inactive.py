"""What the grammar has and Reactor does not do yet: `check` says so, and `serve` refuses such scripts, so that nothing is half done.

`INACTIVE` is the whole list. A change that makes a feature work takes its line away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from reactor.domain.annotations import Annotation
from reactor.domain.annotations.inputs import Input
from reactor.domain.diagnostics import Diagnostic, finding
from reactor.domain.rules.draft import Draft
from reactor.domain.scripts import Materialize, TriggerRule


class Inactive(NamedTuple):
    """A feature that waits: the keyword whose lines may have it, what it is called, and which lines have it (all by default)."""

    keyword: str
    feature: str
    has: Callable[[object], bool] = lambda _: True


def _input(has: Callable[[Input], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, Input) and has(value)


def _target(has: Callable[[Materialize], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, Materialize) and has(value)


INACTIVE: Final = (
    Inactive("on", "objects that land", _input(lambda i: i.edge.kind in {"s3", "file"})),
    Inactive("on", "native triggers", _input(lambda i: i.asset is None)),
    Inactive("on", "datatables", _input(lambda i: i.edge.uri.startswith("datatable:"))),
    Inactive("on", "topics by a pattern", _input(lambda i: i.edge.kind == "kafka" and "*" in i.edge.uri)),
    Inactive("on", "`format=` other than json and raw", _input(lambda i: i.edge.kind == "kafka" and i.edge.format not in {None, "json", "raw"})),
    Inactive("materialize", "histories", _target(lambda m: m.strategy == "scd2")),
    Inactive("materialize", "`manual`", _target(lambda m: m.strategy == "manual")),
    Inactive("materialize", "`on_schema_change=` other than warn", _target(lambda m: m.on_schema_change != "warn")),
    Inactive("trigger", "`trigger all`", lambda value: isinstance(value, TriggerRule) and value.mode == "all"),
    Inactive("freshness", "`freshness`"),
    Inactive("data_test", "`data_test`"),
    Inactive("column", "`column`"),
    Inactive("incremental", "`incremental`"),
    Inactive("macros", "`macros`"),
    Inactive("use", "`use`"),
    Inactive("on_failure", "`on_failure`"),
    Inactive("pre_run", "`pre_run`"),
    Inactive("read", "`read pinned`"),
)


def inactive_findings(draft: Draft) -> Iterator[Diagnostic]:
    """A note for each thing of a script that is known and not active yet."""
    for annotation in draft.reading.annotations:
        for feature in INACTIVE:
            if feature.keyword == annotation.keyword and feature.has(annotation.value):
                yield _note(annotation, feature.feature)
    objects = [edge.uri for edge in draft.derived if edge.kind in {"s3", "file"}]
    if objects and (pipeline := draft.reading.first("pipeline")):
        yield _note(pipeline, f"edges from objects that the body reads (`{objects[0]}`; `mute` drops them)")
    suffix = "." + draft.path.rpartition(".")[2]
    if draft.language == "other" and suffix not in draft.names.runners:
        for first in draft.reading.annotations[:1]:
            yield _note(first, f"programs `{suffix}` that no `[runners.<name>]` has a command for")


def _note(annotation: Annotation, feature: str) -> Diagnostic:
    return finding(annotation.place(), "note", "not-active", f"known, not active yet: {feature}")
