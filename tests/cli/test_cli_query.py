"""`reactor query`."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import NUMBERS, Reactor

VALUES = (
    "SELECT 1 AS a, 2 AS a, NULL AS nothing, 1.10::DECIMAL(5,2) AS price, 'x,\"y\"\n\x1b[31m' AS text, [1, NULL] AS list, {'k': true} AS struct,"
    " TIMESTAMPTZ '2026-06-19 10:00:00.123456+02' AS at, TIMESTAMP '2026-06-19 10:00:00' AS local, DATE '2026-06-19' AS day, 'ab'::BLOB AS bytes,"
    " 'nan'::DOUBLE AS nan, TIMESTAMP_NS '2026-06-19 10:00:00.123456789' AS exact, 12345678901234567890::HUGEINT AS huge"
)


@pytest.fixture
def folder(online: Callable[[Mapping[str, str]], Path], reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one table, which is the current folder."""
    made = online({"numbers.sql": NUMBERS})
    monkeypatch.chdir(made)
    assert reactor("run", "numbers.sql").exit_code == 0
    return made


@pytest.mark.usefixtures("folder")
def test_rows_as_a_table_as_csv_and_as_json(reactor: Reactor) -> None:
    sql = "SELECT rest, count(*) AS n FROM numbers GROUP BY rest ORDER BY rest"
    assert reactor("query", sql).out == "rest  n\n   0  4\n   1  3\n   2  3\n"
    assert reactor("query", sql, "--csv").out == "rest,n\n0,4\n1,3\n2,3\n"
    assert reactor("query", sql, "--json").answer == {
        "schema": "reactor.cli.query.v1", "warnings": [],
        "data": {"columns": [{"name": "rest", "type": "int64"}, {"name": "n", "type": "int64"}],
                 "rows": [{"rest": 0, "n": 4}, {"rest": 1, "n": 3}, {"rest": 2, "n": 3}]},
    }  # fmt: skip
    assert reactor("query", sql, "--csv", "--json").exit_code == 2


@pytest.mark.usefixtures("folder")
def test_values_stay_what_they_are(reactor: Reactor) -> None:
    assert reactor("query", VALUES, "--json").data["rows"] == [{
        "a": 1, "a_1": 2, "nothing": None, "price": "1.10", "text": "x,\"y\"\n\x1b[31m", "list": [1, None], "struct": {"k": True},
        "at": "2026-06-19T08:00:00.123456Z", "local": "2026-06-19T10:00:00", "day": "2026-06-19", "bytes": "6162", "nan": "nan",
        "exact": "2026-06-19 10:00:00.123456789", "huge": "12345678901234567890",
    }]  # fmt: skip
    shown = reactor("query", VALUES).out
    assert "\x1b" not in shown
    assert shown.count("\n") == 2
    assert "[1, null]" in shown
    assert reactor("query", VALUES, "--csv").out.splitlines()[1].startswith('1,2,,1.10,"x,""y""')


@pytest.mark.usefixtures("folder")
def test_more_rows_than_shown_are_said(reactor: Reactor) -> None:
    said = reactor("query", "SELECT n FROM numbers", "--limit", "9", "--json")
    assert (len(said.data["rows"]), len(said.answer["warnings"])) == (9, 1)
    whole = reactor("query", "SELECT n FROM numbers", "--limit", "10", "--json")
    assert (len(whole.data["rows"]), whole.answer["warnings"]) == (10, [])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("sql", ["DELETE FROM numbers", "SELECT 1; SELECT 2", "SELECT nothing FROM numbers", "SELEC 1", ""])
def test_what_is_no_question_is_a_usage_error(reactor: Reactor, sql: str) -> None:
    said = reactor("query", sql, "--json")
    assert (said.exit_code, said.problem["type"]) == (2, "urn:reactor:problem:usage")


@pytest.mark.usefixtures("folder")
def test_a_query_that_takes_too_long_is_given_up(reactor: Reactor) -> None:
    said = reactor("query", "SELECT count(*) FROM range(100000000000) a, range(100) b", "--timeout", "1", "--json")
    assert (said.exit_code, said.problem["type"]) == (4, "urn:reactor:problem:timeout")
    assert reactor("query", "SELECT 1 AS one", "--timeout", "60", "--json").data["rows"] == [{"one": 1}]
