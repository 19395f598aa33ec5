"""What `reactor check --online` adds: whether SELECTs bind to what stands in the lakes, and whether topics are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reactor.cli.call import Call
from reactor.cli.database import at_hand
from reactor.domain.annotations import read_header
from reactor.domain.annotations.inputs import Input
from reactor.domain.diagnostics import Diagnostic, Range, finding
from reactor.domain.scripts import Script
from reactor.domain.spans import SourcePartition
from reactor.domain.spelling import nearest
from reactor.errors import StateForbids
from reactor.lake.binding import absent, bound
from reactor.project import Opened, names_of
from reactor.wiring import lake_settings, log_bounds, state_url

TOP = Range(1, 1, 1, 1)


def online_findings(call: Call, opened: Opened) -> Sequence[Diagnostic]:
    """Of the scripts that may run. Raises `Outage` if PostgreSQL or a cluster does not answer."""
    with at_hand(call, opened.project):
        return [*_lakes(call, opened), *_topics(call, opened)]


def _topics(call: Call, opened: Opened) -> Iterator[Diagnostic]:
    wanted = [(script, SourcePartition(edge.uri, "0")) for script in opened.project.scripts for edge in script.streams]
    there = call.run(log_bounds(opened.project, {first for _, first in wanted})) if wanted else {}
    for script, first in wanted:
        if first not in there:
            message = f"the topic {first.source} is not there: the script waits for it, and reads it from its beginning once it is made"
            yield finding(_line_of(opened, script, first.source), "warning", "no-topic", message).of(script.path)


def _lakes(call: Call, opened: Opened) -> Iterator[Diagnostic]:
    try:
        with call.limited():
            yield from _bindings(opened)
            yield from _inputs(opened)
    except StateForbids as error:
        call.warn(f"no SELECT is looked at: {error.args[0]}")


def _inputs(opened: Opened) -> Iterator[Diagnostic]:
    """Tables that fire a script, and that neither a script makes nor another tool has made."""
    project = opened.project
    named = [(script, edge.uri) for script in project.scripts for edge in script.edges if edge.kind == "asset" and edge.uri not in project.producers]
    gone = absent(lake_settings(project, state_url(project)), {uri for _, uri in named})
    for script, uri in named:
        if uri in gone:
            message = f"no script makes {uri}, and there is no such table: nothing fires {script.path} by it"
            yield finding(_line_of(opened, script, uri), "warning", "no-table", message, nearest(uri, project.producers)).of(script.path)


def _bindings(opened: Opened) -> Iterator[Diagnostic]:
    managed = [script for script in opened.project.scripts if script.managed]
    for script, found in bound(lake_settings(opened.project, state_url(opened.project)), managed, opened.project.producers.keys()):
        if isinstance(found, str):
            said = f"not looked at: it reads {found}, which no run has made yet"
            yield finding(_body_of(opened, script), "note", "not-made-yet", said).of(script.path)
        else:
            said = " ".join(f"{found.args[0]}; {found.hint}".split())
            yield finding(_body_of(opened, script), "error", "does-not-bind", said).of(script.path)


def _line_of(opened: Opened, script: Script, uri: str) -> Range:
    """The `on` line that names it."""
    annotations = read_header(script.text, names_of(opened.project.settings)).of("on")
    return next((one.line.first_range for one in annotations if isinstance(one.value, Input) and one.value.edge.uri == uri), TOP)


def _body_of(opened: Opened, script: Script) -> Range:
    """The first line of its body."""
    before = script.text[: read_header(script.text, names_of(opened.project.settings)).body_at]
    number = before.count("\n") + 1
    return Range.on_line(number, 1, len(script.text.split("\n")[number - 1]))
