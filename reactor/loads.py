"""What compiled code does for which numba has no words: reads without the check for an index below zero, reads of eight bytes, copies of many.

They prove nothing: whoever calls them knows that what is read or written lies in the array. On a machine that keeps the lowest byte first, as all
do that Reactor runs on, the first of eight bytes is the lowest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

_WORD = ir.IntType(64)


def _place(context: Any, builder: Any, signature: Any, given: Any, which: int = 0) -> Any:  # noqa: ANN401 - what numba and LLVM hand over has no types
    held = context.make_array(signature.args[which])(context, builder, given[which])
    return builder.gep(held.data, [given[which + 1]])


def _item(_: object, array: Any, _at: object) -> Any:  # noqa: ANN401 - the same
    return array.dtype(array, types.int64), lambda *call: call[1].load(_place(*call))


def _eight(_: object, array: Any, _at: object) -> Any:  # noqa: ANN401 - the same
    return types.uint64(array, types.int64), lambda *call: call[1].load(call[1].bitcast(_place(*call), _WORD.as_pointer()), align=1)


def _zeros(_: object, _word: object) -> Any:  # noqa: ANN401 - the same
    return types.int64(types.uint64), lambda *call: call[1].cttz(call[3][0], ir.Constant(ir.IntType(1), 0))


def _copied(_: object, out: Any, _to: object, data: Any, _at: object, _size: object) -> Any:  # noqa: ANN401 - the same
    def copy(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401 - the same
        cgutils.raw_memcpy(builder, _place(context, builder, signature, given), _place(context, builder, signature, given, 2), given[4], 1)
        return given[4]

    return types.int64(out, types.int64, data, types.int64, types.int64), copy


item = cast("Callable[[NDArray[Any], int], int]", intrinsic(_item))
"""`item(array, at)`: what stands at this place of its memory, which is in one piece."""
eight = cast("Callable[[NDArray[np.uint8], int], np.uint64]", intrinsic(_eight))
"""`eight(data, at)`: the eight bytes from `at` on."""
zeros = cast("Callable[[np.uint64], int]", intrinsic(_zeros))
"""`zeros(word)`: how many of the lowest bits of a word are 0."""
copied = cast("Callable[[NDArray[np.uint8], int, NDArray[np.uint8], int, int], int]", intrinsic(_copied))
"""`copied(out, to, data, at, size)`: writes bytes of one array into another; how many."""
