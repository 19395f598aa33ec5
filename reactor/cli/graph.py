"""`reactor graph`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from reactor.cli.answers import printable
from reactor.cli.call import Call, example, verb, verbs
from reactor.domain.graph import ArrowKind, Graph, Node, NodeKind, graph_of

app = verbs()

Form = Literal["tree", "mermaid", "dot"]
GUIDES: Mapping[ArrowKind, str] = {"fires": "-->", "makes": "==>", "reads": "-.->"}
BRACKETS: Mapping[NodeKind, tuple[str, str]] = {"script": ("[", "]"), "asset": ("[(", ")]"), "stream": ("([", "])"), "trigger": ("{{", "}}")}
"""How Mermaid draws arrows and nodes."""
LINES: Mapping[ArrowKind, str] = {"fires": "solid", "makes": "bold", "reads": "dashed"}
SHAPES: Mapping[NodeKind, str] = {"script": "box", "asset": "cylinder", "stream": "oval", "trigger": "hexagon"}
"""How Graphviz does."""


@app.command(name="graph", epilog=example("reactor graph --format mermaid"))
@verb
def show_graph(
    call: Call,
    form: Annotated[Form, typer.Option("--format", help="A tree, or text for Mermaid or Graphviz.")] = "tree",
) -> None:
    """Show what fires what: streams and assets, the scripts they fire, and what those make.

    In the tree what has several causes stands below the first of them, and is only named below the others. Scripts that are refused stand alone.
    With --json: {nodes: [{id, kind, level, state}], arrows: [{source, target, kind}]}; an arrow `reads` fires nothing.
    """
    checked = call.open().checked
    graph = graph_of(checked.lineage, checked.inactive, checked.refused)
    call.answer(graph, lambda: _shown(graph, form))


def _shown(graph: Graph, form: Form) -> RenderableType | None:
    if form == "tree":
        return Group(*_trees(graph)) if graph.nodes else None
    return Text("\n".join(mermaid(graph) if form == "mermaid" else dot(graph)))


def _trees(graph: Graph) -> Iterator[Tree]:
    """A tree below each root; what was shown already is only named."""
    nodes, shown = {node.id: node for node in graph.nodes}, set[str]()
    for root in graph.roots:
        top = Tree(_label(nodes[root]), guide_style="dim")
        waiting = [(root, top)]
        while waiting:
            above, tree = waiting.pop()
            shown.add(above)
            below = []
            for node in graph.after(above):
                again = node in shown
                branch = tree.add(_label(nodes[node], again=again and bool(graph.after(node))))
                if not again:
                    shown.add(node)
                    below.append((node, branch))
            waiting += reversed(below)
        yield top


def _label(node: Node, *, again: bool = False) -> Text:
    state = f" ({node.state})" if node.state in {"inactive", "refused"} else ""
    return Text(printable(node.id), style="bold" if node.kind == "asset" else "").append(state, style="yellow").append(" …" if again else "", style="dim")


def mermaid(graph: Graph) -> Iterator[str]:
    """A flowchart for Mermaid; users' names stand only in quoted labels."""
    names = {node.id: f"n{n}" for n, node in enumerate(graph.nodes)}
    yield "flowchart LR"
    for node in graph.nodes:
        begin, end = BRACKETS[node.kind]
        yield f'  {names[node.id]}{begin}"{_entities(node.id)}"{end}'
    for arrow in graph.arrows:
        yield f"  {names[arrow.source]} {GUIDES[arrow.kind]} {names[arrow.target]}"


def _entities(text: str) -> str:
    return "".join(c if c.isalnum() or c in " :/._-*" else f"#{ord(c)};" for c in text)


def dot(graph: Graph) -> Iterator[str]:
    """A graph for Graphviz."""
    yield "digraph reactor {"
    yield "  rankdir=LR;"
    for node in graph.nodes:
        yield f"  {_quoted(node.id)} [shape={SHAPES[node.kind]}];"
    for arrow in graph.arrows:
        yield f"  {_quoted(arrow.source)} -> {_quoted(arrow.target)} [style={LINES[arrow.kind]}];"
    yield "}"


def _quoted(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
