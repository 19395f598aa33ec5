"""The debounce cases on virtual time, one test each."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cases.files import read_kinds
from tests.cases.runners import debounce
from tests.cases.test_cases_program import GIVEN

(KIND,) = (kind for kind in read_kinds(GIVEN) if kind.name == "debounce")


@pytest.mark.parametrize("case", KIND.cases, ids=lambda case: str(case["id"]))
def test_given(case: Mapping[str, Any]) -> None:
    assert debounce.run(case, KIND.setup) is None


def test_a_wrong_answer_is_told() -> None:
    case: dict[str, Any] = dict(KIND.cases[0])
    due = [{**one, "due": one["due"] + 1} for one in case["expect"]["due"]]
    assert "wanted" in str(debounce.run({**case, "expect": {**case["expect"], "due": due}}, KIND.setup))
