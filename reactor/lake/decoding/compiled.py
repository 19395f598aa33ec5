"""How loops over bytes are compiled: once per machine, in the calling thread, without the interpreter's lock while they run.

The machine code is kept beside the module, or in `NUMBA_CACHE_DIR`, or in the user's cache folder. Where none of them can be written it
is made anew in each process. Everything a compiled function calls stands in its own file: the cache notices a change of that file only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, cast

import numba
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """For functions that only compiled ones call. Indexes are not checked: a function proves its bounds itself."""
    try:
        code = numba.njit(function, nogil=True, cache=True)
    except RuntimeError:  # no folder for the cache can be written
        code = numba.njit(function, nogil=True)
    return cast("Callable[P, R]", code)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """For functions that Python calls. Arrays arrive contiguous and read-only, whatever they were, so one compilation serves all."""
    code = cast("Callable[..., R]", compiled(function))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return code(*map(_frozen, args), **kwargs)

    return call


def _frozen(value: object) -> object:
    if isinstance(value, np.ndarray):
        value = np.ascontiguousarray(value).view()
        value.flags.writeable = False
    return value
