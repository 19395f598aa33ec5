"""Machine code: compiled ahead in a process of its own, kept, and found again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reactor.wiring import KERNELS as KERNELS_OF_A_SERVICE

KERNELS = '''
import numpy as np
from factors import FACTOR
from reactor.compiled import compiled, kernel

@compiled
def _times(value):
    return FACTOR * value

@kernel(writes=1)
def double(values, out):
    for i in range(len(values)):
        out[i] = _times(values[i])

def prepare():
    double(np.zeros(1, np.int64), np.zeros(1, np.int64))
'''
SERVICE = '''
import sys
from pathlib import Path
import numpy as np
from reactor import compiled
import doubling

compiled.ahead(["doubling"], Path("unused"))
started = len(compiled._ahead)
values, out = np.arange(6)[::2], np.zeros(3, np.int64)
values.flags.writeable = sys.argv[1] == "writable"
doubling.double(values, out)
print(started, len(compiled._ahead), out.tolist())
compiled.ahead(["doubling"], Path("unused"))
compiled.stop()
'''


def serve(folder: Path, values: str) -> str:
    """What a service says in which a kernel is called while it is compiled: processes started, processes left, the result."""
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[1])])
    env = os.environ | {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "kept"), "NUMBA_DEBUG_CACHE": "1"}
    done = subprocess.run([sys.executable, "-c", SERVICE, values], env=env, cwd=folder, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


def test_a_kernel_waits_for_the_process_that_compiles_it_and_takes_what_that_has_kept(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(KERNELS)
    (tmp_path / "factors.py").write_text("FACTOR = 2")
    first = serve(tmp_path, "writable")
    assert "1 0 [0, 4, 8]" in first
    assert "data loaded" in first
    assert "data saved" not in first, "the service itself compiles nothing"
    again = serve(tmp_path, "read-only")
    assert "0 0 [0, 4, 8]" in again, "what is kept is not compiled again, and one compilation serves all arrays"
    assert "data saved" not in again
    (tmp_path / "factors.py").write_text("FACTOR = 3")
    assert "1 0 [0, 6, 12]" in serve(tmp_path, "writable"), "what a kernel uses of its folder is part of it"


NO_RECORDS = '''
from tests.lake.decoding.reading import decoded
decoded([], """a BIGINT, b DOUBLE, c DECIMAL(12,2), d VARCHAR, e JSON, f UUID, g TIMESTAMPTZ, h TIME, i DATE, j HUGEINT, k BOOLEAN,
    l STRUCT(x BIGINT)[], m MAP(VARCHAR, TIMESTAMP)""")
decoded([], None)
'''
MADE = """
import sys
from importlib import import_module
from numba.core.dispatcher import Dispatcher
for name in sys.argv[1:]:
    module = import_module(name)
    module.prepare()
    for made in vars(module).values():
        if isinstance(made, Dispatcher) and made.py_func.__module__ == name:
            print(made.py_func.__name__, len(made.signatures))
"""


def said(code: str, kept: Path, *arguments: str) -> str:
    """What this says in a process of its own that finds no machine code."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "NUMBA_CACHE_DIR": str(kept)}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True, check=True, timeout=300).stdout


def test_a_module_that_cannot_be_compiled_leaves_the_others_alone(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(KERNELS)
    (tmp_path / "factors.py").write_text("FACTOR = 2")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
    env = os.environ | {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    done = subprocess.run([sys.executable, "-m", "reactor.compiled", "absent", "doubling"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, "No module named 'absent'" in done.stderr) == (1, True)
    assert [mark.name.partition("-")[0] for mark in (tmp_path / "kept").glob("*.compiled")] == ["doubling"]


def test_tables_are_made_without_machine_code(tmp_path: Path) -> None:
    said(NO_RECORDS, tmp_path)
    assert not list(tmp_path.rglob("*.nbi"))


@pytest.mark.long
def test_nothing_is_compiled_twice(tmp_path: Path) -> None:
    counts = dict(line.split() for line in said(MADE, tmp_path, *KERNELS_OF_A_SERVICE).splitlines())
    assert len(counts) > 20
    assert {name: count for name, count in counts.items() if count != "1"} == {"_among": "2"}, "names stand in the data or, without escapes, in memory of ours"
