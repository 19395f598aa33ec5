"""Event times and dynamic partition keys of a span, read once for all its records, in columns.

Both are read by the scanner and by `instants`, as the columns of a payload are: an event time and a column of one field cannot differ.
A payload is unreadable here exactly if it is unreadable there, and for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reactor.domain.partitions import IDENTITY_BYTES_MAX
from reactor.domain.scripts import BatchColumn, HeaderField, JsonPath
from reactor.lake.decoding import grammar
from reactor.lake.decoding import reasons as why
from reactor.lake.decoding.columns import Instants, instant_column
from reactor.lake.decoding.instants import MICROS_END, MICROS_MIN, SLACK_MICROS
from reactor.lake.decoding.kept import Kept, keep
from reactor.lake.decoding.reasons import Reasons
from reactor.lake.decoding.scanner import Mask
from reactor.lake.decoding.tokens import Texts, Tokens, members, one_array, payloads, texts
from reactor.lake.decoding.types import declared

EVENT_TIME_HEADER = "event_time"
"""The header that the default chain looks at first."""


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Of each record: microseconds since 1970-01-01 UTC (undefined where there is a reason), and why there are none, else null.

    `kept`: the columns that were read on the way (`decoding.kept`).
    """

    micros: npt.NDArray[np.int64]
    reasons: pa.Array
    kept: Kept = ()


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """Of each record: the identity of its asset partition (null where there is a reason), and why there is none, else null.

    `kept`: the columns that were read on the way (`decoding.kept`).
    """

    keys: pa.Array
    reasons: pa.Array
    kept: Kept = ()


def read_event_times(records: pa.Table, source: JsonPath | HeaderField | None, columns: Sequence[BatchColumn] = ()) -> EventTimes:
    """When each record happened.

    `records` has the columns of `reactor.ports.RawSpan`. `source` None is the default chain: the header `event_time`, else the record's
    timestamp; only what is absent is skipped. Reasons: `no_event_time` (absent, null), `bad_event_time`, `event_time_out_of_range`, and for
    a path those of a payload (conventions 11) and `tombstone`. A header without a value is there, and bad. `columns`: to be read, too, if
    the payloads are scanned.
    """
    if isinstance(source, tuple):
        at = _at_path(records["value"], source, [column.name for column in columns])
        instants = Instants.of(at.found, texts(at.found))
        types = {column: declared(column.type) for column in columns if (column.name,) == source}
        same = {column: instant_column(at.found, type_, instants) for column, type_ in types.items() if type_.family in ("instant", "date")}
        return replace(_event_times(at.found, instants, at.reasons), kept=keep(columns, at.members, same))
    found = _last_headers(records["headers"], source.name if source else EVENT_TIME_HEADER)
    times = _event_times(found, Instants.of(found, Texts(found.data, np.append(found.starts, found.stops[-1:]))), np.zeros(len(found.kinds), np.uint8))
    return times if source else _or_timestamps(times, records["timestamp"])


def read_partition_keys(records: pa.Table, path: JsonPath, columns: Sequence[BatchColumn] = ()) -> PartitionKeys:
    """The dynamic identity of each record: a string as it is, a number as its JSON text, `true` or `false`.

    Reasons: `no_partition_key` (missing, null), `bad_partition_key` (object, array, empty, longer than IDENTITY_BYTES_MAX, a NUL in it), and
    those of a payload and `tombstone`. `columns`: to be read, too.
    """
    at = _at_path(records["value"], path, [column.name for column in columns])
    found, text = at.found, texts(at.found)
    sizes = np.diff(text.offsets)
    zeros = np.concatenate(([0], np.cumsum(text.data == 0)))
    has_zero = zeros[text.offsets[1:]] > zeros[text.offsets[:-1]]
    bad = (found.kinds >= grammar.OBJECT) | (sizes == 0) | (sizes > IDENTITY_BYTES_MAX) | has_zero
    own = np.where(found.there, np.where(bad, why.BAD_PARTITION_KEY, why.FINE), why.NO_PARTITION_KEY)
    reasons = why.graver(at.reasons, own.astype(np.uint8))
    return PartitionKeys(text.array(reasons == why.FINE).cast(pa.string()), why.words(reasons), keep(columns, at.members))


@dataclass(frozen=True, slots=True)
class _AtPath:
    """The token at the end of a path in each payload, why there can be none, and members of the payload."""

    found: Tokens
    reasons: Reasons
    members: Mapping[str, Tokens]


def _at_path(values: pa.ChunkedArray, path: JsonPath, names: Sequence[str]) -> _AtPath:
    """What is at the end of a path in each payload, and the members of these names."""
    tokens, present = payloads(one_array(values))
    wanted = list(dict.fromkeys((*names, path[0])))
    reasons, of_names = members(tokens, present, wanted)
    by_name = dict(zip(wanted, of_names, strict=True))
    found = by_name[path[0]]
    reasons[~present] = why.TOMBSTONE
    found, twice = found.having(reasons == why.FINE), found.twice
    for name in path[1:]:
        _, (found,) = members(found, np.asarray(found.kinds == grammar.OBJECT), [name])
        twice |= found.twice
    reasons[twice & (reasons == why.FINE)] = why.DUPLICATE_KEY
    return _AtPath(found.having(~twice), reasons, by_name)


def _last_headers(headers: pa.ChunkedArray, name: str) -> Tokens:
    """The last header of that name in each record: a TEXT without quotes, TRUE (no text) where it has no value."""
    lists = one_array(headers)
    parents, flat = pc.list_parent_indices(lists), lists.flatten()
    named = pc.equal(flat.field("name"), name).fill_null(False)
    last = np.full(len(lists), -1, np.int64)
    last[parents.filter(named).to_numpy()] = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    values, present = payloads(flat.field("value").take(pa.array(last, mask=last < 0)))
    kinds = np.where(present, grammar.TEXT, np.where(last < 0, grammar.ABSENT, grammar.TRUE))
    return Tokens(values.data, kinds.astype(np.uint8), values.starts, values.stops)


def _event_times(found: Tokens, instants: Instants, reasons: Reasons) -> EventTimes:
    bad = np.where(instants.reasons == why.OUT_OF_RANGE, why.EVENT_TIME_OUT_OF_RANGE, why.BAD_EVENT_TIME)
    own = np.where(found.there, np.where(instants.reasons == why.FINE, why.FINE, bad), why.NO_EVENT_TIME)
    return EventTimes(instants.micros, why.words(why.graver(reasons, own.astype(np.uint8))))


def _or_timestamps(times: EventTimes, timestamps: pa.ChunkedArray) -> EventTimes:
    """The record's own timestamp where the header is absent."""
    column = one_array(timestamps)
    own: Mask = pc.and_(pc.equal(times.reasons, "no_event_time").fill_null(False), column.is_valid()).to_numpy(zero_copy_only=False)
    millis = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    fits = (millis >= (MICROS_MIN - SLACK_MICROS) // 1000) & (millis < (MICROS_END + SLACK_MICROS) // 1000)
    micros = np.where(own & fits, np.where(fits, millis, 0) * 1000, times.micros)
    said = pc.if_else(pa.array(own), why.words(np.where(fits, why.FINE, why.EVENT_TIME_OUT_OF_RANGE).astype(np.uint8)), times.reasons)
    return EventTimes(micros, said)
