"""Rules about a header and its body."""

from __future__ import annotations

from collections.abc import Iterator

from reactor.domain.diagnostics import Diagnostic, Range, finding
from reactor.domain.rules.draft import OBJECT_KINDS, SILENT_KINDS, Draft, refusal


def batch_is_fed(draft: Draft) -> Iterator[Diagnostic]:
    """AN-26: the rows of `batch` and `landing` come from somewhere."""
    feeds = {edge.kind for edge in draft.header.edges if edge.kind not in SILENT_KINDS}
    if draft.sql.reads_batch and not feeds and (place := draft.in_body("batch")):
        yield refusal(place, "batch-unfed", "the body reads `batch`, and no stream, landing or webhook feeds it: an `on` line is missing")
    if draft.sql.reads_landing and not draft.kinds(*OBJECT_KINDS) and (place := draft.in_body("landing")):
        yield refusal(place, "landing-unfed", "the body reads `landing`, and no objects land here: an `on s3://…` line is missing")


def mixed_feed_is_declared(draft: Draft) -> Iterator[Diagnostic]:
    """KF-15: inputs of several kinds share the columns of one `batch`."""
    feeds = {"objects" if edge.kind in OBJECT_KINDS else edge.kind for edge in draft.header.edges if edge.kind not in SILENT_KINDS}
    if draft.sql.reads_batch and len(feeds) > 1 and not draft.has("batch") and (place := draft.in_body("batch")):
        yield refusal(place, "batch-undeclared", "inputs of several kinds feed `batch`: its columns must be declared", "batch <column> <type>, …")


def history_sees_the_whole(draft: Draft) -> Iterator[Diagnostic]:
    """AN-18: what is not in a part is not deleted."""
    target = draft.header.materialize
    if target and target.deletes_close and draft.sql.reads_batch:
        message = "`deletes=close` closes every key that is not there, and `batch` is only a part of the table"
        yield refusal(draft.place("materialize", "deletes"), "deletes-from-batch", message)


def placeholders_have_a_slice(draft: Draft) -> Iterator[Diagnostic]:
    """PT-7, 8, 9: `{partition}`, its bounds and `wm_partition` need a slice of the right kind."""
    if "partitioned" in draft.reading.malformed:
        return
    slices = draft.header.partitioned
    if slices is None and (place := draft.in_body("{partition}")):
        yield refusal(place, "no-slice", "`{partition}` has no value: this script is not partitioned", "partitioned daily")
    for name, said in (("$bounds", "`$WM_PARTITION_START` and `$WM_PARTITION_END` have"), ("wm_partition", "`wm_partition` has")):
        if (slices is None or slices.kind == "dynamic") and (place := draft.in_body(name)):
            why = "its slices are keys, not times" if slices else "it is not partitioned"
            yield refusal(place, "no-window", f"{said} no meaning in this script: {why}")


def keys_are_guarded(draft: Draft) -> Iterator[Diagnostic]:
    """MT-5: two events with one key in a batch would fail the run."""
    target, shape = draft.header.materialize, draft.body.shape if draft.body else None
    streams = [edge for edge in draft.header.edges if edge.kind == "kafka"]
    if not target or target.strategy != "merge" or target.latest or not streams or all(e.format == "debezium" for e in streams):
        return
    if shape is not None and not shape.one_row_a_key:
        message = "two events with one key in one batch fail the run: say which one holds with `latest=`, or let the SELECT give one row a key"
        yield finding(draft.place("materialize", "key"), "warning", "key-unguarded", message)


def increment_fits_the_select(draft: Draft) -> Iterator[Diagnostic]:
    """ST-19..22: the mark is read from the table, and a row must not depend on rows that are not read again."""
    increment, target, shape = draft.header.incremental, draft.header.materialize, draft.body.shape if draft.body else None
    if increment is None or target is None or shape is None or target.strategy not in {"append", "merge"}:
        return
    wanted = [(increment.column, "incremental", "cdc="), *((name, "materialize", "key=") for name in target.key)]
    for name, keyword, part in wanted:
        if shape.outputs is not None and name.lower() not in shape.outputs:
            yield refusal(draft.place(keyword, part), "column-missing", f"the SELECT must give the column `{name}`: the mark is read from the table")
    if shape.mixes_rows and draft.body:
        at = draft.body.places.get("select", Range(1, 1, 1, 1))
        yield refusal(at, "rows-mixed", f"an incremental SELECT gives each row by itself, and this one has {shape.mixes_rows}")


def muted_is_there(draft: Draft) -> Iterator[Diagnostic]:
    """AN-22: only an edge that the body makes can be muted."""
    if draft.language != "sql" or (draft.body and not draft.body.clear):
        return
    reads = set(draft.sql.reads) if draft.header.pipeline else set[str]()
    named = {edge.uri for edge in draft.header.edges}
    for annotation in draft.reading.of("mute"):
        uri = str(annotation.value)
        if uri in named:
            message = f"an `on` line names `{uri}`: it stays an edge, `mute` drops only what the body reads"
            yield finding(annotation.line.first_range, "warning", "mute-of-on", message)
        elif (uri == "all" and not reads) or (uri != "all" and uri not in reads):
            hint = "" if draft.header.pipeline else ": without `pipeline` the body makes no edges"
            yield finding(annotation.line.first_range, "warning", "mute-of-nothing", f"nothing to mute: no edge comes from reading `{uri}`{hint}")


RULES = (
    batch_is_fed, mixed_feed_is_declared, history_sees_the_whole, placeholders_have_a_slice, keys_are_guarded, increment_fits_the_select,
    muted_is_there,
)
