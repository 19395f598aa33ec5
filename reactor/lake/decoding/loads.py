"""Reads of compiled code for which numba has no words: without the check for an index below zero, and of eight bytes at once.

They prove nothing: whoever calls them knows that what is read lies in the array. On a machine that keeps the lowest byte first, as all do that
Reactor runs on, the first of eight bytes is the lowest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from reactor.compiled import compiled

_WORD = ir.IntType(64)
_EACH, _TOP = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_BLANKS, _QUOTES, _BACKSLASHES = (np.uint64(byte * int(_EACH)) for byte in b' "\\')


def _place(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401 - what numba and LLVM hand over has no types
    held = context.make_array(signature.args[0])(context, builder, given[0])
    return builder.gep(held.data, [given[1]])


def _item(_: object, array: Any, _at: object) -> Any:  # noqa: ANN401 - the same
    return array.dtype(array, types.int64), lambda *call: call[1].load(_place(*call))


def _eight(_: object, array: Any, _at: object) -> Any:  # noqa: ANN401 - the same
    return types.uint64(array, types.int64), lambda *call: call[1].load(call[1].bitcast(_place(*call), _WORD.as_pointer()), align=1)


def _zeros(_: object, _word: object) -> Any:  # noqa: ANN401 - the same
    return types.int64(types.uint64), lambda *call: call[1].cttz(call[3][0], ir.Constant(ir.IntType(1), 0))


item = cast("Callable[[NDArray[Any], int], int]", intrinsic(_item))
"""`item(array, at)`: what stands at this place of its memory, which is in one piece."""
eight = cast("Callable[[NDArray[np.uint8], int], np.uint64]", intrinsic(_eight))
"""`eight(data, at)`: the eight bytes from `at` on."""
zeros = cast("Callable[[np.uint64], int]", intrinsic(_zeros))
"""`zeros(word)`: how many of the lowest bits of a word are 0."""


@compiled
def special(word: np.uint64) -> np.uint64:
    """The lowest bit that is set stands in the first of eight bytes that means something inside a JSON string: a control character, a quote, a
    backslash, a byte of something longer than ASCII. Zero: none of them does.
    """
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    return (word | (word - _BLANKS) | (quotes - _EACH) | (backslashes - _EACH)) & _TOP
