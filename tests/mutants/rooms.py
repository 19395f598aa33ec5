"""The invariants of the house, each broken by who keeps it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from connectors.kafka import columns
from reactor.core import effects, engine, router
from reactor.core.debouncer import Debouncer, OpenSlice
from reactor.core.engine import Engine
from reactor.core.feeds import Feeds
from reactor.core.lanes import Lane, Running
from reactor.core.ledger import Ledger
from reactor.domain.lineage import Lineage
from reactor.domain.partitions.calendars import Calendar, Slice
from reactor.domain.spans import SourcePartition
from reactor.lake.decoding import payload
from reactor.lake.keep import Keep
from reactor.runtime import loop
from reactor.runtime.publishing import Publishing
from reactor.runtime.service import Service
from reactor.testing import ScriptedSource
from tests.mutants.mutant import Mutant, Patch
from tests.mutants.protocol import MACHINE, said
from tests.properties.store import Store

_slice_at, _choose, _targets, _take_due = Calendar._slice_at, Lane.choose, router.targets, Debouncer.take_due
_commit, _settle, _take_out = Store.commit, Engine.settle, Ledger._take_out
DAY = 86_400_000_000
PARTITIONS, LINEAGE = "tests/domain/test_partitions.py::test_", "tests/domain/test_lineage.py::test_"
DEBOUNCER, ENGINE = "tests/core/test_debouncer.py::", "tests/core/test_engine.py::test_"


# -- domain


def day_of_24_hours(patch: Patch) -> None:
    """Every slice lasts as long as one without a change of clocks."""

    def even(self: Calendar, second: int) -> Slice:
        whole = _slice_at(self, second)
        return Slice(whole.identity, whole.start, whole.start + DAY) if whole.end - whole.start in {DAY * 23 // 24, DAY * 25 // 24} else whole

    patch.setattr(Calendar, "_slice_at", even)


def circles_unseen(patch: Patch) -> None:
    """Scripts that fire each other in a circle are not found."""
    patch.setattr(Lineage, "circles", lambda _self: ())


# -- router


def last_slice_missed(patch: Patch) -> None:
    """An event of a coarser asset leaves out the last slice inside."""

    def targets(*args: Any) -> Any:
        found = _targets(*args)
        return found[:-1] if isinstance(found, tuple) and len(found) > 1 else found

    patch.setattr("tests.core.test_router.targets", targets)


def targets_change(patch: Patch) -> None:
    """The same event goes elsewhere the second time."""
    calls = count()

    def targets(*args: Any) -> Any:
        found = _targets(*args)
        return found[::-1] if isinstance(found, tuple) and next(calls) % 2 else found

    patch.setattr("tests.core.test_router.targets", targets)


# -- debouncer


def no_ceiling(patch: Patch) -> None:
    """A busy source postpones its slice for ever."""
    patch.setattr(OpenSlice, "due_at", property(lambda self: min(last + w.quiet_seconds for w, (_, last) in self.arrivals.items())))


def deadline_of_the_past(patch: Patch) -> None:
    """A deadline that has passed is told again."""
    patch.setattr(Debouncer, "next_deadline", lambda self: min((s.first_at for s in self._open.values()), default=None))


def slice_is_due_twice(patch: Patch) -> None:
    """What went into a run stays due."""
    patch.setattr(Debouncer, "remove", lambda self, d: self._open.pop(d, None))


# -- ledger


def commit_after_revoke(patch: Patch) -> None:
    """The group offset of what is being revoked is committed."""

    def courtesy(self: Feeds, feeds: Any) -> list[effects.Effect]:
        lows = {feed: min((ledger.low for _, ledger in self.ledgers(feed)), default=-1) for feed in feeds}
        return [effects.CommitPosition(feed, low) for feed, low in lows.items() if feed in self.heads]

    patch.setattr(Feeds, "courtesy", courtesy)


def floor_regresses(patch: Patch) -> None:
    """A floor goes back to the oldest record that is open."""
    honest = Ledger._claim

    def claim(self: Ledger, taken: Any) -> Any:
        self.floor = min((pieces[0].lo for pieces in self.open.values()), default=self.floor)
        return honest(self, taken)

    patch.setattr(Ledger, "_claim", claim)


def never_paused(patch: Patch) -> None:
    """A source is not paused, however much waits."""
    patch.setattr(Feeds, "hold", lambda _self, _feed: [])


def one_fence_per_source_partition(patch: Patch) -> None:
    """One stream that is ahead counts for all streams of its source partition."""
    patch.setattr(Ledger, "at", lambda self, _d: max((self.floor, *self.fences.values())))


# -- lanes


def two_runs_in_a_lane(patch: Patch) -> None:
    """A lane starts a run while another one is in flight."""

    def choose(self: Lane, now: float) -> tuple[str, ...]:
        running, self.running = self.running, None
        chosen = _choose(self, now)
        self.running = running
        return chosen

    patch.setattr(Lane, "choose", choose)


def overtaking(patch: Patch) -> None:
    """A run overtakes its stream: what was put back counts as settled by the run behind it."""

    def put_back(self: Ledger) -> None:
        if self.inflight is None:
            return
        for d, (pieces, _) in self.inflight.taken.items():
            self.open[d] = [*self.open[d], *pieces] if d in self.open else list(pieces)
        self.inflight = None

    patch.setattr(Ledger, "put_back", put_back)


def left_is_settled(patch: Patch) -> None:
    """What was too much for a run counts as settled with it."""

    def take_out(self: Ledger, asset_partition: str, bytes_max: int | None) -> Any:
        pieces, _ = _take_out(self, asset_partition, bytes_max)
        self.open.pop(asset_partition, None)
        return pieces, self._reach(asset_partition)

    patch.setattr(Ledger, "_take_out", take_out)


def parked_is_forgotten(patch: Patch) -> None:
    """A run that takes a slice takes for done what a parked ledger holds of it."""
    honest = Lane.start

    def start(self: Lane, ticket: effects.Ticket, asset_partitions: tuple[str, ...]) -> Any:
        found = honest(self, ticket, asset_partitions)
        for d in asset_partitions:
            if not any(d in ledger.open for ledger in found[0].ledgers):
                self.debouncer.remove(d)
        return found

    patch.setattr(Lane, "start", start)


def failed_is_dropped(patch: Patch) -> None:
    """A run that failed for good is forgotten with its records."""

    def failed_for_good(_self: Lane, running: Running, _retry_at: float) -> None:
        for ledger in running.ledgers:
            ledger.drop(running.asset_partitions)

    patch.setattr(Lane, "failed_for_good", failed_for_good)


# -- engine


def tickets_of_the_process(patch: Patch) -> None:
    """What an engine says depends on what other engines have said."""
    numbers = count(1)
    patch.setattr(Engine, "_ticket", lambda _self: effects.Ticket(next(numbers)))


def asked_for_twice(patch: Patch) -> None:
    """An effect is asked for twice, so its answer comes twice."""
    patch.setattr(engine.Engine, "settle", lambda self, lanes: 2 * _settle(self, lanes))


# -- lake + state


def no_file_kept(patch: Patch) -> None:
    """What a COMMIT without an answer has written is deleted with the answer."""
    patch.setattr(Keep, "_written", lambda _self, _folder, _since: list[Path]())


def rejected_are_rows(patch: Patch) -> None:
    """What a decoding sets aside is counted among the rows of its slice."""
    honest = payload.decode

    def decode(*args: Any) -> payload.Decoded:
        found = honest(*args)
        return replace(found, accepted=None if found.accepted is None else np.ones_like(found.accepted))

    patch.setattr(payload, "decode", decode)


# -- sources


def courtesy_of_a_stranger(patch: Patch) -> None:
    """A reader commits for a source partition that it has no more."""

    async def commit(self: ScriptedSource, offsets: Mapping[SourcePartition, int]) -> None:
        self.logs.group_offsets |= {(self.group_id, p): offset for p, offset in offsets.items()}

    patch.setattr(ScriptedSource, "commit", commit)


def aborted_are_read(patch: Patch) -> None:
    """Records of an aborted transaction are handed over."""
    patch.setattr(columns.BatchHeader, "is_transactional", property(lambda _self: False))


def holes_are_nobody_s(patch: Patch) -> None:
    """A span ends behind its last record, so what compaction took after it is read again and again."""
    patch.setattr(columns.BatchHeader, "next_offset", property(lambda self: self.base_offset + self.rows))


# -- runtime


def queue_without_end(patch: Patch) -> None:
    """Spans queue up without a limit."""
    patch.setattr(loop, "SPANS_QUEUED_MAX", 0)


def stopped_without_a_drain(patch: Patch) -> None:
    """A service that stops leaves its running runs alone."""

    async def drain(_self: Service) -> None:
        """Nothing is waited for."""

    patch.setattr(Service, "_drain", drain)


# -- publishers


def moved_before_it_is_sent(patch: Patch) -> None:
    """A publisher's position moves first, and the events are sent after it."""
    honest = Publishing._batch

    async def batch(self: Publishing, position: Any) -> Any:
        sent: list[Sequence[Mapping[str, object]]] = []
        publisher = self.publisher

        class Later:
            async def publish(self, events: Sequence[Mapping[str, object]]) -> None:
                sent.append(events)

        self.publisher = Later()  # type: ignore[assignment]
        moved = await honest(self, position)
        self.publisher = publisher
        for events in sent:
            await publisher.publish(events)
        return moved

    patch.setattr(Publishing, "_batch", batch)


def told_before_it_is_committed(patch: Patch) -> None:
    """An event stands in the outbox although its commit was refused."""

    def commit(self: Store, run: Any, claims: Any, partitions: Any, diff: Any, rows: Collection[Any]) -> str:
        outcome = _commit(self, run, claims, partitions, diff, list(rows))
        if outcome == "RF001":
            self.outbox += [f"{run} {d}" for d in sorted({d for _, _, d in rows})]
        return outcome

    patch.setattr(Store, "commit", commit)


def _mutants(shows: str, killers: Mapping[Any, str]) -> list[Mutant]:
    return [Mutant(install.__name__, said(install), shows, killer, install) for install, killer in killers.items()]


MUTANTS = [
    *_mutants("architecture", {
        one_fence_per_source_partition: MACHINE,
        overtaking: MACHINE,
        commit_after_revoke: ENGINE + "no_group_commit_after_revoke",
    }),
    *_mutants("domain", {
        day_of_24_hours: PARTITIONS + "slices_tile_time_and_their_names_lead_back",
        circles_unseen: LINEAGE + "the_graph_against_a_naive_one",
    }),
    *_mutants("router", dict.fromkeys([last_slice_missed, targets_change], "tests/core/test_router.py::test_targets_hold_the_slice_and_are_always_the_same")),
    *_mutants("debouncer", {
        no_ceiling: DEBOUNCER + "test_a_busy_source_cannot_postpone_past_the_ceiling",
        deadline_of_the_past: DEBOUNCER + "TestSlices::runTest",
        slice_is_due_twice: DEBOUNCER + "TestSlices::runTest",
    }),
    *_mutants("ledger", {floor_regresses: MACHINE, never_paused: ENGINE + "over_the_limit_the_oldest_slice_is_due_and_a_stuck_lane_is_detached"}),
    *_mutants("lanes", {
        **dict.fromkeys([two_runs_in_a_lane, left_is_settled, failed_is_dropped], MACHINE),
        parked_is_forgotten: ENGINE + "what_comes_straight_back_later_than_its_neighbour_is_still_due",
    }),
    *_mutants("engine", {tickets_of_the_process: "tests/properties/test_engine_lives.py::test_an_engine_is_a_function_of_its_inputs", asked_for_twice: MACHINE}),
    *_mutants("lake + state", {
        no_file_kept: "tests/lake/test_lost_answers.py::test_every_kind_of_write_is_whole_after_a_lost_answer",
        rejected_are_rows: "tests/lake/test_append.py::test_what_is_only_shown_is_counted_by_slice_without_what_is_set_aside",
    }),
    *_mutants("sources", {
        courtesy_of_a_stranger: "tests/contract/test_scripted_source.py::test_a_moved_source_partition_is_revoked_and_commit_is_a_courtesy",
        aborted_are_read: "tests/connectors/kafka/test_kafka_columns.py::test_same_as_the_plain_way",
        holes_are_nobody_s: "tests/connectors/kafka/test_kafka_columns.py::test_same_as_the_plain_way",
    }),
    *_mutants("runtime", {
        queue_without_end: "tests/runtime/test_loop.py::test_spans_wait_once_the_queue_is_full",
        stopped_without_a_drain: "tests/runtime/test_service_ends.py::test_in_order_with_what_is_running",
    }),
    *_mutants("publishers", dict.fromkeys([moved_before_it_is_sent, told_before_it_is_committed], MACHINE)),
]  # fmt: skip
