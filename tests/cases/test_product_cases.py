"""The given cases that take the whole product: each kind runs once, all its cases together, and every case is a test."""

import asyncio
import fcntl
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.cases.__main__ import run_together
from tests.cases.files import Kind, read_kinds, read_pending
from tests.cases.test_cases_program import GIVEN
from tests.conftest import shared_folder
from tests.harness import Ground

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in read_kinds(GIVEN) if kind.name in {"payload", "event_time", "kafka_flow", "materialize", "schema_change", "cascade"}
}
PENDING = read_pending()
WRONG: Mapping[str, Mapping[str, Any]] = {
    "payload": {"pay-01": {"row": {"id": "2", "a": "9007199254740992"}}, "pay-03": {"quarantine": "wrong_type"}, "pay-32": {"row": {"id": None}}},
    "event_time": {"evt-01": {"partition": "2026-03-01"}, "evt-02": {"instant": "2026-02-28T23:59:59Z"}, "evt-17": {"quarantine": "bad_event_time"}},
    "kafka_flow": {"kfk-01": {"ids": [0, 1, 2, 3]}, "kfk-05": {"gap_reported": {}}, "kfk-06": {"visible": "position 99 is beyond the log end"}},
    "materialize": {"mat-01": {"rows": [["a", "1"]]}, "mat-06": {"error": "2 keys with more than one row"}},
    "schema_change": {"sch-01": {"reported": {}}, "sch-12": {"error": "qty: 3000000000 does not fit SMALLINT"}},
    "cascade": {"cas-01": {"order": ["c", "b", "a"]}, "cas-06": {"runs": {"a": 1}}},
}
"""Cases with another right answer, which their runner has to refuse."""
DOUBTFUL = {name: next(iter(wrong)) for name, wrong in WRONG.items()}
"""One case a kind that is given both answers, and so has to pass."""


def spoilt(case: Mapping[str, Any], wrong: Mapping[str, Any]) -> dict[str, Any]:
    """The case with a wrong answer, under another id."""
    own = {**case, "id": f"wrong-{case['id']}"}
    if "runs" in case:
        return {**own, "runs": [*case["runs"][:-1], {**{k: v for k, v in case["runs"][-1].items() if k not in {"rows", "error"}}, **wrong}]}
    return {**own, "expect": wrong}


def doubtful(case: Mapping[str, Any], wrong: Mapping[str, Any]) -> dict[str, Any]:
    """The case with a wrong answer beside the right one, under another id."""
    own = {**case, "id": f"either-{case['id']}"}
    if "runs" not in case:
        return {**own, "expect": {"one_of": [wrong, case["expect"]]}}
    last = case["runs"][-1]
    asked = {name: last[name] for name in last.keys() & {"src", "columns", "partition"}}
    return {**own, "runs": [*case["runs"][:-1], {**asked, "one_of": [wrong, {name: last[name] for name in last.keys() - asked.keys()}]}]}


class Answers:
    """What is wrong with the cases of a kind, the spoilt and the doubtful ones too. A kind runs once for all workers, and again for a test that is tried again.

    `folder`: where the workers keep what they have found, a file a kind, locked by who reads it.
    """

    def __init__(self, ground: Ground, folder: Path) -> None:
        self._ground, self._folder = ground, folder
        folder.mkdir(parents=True, exist_ok=True)

    def of(self, name: str, case_id: str) -> str | None:
        """Of one case; what is wrong is forgotten once it is told."""
        with (self._folder / f"{name}.json").open("a+") as kept:
            fcntl.flock(kept, fcntl.LOCK_EX)
            kept.seek(0)
            found: Mapping[str, str | None] = json.loads(kept.read() or "{}")
            if not found:
                found = self._run(name)
                json.dump(found, kept)
            if found[case_id] is not None and not case_id.startswith("wrong-"):
                kept.truncate(0)
            return found[case_id]

    def _run(self, name: str) -> Mapping[str, str | None]:
        kind = KINDS[name]
        ready = [case for case in kind.cases if waits_for(name, case) is None]
        wrong = [spoilt(case, WRONG[name][str(case["id"])]) for case in kind.cases if case["id"] in WRONG[name]]
        either = [doubtful(case, WRONG[name][str(case["id"])]) for case in kind.cases if case["id"] == DOUBTFUL[name]]
        with asyncio.Runner() as loop:
            return run_together(import_module(f"tests.cases.runners.{name}"), loop, [*ready, *wrong, *either], kind.setup, self._ground)


@pytest.fixture(scope="module")
def answers(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(Ground(postgres_server, tmp_path_factory.mktemp("ground")), shared_folder(tmp_path_factory) / "answers")


def waits_for(name: str, case: Mapping[str, Any]) -> str | None:
    """The row of the feature table that a case waits for."""
    return next((rule.row for rule in PENDING if rule.holds(name, case)), None)


@pytest.mark.parametrize(("name", "case"), [
    pytest.param(name, case, id=str(case["id"]), marks=[pytest.mark.skip(reason=f"waits for {row}")] if row else [])
    for name, kind in KINDS.items() for case in kind.cases for row in [waits_for(name, case)]
])  # fmt: skip
def test_given(answers: Answers, name: str, case: Mapping[str, Any]) -> None:
    assert answers.of(name, case["id"]) is None


@pytest.mark.parametrize(("name", "case_id"), [(name, case_id) for name, cases in WRONG.items() for case_id in cases])
def test_a_wrong_answer_is_told(answers: Answers, name: str, case_id: str) -> None:
    assert answers.of(name, f"wrong-{case_id}")


@pytest.mark.parametrize(("name", "case_id"), DOUBTFUL.items())
def test_one_of_several_answers_is_enough(answers: Answers, name: str, case_id: str) -> None:
    assert answers.of(name, f"either-{case_id}") is None
