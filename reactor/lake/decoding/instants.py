"""Instants from text and numbers: one reading for event times and for the time columns of a payload, so that both always agree.

A number is read by its magnitude (below 1e11 seconds, 1e14 milliseconds, 1e17 microseconds, else nanoseconds), by its decimal digits and
never through a double; a text that is exactly one JSON number is that number. Any other text is an ISO 8601 calendar date, or a date and a
time of day: `T`, `t` or one blank between them, seconds and their fraction may be left out, then nothing (UTC), `Z`, or an offset `±hh`,
`±hhmm`, `±hh:mm`, behind at most one blank. No week or day-of-year dates, no 24:00, no leap second (no instant of its own in POSIX time).
What is finer than the result is cut towards the past, so that an instant never leaves its own day.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reactor.compiled import compiled, kernel
from reactor.lake.decoding import grammar
from reactor.lake.decoding.reasons import FINE, OUT_OF_RANGE, WRONG_TYPE, Reasons

Bytes = npt.NDArray[np.uint8]

MICROS_MIN, MICROS_END = -62_135_596_800_000_000, 253_402_300_800_000_000
"""Microseconds of 0001-01-01 and of 10000-01-01 UTC: instants outside of `[MICROS_MIN, MICROS_END)` have no date of four digits."""

SLACK_MICROS = 86_400_000_000
"""How far outside of the years 1 to 9999 UTC an event time may lie: in some zone it still has a local date, and the calendar decides."""

_NO_DIGITS = 100  # more than any two digits say
_DAY_SECONDS = 86_400
_FAR_DAYS = 10_000_000  # out of range, and its microseconds still fit 64 bits
_EXPONENT_MAX = 1_000_000_000
_MONTH_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)
_TENS = np.array([1, 10, 100], np.int64)
_Instant = tuple[int, int, int]


@compiled
def _digits(data: Bytes, at: int, end: int) -> int:
    """How many ASCII digits stand from `at` on."""
    count = 0
    while at + count < end and 48 <= data[at + count] <= 57:
        count += 1
    return count


@compiled
def _is_number(data: Bytes, at: int, end: int) -> bool:
    """Whether `[at, end)` is exactly one JSON number."""
    state = grammar.BEGIN_SCALAR
    for k in range(at, end):
        state = int(grammar.NEXT[state, data[k]])
    return bool(grammar.INTEGER <= grammar.ENDING_KIND[state] <= grammar.EXPONENT)


@compiled
def _exponent(data: Bytes, at: int, end: int) -> int:
    """The value of `e±digits` at `at`, or one beyond ±_EXPONENT_MAX where it is further."""
    if at >= end:
        return 0
    negative = data[at + 1] == 45
    value = 0
    for k in range(at + 1, end):
        if 48 <= data[k] <= 57 and value < _EXPONENT_MAX:
            value = value * 10 + int(data[k]) - 48
    return -value if negative else value


@compiled
def _number_instant(data: Bytes, at: int, end: int) -> _Instant:
    """(reason, microseconds, further nanoseconds 0..999) of the JSON number `[at, end)`."""
    negative = data[at] == 45
    mantissa = at + 1 if negative else at
    whole = _digits(data, mantissa, end)
    stop = mantissa + whole
    if stop < end and data[stop] == 46:
        stop += 1 + _digits(data, stop + 1, end)
    first = mantissa
    while first < stop and (data[first] == 48 or data[first] == 46):
        first += 1
    if first == stop:
        return FINE, 0, 0
    # The number is 0.d1d2d3… * 10 ** point, where d1 is its first digit that is not zero.
    leading = first - mantissa if first < mantissa + whole else first - mantissa - 1
    point = whole - leading + _exponent(data, stop, end)
    unit = 9 if point <= 11 else 6 if point <= 14 else 3 if point <= 17 else 0
    length = point + unit
    if length > 21:
        return OUT_OF_RANGE, 0, 0
    micros, nanos, seen, finer = 0, 0, 0, False
    for k in range(first, stop):
        if data[k] == 46:
            continue
        digit = int(data[k]) - 48
        if seen < length - 3:
            micros = micros * 10 + digit
        elif seen < length:
            nanos += digit * _TENS[length - 1 - seen]
        elif digit:
            finer = True
        seen += 1
    for _ in range(seen, length - 3):
        micros *= 10
    if not negative:
        return FINE, micros, nanos
    nanos += finer
    borrow = -(-nanos // 1000)
    return FINE, -micros - borrow, borrow * 1000 - nanos


@compiled
def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the proleptic Gregorian calendar; March is the first month of the year counted here."""
    if month <= 2:
        year -= 1
        month += 12
    return year * 365 + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719_469


@compiled
def _two(data: Bytes, at: int, end: int) -> int:
    """The value of the two digits at `at`; NO_DIGITS: they are none."""
    if at + 2 > end:
        return _NO_DIGITS
    tens, ones = int(data[at]) - 48, int(data[at + 1]) - 48
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else _NO_DIGITS


@compiled
def _date(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """(days from 1970-01-01, where the date ends); an end of -1: no date. Years beyond four digits are read up to 999,999."""
    signed = data[at] == 43 or data[at] == 45 if at < end else False
    first = at + signed
    width = _digits(data, first, min(end, first + 7))
    if width < 4 or width > 6 or (width > 4 and not signed and data[first] == 48):
        return 0, -1
    year = 0
    for k in range(first, first + width):
        year = year * 10 + int(data[k]) - 48
    if signed and data[at] == 45:
        year = -year
    at = first + width
    if at + 6 > end or data[at] != 45 or data[at + 3] != 45:
        return 0, -1
    month, day = _two(data, at + 1, end), _two(data, at + 4, end)
    if month < 1 or month > 12:
        return 0, -1
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day < 1 or day > _MONTH_DAYS[month - 1] + leap:
        return 0, -1
    days = _days(year, month, day)
    if abs(days) > _FAR_DAYS:
        days = _FAR_DAYS
    return days, at + 6


@compiled
def _clock(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """(seconds of the day, nanoseconds, where the time of day ends); an end of -1: no time of day."""
    hour, minute, second, nanos = _two(data, at, end), _two(data, at + 3, end), 0, 0
    if hour > 23 or minute > 59 or data[at + 2] != 58:
        return 0, 0, -1
    at += 5
    if at < end and data[at] == 58:
        second = _two(data, at + 1, end)
        if second > 59:
            return 0, 0, -1
        at += 3
        if at < end and (data[at] == 46 or data[at] == 44):
            at, first, unit = at + 1, at + 1, 100_000_000
            while at < end and 48 <= data[at] <= 57:
                nanos += (int(data[at]) - 48) * unit
                unit //= 10
                at += 1
            if at == first:
                return 0, 0, -1
    return hour * 3600 + minute * 60 + second, nanos, at


@compiled
def _offset(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """(seconds east of UTC, whether `[at, end)` is a zone)."""
    if at == end or (at + 1 == end and (data[at] == 90 or data[at] == 122)):
        return 0, True
    if data[at] == 32:
        at += 1
    if at >= end or (data[at] != 43 and data[at] != 45):
        return 0, False
    sign = -1 if data[at] == 45 else 1
    hours, minutes, at = _two(data, at + 1, end), 0, at + 3
    if at < end:
        at += data[at] == 58
        minutes = _two(data, at, end)
        at += 2
    return sign * (hours * 3600 + minutes * 60), hours <= 23 and minutes <= 59 and at == end


@compiled
def _text_instant(data: Bytes, at: int, end: int) -> _Instant:
    """(reason, microseconds, further nanoseconds 0..999) of the text `[at, end)`."""
    days, after = _date(data, at, end)
    if after < 0:
        return _number_instant(data, at, end) if _is_number(data, at, end) else (WRONG_TYPE, 0, 0)
    seconds, nanos, east, zoned = 0, 0, 0, True
    if after < end:
        zoned = data[after] == 84 or data[after] == 116 or data[after] == 32
        seconds, nanos, after = _clock(data, after + 1, end)
        if after >= 0:
            east, zoned = _offset(data, after, end) if zoned else (0, False)
    if after < 0 or not zoned:
        return WRONG_TYPE, 0, 0
    return FINE, (days * _DAY_SECONDS + seconds - east) * 1_000_000 + nanos // 1000, nanos % 1000


def read_instants(
    data: Bytes, offsets: npt.NDArray[np.int64], numbers: npt.NDArray[np.bool_], texts: npt.NDArray[np.bool_], slack_micros: int,
) -> tuple[Reasons, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(reason, microseconds UTC, further nanoseconds 0..999) of JSON numbers and of texts without quotes; of other rows WRONG_TYPE.

    OUT_OF_RANGE: a time, more than `slack_micros` outside of the years 1 to 9999 in UTC.
    """
    reasons, found = np.full(len(numbers), WRONG_TYPE, np.uint8), np.zeros((2, len(numbers)), np.int64)
    if len(numbers):
        _read_instants(data, offsets, numbers, texts, slack_micros, reasons, found)
    return reasons, found[0], found[1]


@kernel(writes=2)
def _read_instants(
    data: Bytes, offsets: npt.NDArray[np.int64], numbers: npt.NDArray[np.bool_], texts: npt.NDArray[np.bool_], slack_micros: int,
    reasons: Reasons, found: npt.NDArray[np.int64],
) -> None:
    for row in range(len(numbers)):
        at, end = offsets[row], offsets[row + 1]
        if numbers[row]:
            reasons[row], found[0, row], found[1, row] = _number_instant(data, at, end)
        elif texts[row]:
            reasons[row], found[0, row], found[1, row] = _text_instant(data, at, end)
        if reasons[row] == FINE and not MICROS_MIN - slack_micros <= found[0, row] < MICROS_END + slack_micros:
            reasons[row] = OUT_OF_RANGE


def read_clocks(
    data: Bytes, offsets: npt.NDArray[np.int64], texts: npt.NDArray[np.bool_],
) -> tuple[Reasons, npt.NDArray[np.int64]]:
    """(reason, microseconds of the day) of texts that are a time of day without zone; of other rows WRONG_TYPE."""
    reasons, micros = np.full(len(texts), WRONG_TYPE, np.uint8), np.zeros(len(texts), np.int64)
    if len(texts):
        _read_clocks(data, offsets, texts, reasons, micros)
    return reasons, micros


@kernel(writes=2)
def _read_clocks(
    data: Bytes, offsets: npt.NDArray[np.int64], texts: npt.NDArray[np.bool_], reasons: Reasons, micros: npt.NDArray[np.int64],
) -> None:
    for row in range(len(texts)):
        if texts[row]:
            seconds, nanos, at = _clock(data, offsets[row], offsets[row + 1])
            if at == offsets[row + 1]:
                reasons[row], micros[row] = FINE, seconds * 1_000_000 + nanos // 1000


def prepare() -> None:
    """Compile all of it now (`reactor.compiled`)."""
    text, offsets, one = np.frombuffer(b"2026-03-01", np.uint8), np.array([0, 10]), np.ones(1, np.bool_)
    read_instants(text, offsets, ~one, one, 0)
    read_clocks(text, offsets, one)
