"""Asset partitions as somebody names them: a record by its key, an operator by hand, a backfill by its range."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from reactor.domain.partitions.calendars import Calendar, NoSlice, Slice, calendar_of, rfc3339
from reactor.domain.partitions.formats import IDENTITY_BYTES_MAX
from reactor.domain.scripts import Partitioning
from reactor.domain.spans import UNROUTED, WHOLE
from reactor.errors import UsageError


def dynamic_key(value: object) -> str:
    """The identity that a JSON value names: a string as it is, a boolean as `true` or `false`, a number as its JSON text.

    Have numbers parsed as text (`json.loads(…, parse_int=str, parse_float=str)`), so that 1.10 stays 1.10; None stands for null and for
    a path that is not there. Raises `NoSlice` (`no_partition_key`, `bad_partition_key`).
    """
    match value:
        case None:
            raise NoSlice("no_partition_key", "there is no key to name a slice")
        case bool():
            return "true" if value else "false"
        case str():
            return _fitting(value)
        case _:
            raise NoSlice("bad_partition_key", "only a string, a number or a boolean can name a slice")


def asked_partition(partitioning: Partitioning | None, key: str | None, now: float) -> str:
    """The asset partition of a run by hand; without a key the bucket of `now` (POSIX seconds), which the caller has to say.

    Raises `NoSlice`; `UsageError` for a key of an asset that has no partitions.
    """
    if partitioning is None:
        if key:
            raise UsageError(f"the asset is not partitioned, so it has no {key!r}", hint="leave the partition out")
        return WHOLE
    if partitioning.kind == "dynamic":
        return dynamic_key(key)
    calendar = calendar_of(partitioning)
    return (calendar.current(now) if key is None else calendar.parse(key)).identity


def asked_range(partitioning: Partitioning | None, first: str, last: str) -> Sequence[Slice]:
    """The slices that two local dates or keys and all between them touch, in time order. Those that begin after now are among them.

    Raises `NoSlice` for what is neither a date nor a key; `UsageError` for an asset without a calendar and for `first` after `last`.
    """
    if partitioning is None:
        raise UsageError("the asset is not partitioned, so it has no range", hint="run it instead")
    calendar = calendar_of(partitioning)
    (start, _), (begin, end) = _touched(calendar, first), _touched(calendar, last)
    if begin < start:
        raise UsageError(f"{first} comes after {last}", hint="give the earlier one first")
    return tuple(calendar.overlapping(start, end))


def window(partitioning: Partitioning | None, identity: str) -> tuple[str | None, str | None]:
    """The bounds of an asset partition as RFC 3339 UTC text; None where there are none (dynamic, unpartitioned, `UNROUTED`).

    `start=` is for what is asked or comes in: what was a slice before it was moved still is one. Raises `NoSlice` if the identity is none of this
    partitioning.
    """
    if identity == UNROUTED:
        return None, None
    if partitioning is None:
        if identity != WHOLE:
            raise NoSlice("no_such_slice", f"the asset is not partitioned, so it has no {identity!r}")
        return None, None
    if partitioning.kind == "dynamic":
        _fitting(identity)
        return None, None
    found = calendar_of(replace(partitioning, start=None)).parse(identity)
    return rfc3339(found.start), rfc3339(found.end)


def _fitting(key: str) -> str:
    size = len(key.encode(errors="surrogatepass"))
    if not 1 <= size <= IDENTITY_BYTES_MAX:
        raise NoSlice("bad_partition_key", f"a key has 1 to {IDENTITY_BYTES_MAX} bytes of UTF-8, this one has {size}")
    if "\0" in key or key == UNROUTED or re.search("[\ud800-\udfff]", key):
        raise NoSlice("bad_partition_key", f"{key!r} cannot name a slice: it holds NUL or half a surrogate pair, or is taken")
    return key


def _touched(calendar: Calendar, text: str) -> tuple[int, int]:
    """The instants of a key, else of a local date."""
    try:
        named = calendar.parse(text)
    except NoSlice:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
            raise
        return calendar.of_date(_date(text))
    return named.start, named.end


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise NoSlice("no_such_slice", f"{text!r} is no date of the calendar") from None
