"""Rules about one header: an annotation beside another."""

from __future__ import annotations

from collections.abc import Iterator

from reactor.domain.annotations.tables import BOTH_WAYS_OUT
from reactor.domain.diagnostics import Diagnostic, finding
from reactor.domain.rules.draft import Draft, refusal


def managed_is_sql(draft: Draft) -> Iterator[Diagnostic]:
    """AN-13: Reactor runs the SELECT itself."""
    target = draft.header.materialize
    if target and target.strategy != "manual" and draft.language != "sql":
        yield refusal(draft.place("materialize", "a table"), "unmanaged-language", f"this file is no SQL. {BOTH_WAYS_OUT}")


def tests_have_a_table(draft: Draft) -> Iterator[Diagnostic]:
    """AN-14, TS-13: what is not written by Reactor is not tested by it."""
    target = draft.header.materialize
    for annotation in draft.reading.of("data_test"):
        if target is None and not draft.has("materialize"):
            message = "`data_test` needs `materialize`: nothing is made that it could test"
            yield finding(annotation.place(), "error", "test-without-table", message)
        elif target is not None and target.strategy == "manual":
            message = "`data_test` needs a managed table: with `manual` the rows are there before a test could run"
            yield refusal(annotation.place(), "test-of-manual", message)


def history_has_no_slices(draft: Draft) -> Iterator[Diagnostic]:
    """AN-16: a history has one time line."""
    target = draft.header.materialize
    if target and target.strategy == "scd2" and draft.header.partitioned:
        message = "a history (`scd2`, `history`) cannot be partitioned: it has one time line, not one for each slice"
        yield refusal(draft.place("partitioned"), "history-in-slices", message)


def columns_can_be_decoded(draft: Draft) -> Iterator[Diagnostic]:
    """KF-8: a payload must be able to give a value of the declared type."""
    for column in draft.header.batch or ():
        if problem := draft.undecodable(column.type):
            yield refusal(draft.place("batch", f"type of {column.name}"), "undecodable-type", f"column `{column.name}`: {problem}")


def join_can_fire(draft: Draft) -> Iterator[Diagnostic]:
    """AN-9: an AND-join is of assets, and needs as many as it waits for."""
    rule = draft.header.trigger
    if rule is None or rule.mode == "any":
        return
    inputs = len(draft.header.edges) + draft.reading.malformed.count("on")
    mode = draft.place("trigger", "`any` or `all`")
    for edge in draft.header.edges:
        if edge.kind not in {"asset", "s3", "file"}:
            message = f"`trigger all` cannot join `{edge.uri or edge.kind}`: materialize it first, and join that table"
            yield refusal(mode, "join-of-stream", message)
    if rule.at_least is not None and rule.at_least > inputs:
        message = f"`at_least={rule.at_least}` can never be reached: there are {inputs} `on` lines"
        yield refusal(draft.place("trigger", "at_least"), "join-never-fires", message)
    elif inputs < 2:
        message = f"`trigger all` joins inputs, and there is {'one' if inputs else 'none'}: write a line `on` for each"
        yield finding(mode, "warning", "join-of-one", message)


def events_are_not_replaced(draft: Draft) -> Iterator[Diagnostic]:
    """A replace by the events of one batch would lose the earlier ones."""
    target = draft.header.materialize
    if target and target.strategy == "replace" and any(edge.kind == "kafka" for edge in draft.header.edges):
        message = (
            "a table fed by Kafka cannot be replaced: the events of one batch would replace the earlier ones. Write `append` or `key=`, or land"
            " the events with one script and replace from the landed table with another"
        )
        yield refusal(draft.place("materialize"), "replace-from-kafka", message)


def formats_agree(draft: Draft) -> Iterator[Diagnostic]:
    """KF-7: one `batch` has one format, and the bytes of `raw` have no members that a column, an event time or a key could be."""
    streams = [edge for edge in draft.header.edges if edge.kind == "kafka"]
    formats = {edge.format or "json" for edge in streams}
    if "raw" not in formats:
        return
    if len(formats) > 1:
        message = f"one `batch` cannot hold {' and '.join(sorted(formats))}: give each format a script of its own"
        yield refusal(draft.place("on"), "mixed-formats", message)
    if draft.header.batch is not None:
        message = "`format=raw` hands over bytes, which have no columns to declare: leave the `batch` line out and read the BLOB `value`"
        yield refusal(draft.place("batch"), "columns-of-bytes", message)
    partitioned = draft.header.partitioned
    if partitioned and (partitioned.key or isinstance(partitioned.event_time, tuple)):
        message = "`format=raw` hands over bytes, in which no path can be followed: use `event_time=header:<name>`, or the record's timestamp"
        yield refusal(draft.place("partitioned"), "path-into-bytes", message)


def freshness_has_a_table(draft: Draft) -> Iterator[Diagnostic]:
    """AN-8: without a table the clock is the script's own."""
    if draft.header.freshness and not draft.has("materialize"):
        message = "this script makes no asset: its freshness is counted from its last completed run"
        yield finding(draft.place("freshness"), "warning", "freshness-without-table", message)


def increment_has_a_strategy(draft: Draft) -> Iterator[Diagnostic]:
    """ST-15, ST-18: only rows that stay can be added to."""
    increment, target = draft.header.incremental, draft.header.materialize
    if increment is None or (target is None and draft.has("materialize")):
        return
    if target is None or target.strategy not in {"append", "merge"}:
        message = "`incremental` needs `append` or `key=`: else the new rows alone would be the table"
        yield refusal(draft.place("incremental"), "increment-of-replace", message)
    elif target.strategy == "append" and increment.lookback_seconds:
        message = "`lookback=` needs `key=`: an append would add the same rows again"
        yield refusal(draft.place("incremental", "lookback"), "increment-of-append", message)


def library_makes_nothing(draft: Draft) -> Iterator[Diagnostic]:
    """AN-28: a library is only used."""
    if draft.header.macros and draft.header.materialize:
        message = "a library of macros makes no table: put the `materialize` into a script that uses it"
        yield refusal(draft.place("macros"), "library-with-table", message)


RULES = (
    managed_is_sql, tests_have_a_table, history_has_no_slices, columns_can_be_decoded, join_can_fire, events_are_not_replaced,
    formats_agree, freshness_has_a_table, increment_has_a_strategy, library_makes_nothing,
)
