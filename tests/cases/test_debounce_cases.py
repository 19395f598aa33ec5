"""The debounce cases on virtual time, one test each."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cases.comparing import Unknown
from tests.cases.files import read_kinds
from tests.cases.runners import debounce
from tests.cases.test_cases_program import GIVEN

(KIND,) = (kind for kind in read_kinds(GIVEN) if kind.name == "debounce")


@pytest.mark.parametrize("case", KIND.cases, ids=lambda case: str(case["id"]))
def test_given(case: Mapping[str, Any]) -> None:
    assert debounce.run(case, KIND.setup) is None


def own(events: list[float], *due: tuple[float, list[int]], **more: object) -> str | None:
    slices = [{"due": at, "partition": "2026-03-01", "events": ids} for at, ids in due]
    given = [{"id": number, "t": at} for number, at in enumerate(events, 1)]
    return debounce.run({"debounce": "5s max=20s", "events": given, "expect": {"due": slices}, **more}, KIND.setup)


def test_sums_of_seconds_are_nearly_equal() -> None:
    assert own([0, 4.999], (9.999, [1, 2])) is None
    assert own([0, 4.999], (9.9991, [1, 2])) is not None


def test_a_start_that_fails_is_the_start_of_what_it_becomes() -> None:
    then = ["the first StartRun fails because the lake does not answer for 10 s"]
    assert own([0, 8], (5, [1, 2]), then=then) is None
    with pytest.raises(Unknown, match="does not know"):
        own([0], (5, [1]), then=["the moon rises"])


def test_answers_may_be_several_and_counts_between() -> None:
    right = {"due": [{"due": 5, "partition": "2026-03-01", "events": [1]}]}
    assert own([0], expect={"one_of": [{"due": []}, right]}) is None
    assert "completed_runs" in str(own([0], expect={"one_of": [{"due": []}, {"completed_runs": 2}]}))
    assert own([0], expect={**right, "completed_runs_between": [1, 2], "events_lost": 0}) is None


def test_what_is_due_together_is_free_and_nothing_else() -> None:
    swapped = [{"due": 5, "partition": "2026-03-01", "events": [2]}, {"due": 15, "partition": "2026-03-01", "events": [1]}]
    assert own([0, 10], expect={"due": swapped}) is not None


def test_a_wrong_answer_is_told() -> None:
    case: dict[str, Any] = dict(KIND.cases[0])
    due = [{**one, "due": one["due"] + 1} for one in case["expect"]["due"]]
    assert "wanted" in str(debounce.run({**case, "expect": {**case["expect"], "due": due}}, KIND.setup))
