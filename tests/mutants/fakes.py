"""The fakes of lake and state, each with one rule broken: the contract that the real parts keep falls over every one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from reactor.domain.runs import PartitionCounts, RunId
from reactor.domain.spans import PositionClaim, PositionKey, Token
from reactor.errors import Conflict, Outage
from reactor.ports import NewRun
from reactor.testing import MemoryDatabase, MemoryState
from reactor.testing.memory_database import PartitionRow, Tables
from reactor.testing.memory_lake import MemoryStaged
from tests.mutants.mutant import Mutant, Patch
from tests.mutants.protocol import said

_move, _complete, _stands, _commit = MemoryDatabase.move, MemoryDatabase.complete, MemoryDatabase._stands, MemoryStaged.commit
_fail, _fail_partitions = MemoryState.fail, MemoryState._fail_partitions
STATES, QUEUES, LAKES = (f"tests/contract/test_{name}.py::test_" for name in ("states", "states_queues", "lakes"))


def memory_keeps_half(patch: Patch) -> None:
    """What a refused commit had written by then stays."""
    patch.setattr(Tables, "restore", lambda _self, _before: None)


def memory_no_token(patch: Patch) -> None:
    """A position moves whatever token is believed."""

    def move(self: MemoryDatabase, me: Token, claims: Collection[PositionClaim]) -> frozenset[PositionKey]:
        stored = self.tables.positions
        return _move(self, me, [replace(claim, believed=stored[claim.key].token) for claim in claims if claim.key in stored])

    patch.setattr(MemoryDatabase, "move", move)


def memory_no_partition_token(patch: Patch) -> None:
    """Slices are written whatever token is believed."""

    def stands(self: MemoryDatabase, run: Any, claim: Any) -> PartitionRow:
        return _stands(self, run, replace(claim, compare=False))

    patch.setattr(MemoryDatabase, "_stands", stands)


def memory_ended_run_commits(patch: Patch) -> None:
    """A run that has ended commits."""

    def complete(self: MemoryDatabase, run_id: RunId, *rest: Any) -> None:
        if run_id in self.tables.runs:
            self.tables.runs[run_id] = replace(self.tables.runs[run_id], state="running")
        _complete(self, run_id, *rest)

    patch.setattr(MemoryDatabase, "complete", complete)


def memory_rows_without_state(patch: Patch) -> None:
    """Rows are published although their state is refused."""

    def complete(self: MemoryDatabase, *arguments: Any) -> None:
        with suppress(Conflict):
            _complete(self, *arguments)

    patch.setattr(MemoryDatabase, "complete", complete)


def memory_lost_is_not_done(patch: Patch) -> None:
    """A COMMIT whose answer is lost has not happened."""

    def commit(self: MemoryStaged) -> None:
        if self._db.answers_lost:
            self._db.answers_lost, self._open = 0, None
            raise Outage("cut")
        _commit(self)

    patch.setattr(MemoryStaged, "commit", commit)


def memory_fails_without_a_word(patch: Patch) -> None:
    """Why a run failed is not kept."""

    async def fail(self: MemoryState, run_id: RunId | None, run: NewRun | None, error: str, *, final: bool) -> None:  # noqa: ARG001 (what is broken)
        await _fail(self, run_id, run, "", final=final)

    patch.setattr(MemoryState, "fail", fail)


def memory_failed_is_materialized(patch: Patch) -> None:
    """A failure takes the token of its asset partitions, and they go on as materialized."""

    def fail_partitions(self: MemoryState, tables: Tables, run: NewRun) -> None:
        _fail_partitions(self, tables, run)
        tables.partitions |= {key: replace(row, status="materialized") for key, row in tables.partitions.items()}

    patch.setattr(MemoryState, "_fail_partitions", fail_partitions)


def memory_completes_again(patch: Patch) -> None:
    """A run without change that is completed once more is refused."""

    async def complete(self: MemoryState, run_id: RunId, counts: Sequence[PartitionCounts]) -> None:
        self._db.complete(run_id, counts)

    patch.setattr(MemoryState, "complete", complete)


def memory_pages_of_events(patch: Patch) -> None:
    """Who publishes goes on behind as many rows as it was given events, and gets some twice."""

    async def read_published(self: MemoryState, lo: int, limit: int) -> tuple[int, Sequence[Mapping[str, object]]]:
        events = [event for update, event in self._told(lo, limit) if update.changed]
        return lo + len(events), events

    patch.setattr(MemoryState, "read_published", read_published)


KILLERS = {
    memory_keeps_half: STATES + "a_stale_asset_partition_writes_nothing",
    memory_no_token: STATES + "a_stale_position_writes_nothing",
    memory_no_partition_token: LAKES + "of_two_that_replace_an_empty_slice_one_is_refused",
    memory_ended_run_commits: STATES + "a_run_that_has_ended_writes_nothing",
    memory_rows_without_state: LAKES + "a_refused_commit_leaves_nothing_and_keeps_what_was_staged",
    memory_lost_is_not_done: LAKES + "a_lost_answer_is_told_by_the_verdict_and_the_rows_are_there_once",
    memory_fails_without_a_word: STATES + "a_failure_without_a_retry_takes_the_token_of_its_asset_partitions",
    memory_failed_is_materialized: STATES + "a_failure_without_a_retry_takes_the_token_of_its_asset_partitions",
    memory_completes_again: STATES + "a_run_without_change_moves_its_position_and_tells_nobody",
    memory_pages_of_events: QUEUES + "what_is_published_comes_in_pages_and_holds_to_the_schema",
}
MUTANTS = [
    Mutant(install.__name__, said(install), "outbox" if killer.startswith(QUEUES) else "lake + state", killer, install)
    for install, killer in KILLERS.items()
]
