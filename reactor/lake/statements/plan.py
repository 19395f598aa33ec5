"""The compiled SQL of a run: what it executes of a script, in order, as text.

Two callers need the same answer: `reactor compile`, which executes nothing, and a run, which executes exactly this. So it follows from the
script, the asset partition and the shape of the target alone. Not part of it are what makes `batch` and `wm_partition`, the checks and repairs
of staged rows, the mark, and the quarantine: they are the same for every script. Nor is it told where an append that only names columns is
staged by a view, or where `latest=` waits for the types of the table: the text is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from reactor.domain.assets import LakeTable
from reactor.domain.runs import Strategy
from reactor.domain.scripts import Materialize, Script
from reactor.errors import RunBlocked
from reactor.lake.statements import writing
from reactor.lake.statements.staging import DELETED, Latest, Selected, stage

Shape = Literal["missing", "same", "other", "view"]
"""What stands at the target's name: nothing, a table with the staged columns, one with others, a view."""


@dataclass(frozen=True, slots=True)
class Target:
    """The table a run writes, and the slice; `asset_partition` is None where the table has no slices."""

    table: LakeTable
    materialize: Materialize
    asset_partition: str | None
    each_lands: bool
    replace_slice: bool

    @property
    def latest(self) -> Latest | None:
        """`key= latest=`, where it counts."""
        m = self.materialize
        return Latest(m.key, m.latest) if m.strategy == "merge" and m.latest else None


def target(script: Script, asset_partition: str, *, replace_slice: bool = False) -> Target:
    """What a managed script writes for one asset partition."""
    m = script.managed
    if m is None:
        raise RunBlocked(f"{script.path} materializes no table itself")
    partitioned = script.header.partitioned is not None
    return Target(LakeTable.parse(m.asset), m, asset_partition if partitioned else None, script.body.reads_batch, replace_slice)


def _append(to: Target, shape: Shape, hidden: Sequence[str]) -> list[str]:
    emptied = [writing.delete(to.table, to.asset_partition)] if to.replace_slice and shape != "missing" else []
    return [*_made(to, shape, hidden), *emptied, writing.insert(to.table, hidden)]


def _replace(to: Target, shape: Shape, hidden: Sequence[str]) -> list[str]:
    whole = to.asset_partition is None
    room = [writing.drop(to.table, view=shape == "view")] if whole and shape in {"view", "other"} else []
    if room or shape == "missing":
        return [*room, *_made(to, "missing", hidden), writing.insert(to.table, hidden)]
    return [writing.delete(to.table, to.asset_partition), writing.insert(to.table, hidden)]


def _merge(to: Target, shape: Shape, hidden: Sequence[str]) -> list[str]:
    m = to.materialize
    merged = writing.merge(to.table, to.asset_partition, m.key, to.latest, each_lands=to.each_lands, hidden=hidden)
    return [*_made(to, shape, hidden), *merged]


def _made(to: Target, shape: Shape, hidden: Sequence[str]) -> list[str]:
    return make_table(to, hidden) if shape == "missing" else []


def make_table(to: Target, hidden: Sequence[str]) -> list[str]:
    """The empty table, after the staged rows."""
    unstored = (*hidden, DELETED) if to.materialize.strategy == "merge" else hidden
    return writing.create(to.table, partitioned=to.asset_partition is not None, hidden=unstored)


_WRITERS: Mapping[Strategy, Callable[[Target, Shape, Sequence[str]], list[str]]] = {"append": _append, "replace": _replace, "merge": _merge}


def write(to: Target, shape: Shape, selected: Selected) -> list[str]:
    """The statements between BEGIN and COMMIT. Each of them that is no DDL answers with the number of rows it changed."""
    return _WRITERS[to.materialize.strategy](to, shape, selected.hidden)


def compiled(to: Target, shape: Shape, selected: Selected, setup: Sequence[str]) -> list[str]:
    """All of it: the setup, the staged SELECT, the write."""
    return [*setup, stage(selected, to.asset_partition, to.latest), "BEGIN", *write(to, shape, selected), "COMMIT"]


def as_text(statements: Sequence[str]) -> str:
    """Statements one below the other, as they are stored with a run."""
    return "".join(f"{statement.rstrip().rstrip(';')};\n" for statement in statements)
