"""`reactor graph`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cli.conftest import NUMBERS, PROGRAM, READS_BATCH, REFUSED, WAITING, Reactor

Offline = Callable[[Mapping[str, str]], Path]
SUMS = "-- pipeline\n-- mute ducklake://main/orders\n-- materialize ducklake://main/sums\nSELECT count(*) AS n FROM numbers, orders\n"
BOTH = "# on ducklake://main/numbers\n# on ducklake://main/sums\n"
FILES = {
    "numbers.sql": NUMBERS, "orders.sql": READS_BATCH, "tell.py": PROGRAM, "sums.sql": SUMS, "both.py": BOTH, "refused.sql": REFUSED,
    "waiting.sql": WAITING,
}  # fmt: skip
TREE = """\
kafka://main/orders
└── orders.sql
    └── ducklake://main/orders
numbers.sql
└── ducklake://main/numbers
    ├── both.py
    ├── sums.sql
    │   └── ducklake://main/sums
    │       └── both.py
    └── tell.py
refused.sql (refused)
waiting.sql (inactive)
└── ducklake://main/waiting
"""


def test_the_tree_shows_what_fires_what(reactor: Reactor, offline: Offline) -> None:
    said = reactor("graph", "--project", offline(FILES))
    assert (said.exit_code, said.out) == (0, TREE)


def test_as_json_with_levels_and_arrows_that_fire_nothing(reactor: Reactor, offline: Offline) -> None:
    data = reactor("graph", "--json", "--project", offline(FILES)).data
    nodes = {node["id"]: (node["kind"], node["level"], node["state"]) for node in data["nodes"]}
    assert nodes["kafka://main/orders"] == ("stream", 0, None)
    assert nodes["ducklake://main/orders"] == ("asset", 2, None)
    assert (nodes["sums.sql"], nodes["both.py"]) == (("script", 2, "active"), ("script", 4, "active"))
    assert (nodes["refused.sql"][2], nodes["waiting.sql"][2]) == ("refused", "inactive")
    arrows = {(arrow["source"], arrow["target"]): arrow["kind"] for arrow in data["arrows"]}
    assert arrows["ducklake://main/orders", "sums.sql"] == "reads"
    assert arrows["ducklake://main/numbers", "sums.sql"] == "fires"
    assert arrows["sums.sql", "ducklake://main/sums"] == "makes"


def test_text_for_other_tools(reactor: Reactor, offline: Offline) -> None:
    folder = offline({"numbers.sql": NUMBERS, 'odd "name".py': PROGRAM})
    mermaid = reactor("graph", "--format", "mermaid", "--project", folder).out
    assert mermaid.startswith("flowchart LR\n")
    assert '"odd #34;name#34;.py"' in mermaid
    assert "n1 --> n2" in mermaid
    dot = reactor("graph", "--format", "dot", "--project", folder).out
    assert '"odd \\"name\\".py" [shape=box];' in dot
    assert dot.startswith("digraph reactor {\n")
    assert dot.endswith("}\n")


def test_what_has_several_causes_is_shown_whole_once(reactor: Reactor, offline: Offline) -> None:
    again = "# on ducklake://main/other\n"
    files = {"numbers.sql": NUMBERS, "other.sql": NUMBERS.replace("/numbers", "/other"), "sums.sql": BOTH.replace("sums", "other").replace("#", "--")
             + "-- materialize ducklake://main/sums\nSELECT 1 AS n", "last.py": "# on ducklake://main/sums\n", "z.py": again}
    out = reactor("graph", "--project", offline(files)).out
    assert out.count("last.py") == 1
    assert out.count("sums.sql …") == 1


def test_a_long_chain_is_no_matter(reactor: Reactor, offline: Offline) -> None:
    chain = {f"s{n}.sql": f"-- on ducklake://main/t{n}\n-- materialize ducklake://main/t{n + 1}\nSELECT 1 AS n\n" for n in range(600)}
    data = reactor("graph", "--json", "--project", offline(chain)).data
    assert max(node["level"] for node in data["nodes"]) == 1200
    assert reactor("graph", "--project", offline(chain)).out.count("\n") == 1201


def test_an_empty_project_has_no_graph(reactor: Reactor, offline: Offline) -> None:
    said = reactor("graph", "--project", offline({}))
    assert (said.exit_code, said.out) == (0, "")
