"""The short form of graphs in the cases (`cascade`): from `{"b": "on a; trigger all"}` to the files of a project, and what `check` says."""

import re
from collections.abc import Mapping
from typing import Any

from reactor.domain.assets import ProjectNames
from reactor.domain.project import Checked, check_project
from tests.cases import Case

NAMES = ProjectNames(lakes=("main",))
ANNOTATIONS = ("trigger ", "partitioned ", "debounce ", "retry ", "mute ", "data_test ", "freshness ", "tag ")


def files(graph: Mapping[str, str]) -> dict[str, str]:
    """The scripts of a graph, by path: managed, `pipeline`, reading what they listen to unless the graph gives a SELECT."""
    return {f"{name}.sql": script(name, text) for name, text in graph.items()}


def script(name: str, text: str) -> str:
    """One script. Parts that are no annotation and no SELECT say how its run behaves; that is the runner's to arrange."""
    parts = [part.strip() for part in text.split(";")]
    inputs = [one.strip() for part in parts if part.startswith("on ") for one in part[3:].split(",")]
    target = next((part for part in parts if part.startswith("materialize ")), f"materialize ducklake://main/{name}")
    target += " append" if "append" in parts else ""
    lines = ["pipeline", *(f"on {uri(one)}" for one in inputs), *(annotation(part) for part in parts if part.startswith(ANNOTATIONS)), target]
    select = next((part for part in parts if part.startswith("SELECT")), None)
    return "\n".join([*(f"-- {line}" for line in lines), body(select, inputs)])


def uri(asset: str) -> str:
    """A table of the lake, unless the graph writes a URI."""
    return asset if "://" in asset else f"ducklake://main/{asset}"


def annotation(part: str) -> str:
    """`partitioned daily like a, b` is `partitioned daily`."""
    return re.sub(r" like .*", "", part) if part.startswith("partitioned ") else part


def body(select: str | None, inputs: list[str]) -> str:
    """A SELECT that is whole: `SELECT FROM a JOIN b` names no columns, `SELECT ... WHERE false` no table."""
    first = f"* FROM main.{uri(inputs[0]).rpartition('/')[2]}" if inputs else "1 AS id"
    whole = (select or "SELECT ...").replace("...", first)
    return re.sub(r"^SELECT FROM (\S+) JOIN (\S+)$", r"SELECT * FROM \1 JOIN \2 USING (id)", whole)


def check(case: Case) -> Checked:
    """`check` over the graph of a case."""
    graph = case["graph"]
    assert isinstance(graph, dict)
    return check_project({path: text.encode() for path, text in files(graph).items()}, NAMES)


def check_differences(checked: Checked, wanted: Mapping[str, Any]) -> list[str]:
    """What `check` says otherwise than a case whose `do` begins with it."""
    differences = [f"exit: got {checked.exit_code} wanted {wanted['exit']}"] if checked.exit_code != wanted.get("exit", 0) else []
    refused = sorted(path.removesuffix(".sql") for path in checked.refused)
    if refused != sorted(wanted.get("names", [])):
        differences.append(f"refused: got {refused} wanted {wanted.get('names', [])}")
    words = [word for word in re.findall(r"\w+", str(wanted.get("meaning", ""))) if word in {"cycle", "fired", "makes", *refused}]
    said = " ".join(found.message for found in checked.diagnostics).replace(".sql", "")
    return differences + [f"no word `{word}` in {said!r}" for word in words if word not in said]
