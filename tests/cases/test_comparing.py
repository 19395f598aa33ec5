"""How results are held against cases: sets, cells, and messages that are given by sense."""

import asyncio

import pytest

from tests.cases.comparing import Unknown, choices, is_right, nearest, same_cell, same_rows, unknown_fields, unnamed
from tests.cases.flows import content, id_list
from tests.cases.runners.materialize import with_times
from tests.cases.runners.payload import names
from tests.cases.together import each


def test_rows_are_sets_with_multiplicity() -> None:
    assert same_rows([["a", None], ["b", "1"]], [["b", "1"], ["a", None]])
    assert not same_rows([["a"], ["a"]], [["a"]])


@pytest.mark.parametrize(("got", "wanted", "compare", "same"), [
    ('{"a": 1.0}', '{"a":1.0}', "a as JSON", True), ('{"a":18446744073709551616}', '{"a":18446744073709551615}', "as JSON text with …", False),
    ('{"k":1,"k":2}', '{"k":2}', "as JSON", False), ('[1, "a b"]', '[1,"ab"]', "text without blanks", True), (None, None, "as JSON", True),
    ("1", "1.0", "", False), (None, "1", "as JSON", False),
])  # fmt: skip
def test_cells(got: str | None, wanted: str | None, compare: str, same: bool) -> None:
    assert same_cell(got, wanted, compare) is same


def test_a_message_has_to_name_the_same_things() -> None:
    wanted = "1 key with more than one row in the SELECT; suggests latest= (a)"
    assert unnamed(wanted, "1 key has several rows in the SELECT: a; latest=<column> keeps one", ["k", "a"]) == []
    assert unnamed(wanted, "11 keys have several rows: ab", ["k", "a"]) == ["1", "SELECT", "a", "latest="]
    assert unnamed("names qty as changed from INTEGER to VARCHAR", "qty: BIGINT became VARCHAR", ["qty"]) == ["INTEGER"]


@pytest.mark.parametrize(("wanted", "message"), [
    ("t is TIMETZ", "the column t is TIME WITH TIME ZONE"), ("t is TIME WITH TIME ZONE", "the column t is TIMETZ"),
    ("t: INT8 to TIMESTAMPTZ", "t became TIMESTAMP WITH TIME ZONE, it was BIGINT"),
])  # fmt: skip
def test_a_type_is_named_by_any_of_its_names(wanted: str, message: str) -> None:
    assert unnamed(wanted, message, ["t"]) == []
    assert unnamed(wanted, "the column t", ["t"]) != []


def test_of_several_answers_each_is_tried() -> None:
    assert choices({"a": 1}) == [{"a": 1}]
    assert choices({"a": 1, "one_of": [{"b": 2}, {"a": 3}]}) == [{"a": 1, "b": 2}, {"a": 3}]
    assert choices({"a": {"one_of": [1, [2]]}, "b": [{"one_of": ["x", None]}]}) == [
        {"a": 1, "b": ["x"]}, {"a": 1, "b": [None]}, {"a": [2], "b": ["x"]}, {"a": [2], "b": [None]}]  # fmt: skip
    assert nearest([["a: got 1"], []]) is None
    assert nearest([["a: got 1", "b: got 2"], ["c"]]) == "a: got 1; b: got 2 or c"
    with pytest.raises(Unknown, match="one_of"):
        nearest([])


def test_counts_between() -> None:
    assert is_right("n_between", 2, [1, 2])
    assert not is_right("n_between", 3, [1, 2])
    assert not is_right("n", 2, [1, 2])


def test_what_a_runner_does_not_know_is_said() -> None:
    with pytest.raises(Unknown, match="does not know colour, shape"):
        unknown_fields({"shape": 1, "colour": 2, "rows": 3}, {"rows"})
    with pytest.raises(Unknown, match="compare"):
        same_cell("a", "b", "backwards")


def test_logs_in_short() -> None:
    found = content([[3, "id 7"], [5, {"control": "abort"}], [6, {"id": 1, "txn": "t", "aborted": True}], [9, "base64:AP8="]], 1)
    assert [(r.offset, r.value) for r in found.records] == [(3, b'{"id": 7, "v": "x"}'), (9, b"\x00\xff")]
    assert (found.start, found.end) == (3, 10)
    days = content("ids 0..1, even ids have ts on 2026-03-01, odd ids on 2026-03-02", 1)
    assert [r.value for r in days.records] == [b'{"id": 0, "ts": "2026-03-01T12:00:00Z"}', b'{"id": 1, "ts": "2026-03-02T12:00:00Z"}']
    assert id_list("3..5 once each") == [3, 4, 5]
    with pytest.raises(Unknown):
        content("every third id", 1)


def test_effective_times_keep_their_order_and_their_places() -> None:
    wanted: list[list[str | None]] = [["a", "@1", "@2"], ["b", "@2", None]]
    assert with_times([["b", "noon", None], ["a", "morning", "noon"]], wanted) == [["b", "@2", None], ["a", "@1", "@2"]]
    assert with_times([["a", "noon", "noon"], ["b", "noon", None]], wanted) == [["a", "noon", "noon"], ["b", "noon", None]]


def test_names_of_a_batch_line() -> None:
    assert names('a BIGINT, "ship.to code" VARCHAR, d DECIMAL(12,2), s STRUCT(x INTEGER, y VARCHAR)[], ts TIMESTAMP WITH TIME ZONE') == [
        "a", "ship.to code", "d", "s", "ts"]


def test_of_cases_that_run_together_each_fails_alone() -> None:
    async def run(case: str) -> str | None:
        if case == "b":
            raise ExceptionGroup("outer", [ValueError("inner")])
        return None

    answers = asyncio.run(each(["a", "b"], run))
    assert answers["a"] is None
    assert str(answers["b"]).startswith("raised ValueError('inner') at test_comparing.py")
