"""Plain numbers straight from their digits, for the types that 64 bits hold: no text is copied and nothing is left to cast.

Only what is sure is read here: up to 18 digits without an exponent, no more decimals than the type has. A double is the quotient of two
numbers that doubles hold exactly, so it is the nearest one. The few others go by way of their text (`columns`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reactor.compiled import compiled, kernel
from reactor.lake.decoding import grammar

Bytes = npt.NDArray[np.uint8]
Kinds = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DIGITS_MAX = 18
"""That every signed integer of 64 bits can have."""
EXACT_DIGITS_MAX = 15
"""That every double can have; 10^15 is one, too."""

_POWERS = 10 ** np.arange(DIGITS_MAX + 1, dtype=np.int64)
_NONE = -1


@compiled
def _unsigned(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """(The digits of `[at, end)` as one number, how many they are, how many of them are decimals); the latter _NONE: this is no plain number."""
    number, first, point = 0, at, _NONE
    while at < end:
        b = int(data[at])
        if b == 46 and point == _NONE:
            point = at
        elif 48 <= b <= 57:
            number = number * 10 + (b - 48)
        else:
            return 0, 0, _NONE
        at += 1
    whole = (point if point != _NONE else end) - first
    decimals = end - point - 1 if point != _NONE else 0
    idle = whole > 1 and data[first] == 48
    wrong = whole == 0 or idle or (point != _NONE and decimals == 0)
    return number, whole + decimals, _NONE if wrong else decimals


@compiled
def _bounds(data: Bytes, kind: int, start: int, stop: int) -> tuple[int, int, bool]:
    """(Where the digits of a token begin and end, whether a minus stands before them); of what cannot be a plain number: nothing."""
    if kind == grammar.TEXT:
        start, stop = start + 1, stop - 1
    elif not grammar.INTEGER <= kind <= grammar.FRACTION:
        return start, start, False
    negative = start < stop and data[start] == 45
    return start + negative, stop, negative


@kernel(writes=2)
def scaled(data: Bytes, kinds: Kinds, starts: Places, stops: Places, scale: int, numbers: Places, done: Mask) -> None:
    """Each number times 10^scale, and whether it was read."""
    for row in range(len(kinds)):
        start, stop, negative = _bounds(data, kinds[row], starts[row], stops[row])
        number, digits, decimals = _unsigned(data, start, stop)
        if 0 <= decimals <= scale and digits - decimals + scale <= DIGITS_MAX:
            number *= _POWERS[scale - decimals]
            numbers[row] = -number if negative else number
            done[row] = True


@kernel(writes=2)
def doubles(data: Bytes, kinds: Kinds, starts: Places, stops: Places, numbers: npt.NDArray[np.float64], done: Mask) -> None:
    """Each number as the nearest double, and whether it was read."""
    for row in range(len(kinds)):
        start, stop, negative = _bounds(data, kinds[row], starts[row], stops[row])
        number, digits, decimals = _unsigned(data, start, stop)
        if decimals >= 0 and digits <= EXACT_DIGITS_MAX:
            quotient = float(number) / float(_POWERS[decimals])
            numbers[row] = -quotient if negative else quotient
            done[row] = True


def prepare() -> None:
    """Compile all of it now (`reactor.compiled`)."""
    data, kinds, starts, stops, done = np.zeros(1, np.uint8), np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.bool_)
    scaled(data, kinds, starts, stops, 0, np.zeros(1, np.int64), done)
    doubles(data, kinds, starts, stops, np.zeros(1, np.float64), done)
