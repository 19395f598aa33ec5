"""The engine in random lives: a pure function of (state, input, now), and each effect is answered by exactly one later input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from reactor.core.effects import (
    Discard,
    Effect,
    Outcome,
    RangeRead,
    ReadRange,
    Settle,
    Settled,
    StartRun,
    Switched,
    SwitchRouting,
    WriteAgain,
)
from reactor.core.engine import Engine
from tests.properties.world import World, walk

LIVES = 60
INPUTS = (
    "set_scripts", "assigned", "park", "unassigned", "loaded", "reload", "reload_behind", "forget_all", "offer", "range_read", "tick", "outcome",
    "settled", "switched", "pause",
)  # fmt: skip
Call = tuple[str, tuple[Any, ...], object]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> dict[Engine, list[Call]]:
    """What every engine was told from now on, and what it answered."""
    heard: dict[Engine, list[Call]] = {}

    def listen(name: str) -> None:
        honest = getattr(Engine, name)

        def told(self: Engine, *args: Any) -> object:
            args = tuple(list(arg) if name in {"park", "unassigned", "reload"} else arg for arg in args)
            calls = heard.setdefault(self, [])
            depth = len(calls)
            answer = honest(self, *args)
            del calls[depth:]  # what an engine asks of itself is no input
            calls.append((name, args, answer))
            return answer

        monkeypatch.setattr(Engine, name, told)

    for name in INPUTS:
        listen(name)
    monkeypatch.setattr(World, "merge_twice", lambda _self, _x, _p: None)  # it reaches into a debouncer
    return heard


def test_an_engine_is_a_function_of_its_inputs(heard: dict[Engine, list[Call]], monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(LIVES):
        walk(World(seed))
    monkeypatch.undo()
    for engine, calls in heard.items():
        again = Engine(engine.limits, "prod")
        for name, args, answer in calls:
            assert getattr(again, name)(*args) == answer


def test_each_effect_is_answered_once(heard: dict[Engine, list[Call]]) -> None:
    for seed in range(LIVES):
        walk(World(seed))
    for calls in heard.values():
        open_tickets: dict[int, type[Effect]] = {}
        for _, args, answer in calls:
            for given in args:
                if isinstance(given, Outcome | Settled | Switched | RangeRead):
                    assert given.ticket in open_tickets
                    del open_tickets[given.ticket]
            effects: Sequence[Any] = answer if isinstance(answer, list) else []
            for effect in effects:
                if isinstance(effect, StartRun | WriteAgain | Settle | SwitchRouting | ReadRange):
                    assert effect.ticket not in open_tickets
                    open_tickets[effect.ticket] = type(effect)
                assert not isinstance(effect, Discard) or effect.ticket not in open_tickets
