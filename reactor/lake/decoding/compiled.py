"""How loops over bytes are compiled: once per machine, in the calling thread, without the interpreter's lock while they run.

The machine code is kept beside the module, or in `NUMBA_CACHE_DIR`, or in the user's cache folder. Where none of them can be written it
is made anew in each process. Everything a compiled function calls stands in its own file: the cache notices a change of that file only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call for its types. Indexes are not checked: a kernel proves its bounds itself."""
    try:
        kernel = numba.njit(function, nogil=True, cache=True)
    except RuntimeError:  # no folder for the cache can be written
        kernel = numba.njit(function, nogil=True)
    return cast("Callable[P, R]", kernel)
