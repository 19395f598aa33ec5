"""Loops over bytes as machine code: how they are compiled, where the code is kept, and how nobody has to wait for it.

A *kernel* is a function that Python calls, a *compiled* function one that only compiled ones call. numba compiles a kernel with all that it
calls at its first call, and runs it without the interpreter's lock. The compiling itself needs that lock, for seconds: a service has it done
`ahead`, in a process of its own for each processor; a kernel that is called meanwhile waits for the process that has its own, in the thread that called it.

The machine code is kept, so this happens once for each machine and version: in `NUMBA_CACHE_DIR` if that is set, else beside the modules
(`__pycache__`), else, where Reactor is installed read-only, in the folder that `ahead` is given (`.reactor/compiled` of the project), else in
the user's cache folder. Where nothing can be written it is made anew in each process. numba asks only whether a kernel's own file has changed,
but tables and constants of other files are in its code, too: its name carries a digest of the folder that it stands in and of `reactor.loads`, and
all that it uses stands there. A mark beside the code says that a module is done; where it is, `ahead` starts nothing.
"""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name

P = ParamSpec("P")
R = TypeVar("R")

CACHE_VARIABLE: Final = "NUMBA_CACHE_DIR"
_KERNEL: Final[dict[str, Any]] = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False, "no_rewrites": True}
_INNER: Final[dict[str, Any]] = {**_KERNEL, "no_cpython_wrapper": True}
"""Ways in that nobody takes, divisions that are checked, counts of who holds an array, and a look for expressions of whole arrays, which are none here,
are a third of the time that compiling takes; without the counts scanning takes a fifth less, too. (numba's annotations lack them, and its cache does not ask for them: the digest has this file.)"""
_BESIDE: Final = Path(__file__).parent / "__pycache__"
_ahead: dict[str, subprocess.Popen[bytes]] = {}
"""Module → the process that compiles it."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """For functions that only compiled ones call. Indexes are not checked: a function proves its bounds itself."""
    return cast("Callable[P, R]", numba.njit(function, **_INNER))


def kernel(*, writes: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For functions that Python calls; they write to their last `writes` arguments. They cannot make arrays: nobody would count who holds one.

    The arrays before those arrive contiguous and read-only, whatever they were, so one compilation serves all.
    """

    def made(function: Callable[P, R]) -> Callable[P, R]:
        function.__qualname__ += f"_{_digest(Path(function.__code__.co_filename).parent)}"
        code = cast("Any", numba.njit(function, nogil=True, **_KERNEL))
        called = False

        @wraps(function)
        def call(*args: P.args, **_: P.kwargs) -> R:
            nonlocal called
            if not called:
                _wait_for(function.__module__)
                with suppress(RuntimeError):  # no folder for the cache can be written
                    code.enable_caching()
                called = True
            return cast("R", code(*map(_frozen, args[:-writes]), *args[-writes:]))

        return call

    return made


def _frozen(value: object) -> object:
    if isinstance(value, np.ndarray):
        value = np.ascontiguousarray(value).view()
        value.flags.writeable = False
    return value


def ahead(modules: Iterable[str], folder: Path) -> None:
    """Compile these modules where that has not been done, dealt out to processes; `folder` keeps the code if Reactor's own cannot be written.

    Each module has a function `prepare` that calls each of its kernels once. A process costs what it imports, half a second.
    """
    if CACHE_VARIABLE not in os.environ and not os.access(Path(__file__).parent, os.W_OK):
        os.environ[CACHE_VARIABLE] = str(folder)
        numba.config.reload_config()
    missing = [m for m in modules if m not in _ahead and not os.path.exists(_mark(m))]  # noqa: PTH110 - a folder that may not be searched has none
    count = os.cpu_count() or 1
    for dealt in filter(None, (missing[n::count] for n in range(count))):
        process = subprocess.Popen(  # noqa: S603 - this interpreter, on this file
            [sys.executable, "-P", "-m", __name__, *dealt], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        _ahead.update(dict.fromkeys(dealt, process))


def load(modules: Iterable[str]) -> None:
    """Read the machine code of these modules, once it is made (blocking): the first records would wait for it."""
    for module in modules:
        _wait_for(module)
        if os.path.exists(_mark(module)):  # noqa: PTH110 - the same; what failed, or was stopped, is made when it is called
            import_module(module).prepare()


def stop() -> None:
    """End the processes that still compile."""
    for module, process in list(_ahead.items()):
        process.kill()
        _wait_for(module)


def _wait_for(module: str) -> None:
    """Until nobody else compiles it; whether that went well is seen by what lies in the cache."""
    if process := _ahead.get(module):
        process.wait()
        _ahead.pop(module, None)


def _mark(module: str) -> Path:
    """The file that says that the machine code of a module is kept: of this text, this compiler and this kind of machine."""
    spec, kept = find_spec(module), os.environ.get(CACHE_VARIABLE)
    text = _digest(Path(spec.origin).parent if spec and spec.origin else _BESIDE)
    facts = f"{text} {numba.__version__} {sys.version} {get_host_cpu_name()}"
    return (Path(kept) if kept else _BESIDE) / f"{module}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.compiled"


@cache
def _digest(folder: Path) -> str:
    """Of all that a kernel of this folder may use."""
    files = [Path(__file__), Path(__file__).with_name("loads.py"), *sorted(folder.glob("*.py"))]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def main(modules: Iterable[str]) -> int:
    """Compile these modules, and say of each so beside the code; 1 if one cannot be compiled, whatever becomes of the others."""
    gc.disable()  # for these seconds there is memory enough
    code = 0  # no more frames than these: two deeper, and CPython 3.11 maps and unmaps a chunk of its stack at each call in some loop of numba's
    for module in modules:
        try:
            import_module(module).prepare()
        except Exception:  # noqa: BLE001 - of numba, of LLVM, or of the module
            code = 1
            traceback.print_exc()
            continue
        with suppress(OSError):
            mark = _mark(module)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
