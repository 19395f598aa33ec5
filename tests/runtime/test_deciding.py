"""The decision log between the loop and the state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from reactor.domain.decisions import Decision
from reactor.domain.scripts import ScriptPath
from reactor.domain.spans import Consumer, SourcePartition
from reactor.errors import Outage
from reactor.ports import State
from reactor.runtime import deciding
from reactor.runtime.deciding import BATCH_ROWS, DecisionLog
from reactor.telemetry import Telemetry

pytestmark = pytest.mark.anyio
TOPIC = SourcePartition("kafka://main/orders", "0")
A = Consumer("ducklake://main/a")


@dataclass
class Written:
    """A state that keeps batches, or is away."""

    batches: list[Sequence[Decision]] = field(default_factory=list)
    away: bool = False

    async def write_decisions(self, decisions: Sequence[Decision]) -> None:
        if self.away:
            raise Outage
        self.batches.append(decisions)


def log(state: Written) -> tuple[DecisionLog, Telemetry]:
    telemetry = Telemetry()
    telemetry.know_asset(A, table=True, streams=True, fired=True)
    return DecisionLog(cast("State", state), telemetry), telemetry


def span(lo: int, hi: int, partition: str = "") -> Decision:
    return Decision(A, ScriptPath("a.sql"), TOPIC, lo, hi, partition, "dispatched")


def count(telemetry: Telemetry, outcome: str, reason: str = "") -> float | None:
    return telemetry.registry.get_sample_value("reactor_decisions_total", {"asset": A, "outcome": outcome, "reason": reason})


async def test_an_event_counts_once_whatever_slices_it_opens() -> None:
    decisions, telemetry = log(Written())
    assert (count(telemetry, "dispatched"), count(telemetry, "skipped", "cycle")) == (0, 0)
    decisions.note([span(0, 9, "a"), span(0, 9, "b")])
    assert count(telemetry, "dispatched") == 1
    event = span(4, 5)._replace(event_id="e")
    decisions.note([event, event._replace(partition="b"), event._replace(event_id="f", lo=5)])
    assert count(telemetry, "dispatched") == 3
    decisions.note([event._replace(outcome="skipped", reason="cycle")])
    assert (count(telemetry, "dispatched"), count(telemetry, "skipped", "cycle")) == (3, 1)


async def test_spans_of_one_slice_are_written_once_with_the_last_word() -> None:
    state = Written()
    decisions, _ = log(state)
    for hi in (10, 20, 30):
        decisions.note([span(0, hi)])
    await decisions.write()
    await decisions.write()
    assert [[(d.lo, d.hi) for d in batch] for batch in state.batches] == [[(0, 30)]]


async def test_many_are_written_in_batches() -> None:
    state = Written()
    decisions, _ = log(state)
    decisions.note([span(n, n + 1) for n in range(BATCH_ROWS + 1)])
    await decisions.write()
    assert [len(batch) for batch in state.batches] == [BATCH_ROWS, 1]


async def test_of_many_open_slices_only_so_many_are_written_again_and_new_ones_always() -> None:
    state = Written()
    decisions, _ = log(state)
    decisions.note([span(0, 10, str(n)) for n in range(5)])
    await decisions.write(2)
    decisions.note([span(0, 20, str(n)) for n in range(5)] + [span(0, 20, "new"), span(7, 8)._replace(event_id="e")])
    for _ in range(3):
        await decisions.write(2)
    assert [{d.partition for d in batch} for batch in state.batches] == [{"0", "1", "2", "3", "4"}, {"0", "1", "new", ""}, {"2", "3"}, {"4"}]
    assert {d.hi for batch in state.batches[1:] for d in batch if d.event_id is None} == {20}


async def test_what_comes_while_it_is_written_is_not_lost() -> None:
    class Slow(Written):
        async def write_decisions(self, decisions_: Sequence[Decision]) -> None:
            if not self.batches:
                decisions.note([span(0, 20), span(50, 60)])
            await Written.write_decisions(self, decisions_)

    state = Slow()
    decisions, _ = log(state)
    decisions.note([span(0, 10)])
    await decisions.write()
    await decisions.write()
    assert [[(d.lo, d.hi) for d in batch] for batch in state.batches] == [[(0, 10)], [(0, 20), (50, 60)]]


async def test_an_outage_keeps_them_and_newer_words_win() -> None:
    state = Written(away=True)
    decisions, _ = log(state)
    decisions.note([span(0, 10), span(50, 60, "b")])
    with pytest.raises(Outage):
        await decisions.write()
    decisions.note([span(0, 20)])
    state.away = False
    await decisions.write()
    assert {(d.lo, d.hi) for d in state.batches[0]} == {(0, 20), (50, 60)}


async def test_a_long_outage_costs_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "WAITING_MAX", 3)
    state = Written()
    decisions, _ = log(state)
    decisions.note([span(n, n + 1) for n in range(5)])
    await decisions.write()
    assert [d.lo for d in state.batches[0]] == [2, 3, 4]


async def test_a_skipped_event_is_said(caplog: pytest.LogCaptureFixture) -> None:
    decisions, _ = log(Written())
    with caplog.at_level("INFO"):
        decisions.note([span(4, 5)._replace(event_id="e", outcome="skipped", reason="cycle"), span(5, 6)])
    (said,) = caplog.records
    assert (vars(said)["event"], vars(said)["reason"], vars(said)["event_id"]) == ("dispatch_skipped", "cycle", "e")
