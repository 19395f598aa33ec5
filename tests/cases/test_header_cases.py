"""The given cases that `check_project` alone can answer: every header, and what `check` says of a graph."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cases.files import read_kinds
from tests.cases.runners import graphs, header
from tests.cases.test_cases_program import GIVEN

Facts = Mapping[str, Any]
KINDS = {kind.name: kind for kind in read_kinds(GIVEN)}
GRAPHS: list[Facts] = [dict(case) for case in KINDS["cascade"].cases]


@pytest.mark.parametrize("case", KINDS["header"].cases, ids=lambda case: str(case["id"]))
def test_header(case: Facts) -> None:
    assert header.run(case, KINDS["header"].setup) is None


@pytest.mark.parametrize("case", [case for case in GRAPHS if "check" in case["do"]], ids=lambda case: str(case["id"]))
def test_check_of_a_graph(case: Facts) -> None:
    assert graphs.check_differences(graphs.check(case), case["expect"]) == []


@pytest.mark.parametrize("case", GRAPHS, ids=lambda case: str(case["id"]))
def test_the_short_form_of_every_graph_is_a_sound_project(case: Facts) -> None:
    if case["expect"].get("exit", 0) == 0:
        assert [str(found) for found in graphs.check(case).diagnostics if found.severity == "error"] == []
