"""Why a record is set aside: a small number in columns of many rows, a word (conventions 11) at the border of the package."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Reasons = npt.NDArray[np.uint8]
"""One code a row: an index into WORDS."""

WORDS = (
    None, "empty_value", "not_utf8", "not_json", "nesting_too_deep", "not_object", "duplicate_key", "wrong_type", "out_of_range",
    "tombstone", "no_event_time", "bad_event_time", "event_time_out_of_range", "no_partition_key", "bad_partition_key",
)
FINE, EMPTY_VALUE, NOT_UTF8, NOT_JSON, NESTING_TOO_DEEP, NOT_OBJECT, DUPLICATE_KEY, WRONG_TYPE, OUT_OF_RANGE = range(9)
TOMBSTONE, NO_EVENT_TIME, BAD_EVENT_TIME, EVENT_TIME_OUT_OF_RANGE, NO_PARTITION_KEY, BAD_PARTITION_KEY = range(9, 15)


def words(reasons: Reasons) -> pa.Array:
    """Arrow strings, null where a row is FINE."""
    if not reasons.any():
        return pa.nulls(len(reasons), pa.string())
    return pa.array(WORDS, pa.string()).take(pa.array(reasons))


def graver(one: Reasons, other: Reasons) -> Reasons:
    """Of two reasons for one row the one that counts: the order of WORDS is their precedence."""
    if not other.any():
        return one
    return np.where(one == FINE, other, np.where(other == FINE, one, np.minimum(one, other))).astype(np.uint8)
