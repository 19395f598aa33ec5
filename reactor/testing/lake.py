"""A lake whose runs can be held or failed before a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from reactor.domain.runs import RunId
from reactor.domain.scripts import Script
from reactor.errors import Outage
from reactor.ports import Drift, Lake, SchemaVersion, Staged, StageOrder, Written

Step = Literal["stage", "write", "commit", "close"]
Gate = Callable[[Step, StageOrder], None]
"""Called in a worker thread before a step. It may block, and it may raise what the step may raise."""


@dataclass(frozen=True, slots=True)
class GatedLake:
    """`ports.Lake` around another one."""

    lake: Lake
    gate: Gate

    def stage(self, order: StageOrder) -> Staged:
        """See `ports.Lake`."""
        self.gate("stage", order)
        return _GatedRun(self.lake.stage(order), self.gate, order)

    def ensure_table(self, script: Script) -> UUID | None:
        """See `ports.Lake`."""
        return self.lake.ensure_table(script)

    def away(self) -> Mapping[str, str]:
        """See `ports.Lake`."""
        return self.lake.away()

    def rebuild(self) -> None:
        """See `ports.Lake`."""
        self.lake.rebuild()

    def close(self) -> None:
        """See `ports.Lake`."""
        self.lake.close()


@dataclass(frozen=True, slots=True)
class _GatedRun:
    """`ports.Staged` around another one."""

    staged: Staged
    gate: Gate
    order: StageOrder

    @property
    def schema(self) -> SchemaVersion | None:
        return self.staged.schema

    @property
    def drift(self) -> Drift:
        return self.staged.drift

    @property
    def compiled_sql(self) -> str:
        return self.staged.compiled_sql

    @property
    def timings(self) -> Mapping[str, float]:
        return self.staged.timings

    @property
    def outcomes(self) -> Mapping[str, int]:
        return self.staged.outcomes

    @property
    def warnings(self) -> Sequence[str]:
        return self.staged.warnings

    @property
    def rows(self) -> int:
        return self.staged.rows

    @property
    def stale(self) -> bool:
        return self.staged.stale

    def write(self, run_id: RunId) -> Written:
        self.gate("write", self.order)
        return self.staged.write(run_id)

    def commit(self) -> None:
        try:
            self.gate("commit", self.order)
        except BaseException:
            self.staged.rollback()  # as after a COMMIT that raised, nothing is open
            raise
        self.staged.commit()

    def rollback(self) -> None:
        self.staged.rollback()

    def settled(self, *, committed: bool) -> None:
        self.staged.settled(committed=committed)

    def close(self) -> None:
        with suppress(Outage):  # nothing that was staged may stay
            self.gate("close", self.order)
        self.staged.close()
