from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.lineage import Lineage
from reactor.domain.runs import Strategy
from reactor.domain.scripts import Edge, Header, Materialize, Script, ScriptPath


def script(name: str, inputs: Sequence[str] = (), makes: str | None = None, strategy: Strategy = "replace") -> Script:
    """`name` makes the table of its name, fired by tables."""
    target = Materialize(f"ducklake://main/{makes or name}", strategy)
    return Script(ScriptPath(name), "sql", "", Header(materialize=target), edges=tuple(Edge("asset", f"ducklake://main/{i}") for i in inputs))


def lineage(graph: dict[str, str]) -> Lineage:
    return Lineage(script(name, inputs.split()) for name, inputs in graph.items())


DIAMOND = {"d": "b c", "c": "a", "b": "a", "a": "src", "z": "other"}


def test_who_makes_and_who_is_fired() -> None:
    graph = lineage(DIAMOND)
    assert graph.producers["ducklake://main/a"] == ("a",)
    assert graph.consumers["ducklake://main/a"] == ("b", "c")
    assert (graph.downstream(ScriptPath("a")), graph.upstream(ScriptPath("d"))) == (("b", "c"), ("b", "c"))
    assert graph.descendants(ScriptPath("a")) == {"b", "c", "d"}
    assert graph.ancestors(ScriptPath("d")) == {"a", "b", "c"}


def test_upstreams_come_first() -> None:
    assert lineage(DIAMOND).order() == ("a", "b", "c", "d", "z")


def test_a_program_makes_nothing_and_is_fired() -> None:
    program = Script(ScriptPath("p.py"), "python", "", Header(), edges=(Edge("asset", "ducklake://main/a"),))
    graph = Lineage([script("a"), program])
    assert graph.downstream(ScriptPath("a")) == ("p.py",)
    assert graph.downstream(ScriptPath("p.py")) == ()


def test_two_inputs_of_one_script_are_two_edges_and_one_run() -> None:
    graph = Lineage([script("a"), script("b", ["a", "a"])])
    assert graph.consumers["ducklake://main/a"] == ("b",)


def test_a_current_view_stands_for_its_history() -> None:
    graph = Lineage([script("dim", strategy="scd2"), script("c", ["dim_current"]), script("d", ["dim", "dim_current"])])
    assert graph.downstream(ScriptPath("dim")) == ("c", "d")
    assert graph.inputs(ScriptPath("d")) == ("ducklake://main/dim",)
    assert Lineage([script("dim"), script("c", ["dim_current"])]).downstream(ScriptPath("dim")) == ()


@pytest.mark.parametrize(
    ("graph", "circles"),
    [
        ({"a": "b", "b": "a"}, [("a", "b", "a")]),
        ({"a": "a"}, [("a", "a")]),
        ({"a": "c", "b": "a", "c": "b", "d": "c", "src": ""}, [("a", "b", "c", "a")]),
        ({"a": "b c", "b": "a", "c": "b"}, [("a", "b", "a")]),
        ({"a": "b", "b": "a", "c": "b", "x": "y c", "y": "x"}, [("a", "b", "a"), ("x", "y", "x")]),
        (DIAMOND, []),
    ],
)
def test_circles_are_found_with_a_way_round(graph: dict[str, str], circles: list[tuple[str, ...]]) -> None:
    assert list(lineage(graph).circles()) == circles


NAMES = st.sampled_from("abcdef")
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=3, unique=True).map(" ".join), min_size=1)


def reachable(graph: dict[str, str], start: str) -> set[str]:
    """Naively: who is fired by `start`, and by them, and so on."""
    found: set[str] = set()
    while True:
        more = {name for name, inputs in graph.items() if ({start} | found) & set(inputs.split())} - found
        if not more:
            return found
        found |= more


@settings(max_examples=200, deadline=None)
@given(GRAPHS)
def test_the_graph_against_a_naive_one(graph: dict[str, str]) -> None:
    built = lineage(graph)
    down = {name: reachable(graph, name) for name in graph}
    for name in graph:
        assert built.descendants(ScriptPath(name)) == down[name]
        assert built.ancestors(ScriptPath(name)) == {other for other in graph if name in down[other]}
    knotted = {name for name in graph if name in down[name]}
    circles = built.circles()
    assert {name for way in circles for name in built.knot(way[0])} == knotted
    assert all(way[0] == way[-1] and built.downstream(one).count(two) == 1 for way in circles for one, two in pairwise(way))


@settings(max_examples=200, deadline=None)
@given(GRAPHS)
def test_order_has_everything_that_waits_for_no_circle(graph: dict[str, str]) -> None:
    built = lineage(graph)
    order = built.order()
    assert all(order.index(up) < order.index(path) for path in order for up in built.upstream(path))
    knotted = {name for name in graph if name in reachable(graph, name)}
    behind = knotted | {late for name in knotted for late in reachable(graph, name)}
    assert set(order) == graph.keys() - behind
