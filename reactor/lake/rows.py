"""The payload of a piece: what the splitter hands over and the stage reads. The core carries it and never looks inside."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Rows:
    """The records of one asset partition in one span, in the order of their offsets, with the columns of `ports.RawSpan`.

    `reasons`, only where the asset partition is `UNROUTED`: why each of them has no slice, a word of conventions 11 or `tombstone`.
    `newest_micros`, only in a slice of the calendar: the latest of their event times, microseconds since 1970-01-01 UTC.
    """

    records: pa.Table
    reasons: pa.Array | None = None
    newest_micros: int | None = None
