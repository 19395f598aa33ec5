"""A raw span split by asset partition, in columns: every event time is read once, every slice asked for once.

What it costs beyond reading grows with the rows and with the slices, never with their product. A span that goes to one asset partition as a
whole stays the Arrow it is. A piece of a part has memory of its own, so that a slice which has to wait does not hold all of the span; only
small pieces, of which a span may have thousands, share a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reactor.domain.partitions import MICROSECONDS, Calendar, calendar_of
from reactor.domain.scripts import BatchColumn, HeaderField, JsonPath, Partitioning, Routing
from reactor.domain.spans import UNROUTED, WHOLE, Piece, Span
from reactor.lake.decoding.event_time import EventTimes, PartitionKeys, read_event_times, read_partition_keys
from reactor.lake.decoding.kept import Kept, within, worth_keeping
from reactor.lake.decoding.tokens import one_array
from reactor.lake.rows import Rows
from reactor.ports import RawSpan

SHARED_ROWS_MAX = 100
"""A piece of fewer rows shares its memory with the other small ones of its span."""
FEW_SLICES = 4
"""Of one span, as most have them."""

Numbers = npt.NDArray[np.int64]
Placed = Sequence[tuple[str, Numbers]]
"""Asset partitions with the rows, in ascending order, that go there."""


class ArrowSplitter:
    """Implements `ports.Splitter`. It keeps nothing, so any number of threads may use one.

    `columns_of`: (source, path) → what is declared of its payloads by scripts whose slices are found at that path; it is read here, too, if that is
    worth it (`decoding.kept`).
    """

    def __init__(self, columns_of: Callable[[str, JsonPath], Sequence[BatchColumn]] = lambda _source, _path: ()) -> None:
        self._columns_of = columns_of

    def split(self, raw: RawSpan, routings: Collection[Routing], arrived_at: float) -> Span:
        """One piece per routing and asset partition; the same arguments give the same pieces.

        A record without a slice goes to `UNROUTED` with its reason. Only where the default chain finds neither header nor timestamp, the
        event time is `arrived_at`: a source whose records may lack a timestamp has to store when they came.
        """
        reading = _Reading(raw.records.combine_chunks(), arrived_at, partial(self._columns_of, raw.source_partition.source))
        pieces = {routing.fingerprint: reading.pieces(routing.partitioning) for routing in routings}
        return Span(raw.source_partition, raw.lo, raw.hi, arrived_at, raw.size_bytes, pieces)


class _Reading:
    """One span, and what was read from it for a routing that another one may need too."""

    def __init__(self, records: pa.Table, arrived_at: float, columns_at: Callable[[JsonPath], Sequence[BatchColumn]]) -> None:
        self._records, self._arrived_at, self._columns_at = records, arrived_at, columns_at
        self._times: dict[JsonPath | HeaderField | None, EventTimes] = {}
        self._keys: dict[JsonPath, PartitionKeys] = {}

    def pieces(self, partitioning: Partitioning | None) -> Mapping[str, Piece]:
        """The pieces of one routing."""
        if not self._records.num_rows:
            return {}
        if partitioning is None:
            return self._cut([(WHOLE, np.arange(self._records.num_rows))], None)
        if partitioning.key is not None:
            return self._cut(*self._by_key(partitioning.key), kept=self._keys[partitioning.key].kept)
        times = self._event_times(partitioning.event_time)
        return self._cut(*self._by_time(partitioning), times.micros, times.kept)

    def _by_key(self, path: JsonPath) -> tuple[Placed, pa.Array]:
        if path not in self._keys:
            self._keys[path] = read_partition_keys(self._records, path, self._columns(path))
        read = self._keys[path]
        taken = pc.equal(read.keys, UNROUTED).fill_null(False)
        return list(_grouped(read.keys.fill_null(UNROUTED))), pc.if_else(taken, "bad_partition_key", read.reasons)

    def _by_time(self, partitioning: Partitioning) -> tuple[Placed, pa.Array]:
        calendar, times = calendar_of(partitioning), self._event_times(partitioning.event_time)
        good = times.reasons.is_null().to_numpy(zero_copy_only=False)
        in_years = good & (times.micros >= calendar.earliest) & (times.micros < calendar.end)
        held = in_years & (times.micros >= calendar.first)
        placed = list(_sliced(calendar, times.micros, np.flatnonzero(held)))
        if held.all():
            return placed, None
        outside = pc.if_else(pa.array(in_years), "before_start", "event_time_out_of_range")
        return [*placed, (UNROUTED, np.flatnonzero(~held))], pc.if_else(pa.array(good), outside, times.reasons)

    def _event_times(self, source: JsonPath | HeaderField | None) -> EventTimes:
        if source not in self._times:
            read = read_event_times(self._records, source, self._columns(source) if isinstance(source, tuple) else ())
            self._times[source] = read if source is not None else self._or_arrival(read)
        return self._times[source]

    def _columns(self, path: JsonPath) -> Sequence[BatchColumn]:
        return worth_keeping(self._columns_at(path), self._records["value"])

    def _or_arrival(self, read: EventTimes) -> EventTimes:
        absent = pc.equal(read.reasons, "no_event_time").fill_null(False)
        micros = np.where(absent.to_numpy(zero_copy_only=False), int(self._arrived_at * MICROSECONDS), read.micros)
        return EventTimes(micros, pc.if_else(absent, None, read.reasons))

    def _cut(
        self, placed: Placed, reasons: pa.Array | None, micros: Numbers | None = None, kept: Kept = (),
    ) -> Mapping[str, Piece]:
        pieces, whole = {}, self._records
        kept = kept if len(whole) >= SHARED_ROWS_MAX * len(placed) else ()  # the columns of small pieces are more work than reading them once more
        for column in kept:
            whole = whole.append_column(*column)
        for (identity, rows), records in zip(placed, _shared_out(whole, [rows for _, rows in placed]), strict=True):
            why = reasons.take(rows) if reasons is not None and identity == UNROUTED else None
            newest = int(micros[rows].max()) if micros is not None and identity != UNROUTED else None
            lo, hi = int(self._offsets[rows[0]]), int(self._offsets[rows[-1]]) + 1
            size_bytes = int(self._sizes[rows].sum())
            slim, beside_bytes = within(records, size_bytes if identity != UNROUTED else 0) if kept else (records, 0)  # without a slice it is never decoded
            pieces[identity] = Piece(lo, hi, len(rows), size_bytes, Rows(slim, why, newest), beside_bytes=beside_bytes)
        return pieces

    @cached_property
    def _offsets(self) -> Numbers:
        offsets: Numbers = self._records["offset"].to_numpy()
        return offsets

    @cached_property
    def _sizes(self) -> Numbers:
        """Bytes of each record: value, key, names and values of headers."""
        total: Numbers = _lengths(self._records["value"]) + _lengths(self._records["key"])
        headers = one_array(self._records["headers"])
        if len(fields := headers.flatten()):
            sizes = np.bincount(pc.list_parent_indices(headers), _lengths(fields.field("name")) + _lengths(fields.field("value")), len(headers))
            total += sizes.astype(np.int64)
        return total


def _shared_out(records: pa.Table, places: Sequence[Numbers]) -> Iterator[pa.Table]:
    """The records at some rows, for each of the places that share them all out."""
    if len(places) == 1:
        yield records
        return
    small = [rows for rows in places if len(rows) < SHARED_ROWS_MAX]
    shared, at = records.take(np.concatenate([np.empty(0, np.int64), *small])), 0
    for rows in places:
        if len(rows) < SHARED_ROWS_MAX:
            yield shared.slice(at, len(rows))
            at += len(rows)
        else:
            yield records.take(rows)


def _lengths(column: pa.Array | pa.ChunkedArray) -> Numbers:
    if column.null_count == len(column):
        return np.zeros(len(column), np.int64)
    lengths: Numbers = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    return lengths


def _grouped(keys: pa.Array) -> Iterator[tuple[str, Numbers]]:
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
    for start, end in pairwise(bounds):
        yield encoded.dictionary[int(codes[order[start]])].as_py(), order[start:end]


def _sliced(calendar: Calendar, micros: Numbers, rows: Numbers) -> Iterator[tuple[str, Numbers]]:
    """`rows` by slice: the calendar is asked for the slice of the smallest, then for that of the smallest beyond its end, and so on.

    Few slices are looked for one by one, which takes a tenth of the time of sorting; what is left then is sorted.
    """
    held = micros[rows]
    for _ in range(FEW_SLICES):
        if not len(rows):
            return
        one = calendar.slice_of(int(held.min()))
        inside = held < one.end
        if inside.all():
            yield one.identity, rows
            return
        yield one.identity, rows[inside]
        rows, held = rows[~inside], held[~inside]
    order = np.argsort(held, kind="stable")
    ordered, start = held[order], 0
    while start < len(ordered):
        one = calendar.slice_of(int(ordered[start]))
        end = int(np.searchsorted(ordered, one.end))
        yield one.identity, np.sort(rows[order[start:end]])
        start = end
