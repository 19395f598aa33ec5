"""The calendar cases, one test each; the same runner serves `python -m tests.cases`."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.cases import Case
from tests.cases.files import read_kinds
from tests.cases.runners import calendar

(KIND,) = (kind for kind in read_kinds(Path(__file__).parent) if kind.name == "calendar")
DAYS = {"id": "own-1", "op": "tiles", "partitioned": "daily", "zone": "America/St_Johns", "from": "2010-11-01", "to": "2010-11-30"}


@pytest.fixture(scope="module")
def session() -> Iterator[duckdb.DuckDBPyConnection]:
    with calendar.environment() as connection:
        yield connection


@pytest.mark.parametrize("case", KIND.cases, ids=lambda case: str(case["id"]))
def test_given(case: Case, session: duckdb.DuckDBPyConnection) -> None:
    assert calendar.run(case, KIND.setup, session) is None


def test_slices_tile_a_range(session: duckdb.DuckDBPyConnection) -> None:
    assert calendar.run({**DAYS, "expect": {"tiles": True, "count": 30, "gaps": 0, "overlaps": 0, "first": "2010-11-01"}}, {}, session) is None
    assert "wanted {'count': 31}" in str(calendar.run({**DAYS, "expect": {"count": 31}}, {}, session))


def test_a_wrong_answer_is_told(session: duckdb.DuckDBPyConnection) -> None:
    case = {**KIND.cases[0], "expect": {"identity": "2026-03-02"}}
    assert "'identity': '2026-03-01'" in str(calendar.run(case, KIND.setup, session))
