"""The calendar of asset partitions: which slice an instant belongs to, how slices are called, and back from a name to its instants.

Authority: the `tzdata` package says when clocks change, and nothing else does: not the machine's zone files, not the data inside DuckDB (the
two differ even for the next years), not the platform's strftime. `Timeline` turns the changes into stretches of one offset; `Calendar`,
keys and the SQL of `wm_partition` (`reactor.lake.statements.windows`) are all made from these stretches, so they cannot disagree. New
zone data moves the bounds of slices that are still to come, never the name that a past run carries.

Rules. The slices of a time kind tile time: half-open, no gap, no overlap, in every zone, from the local year 1 to 9999. A slice of zero
length (a day that a zone skipped) does not exist. A local hour of which a part comes twice is two slices, and their names carry the offset;
no other name does, unless a format has `%z`, which then cuts hours where the offset changes. A day is one interval even where clocks go back
over midnight: it begins at the last instant that shows its midnight. `start` is a local date: instants before its first one have no slice,
and a week or month that it falls into keeps its bounds. A key has one spelling.

Failure: what has no slice raises `NoSlice` with the reason word of the quarantine (records) or of the refusal (keys); nothing is guessed.
Everything is cached for the life of the process; values are immutable, so any thread may ask.
"""

from reactor.domain.partitions.calendars import MICROSECONDS, Calendar, NoSlice, NoSliceReason, Slice, calendar_of, rfc3339
from reactor.domain.partitions.formats import IDENTITY_BYTES_MAX, STANDARD_FORMATS, format_problem
from reactor.domain.partitions.keys import asked_partition, asked_range, dynamic_key, window
from reactor.domain.partitions.units import TimeKind
from reactor.domain.partitions.zones import zone_names

__all__ = [
    "IDENTITY_BYTES_MAX", "MICROSECONDS", "STANDARD_FORMATS", "Calendar", "NoSlice", "NoSliceReason", "Slice", "TimeKind", "asked_partition", "asked_range",
    "calendar_of", "dynamic_key", "format_problem", "rfc3339", "window", "zone_names",
]  # fmt: skip
