"""A process of ours has the allocators that it wants, unless the operator wants others."""

import os
import subprocess
import sys

import pytest

CODE = "from reactor.cli import main\ntry:\n    main(['--version'])\nfinally:\n    import pyarrow\n    print(pyarrow.default_memory_pool().backend_name)"


@pytest.mark.parametrize(("asked_for", "used"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")])
def test_arrow_takes_the_c_library_s(asked_for: dict[str, str], used: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run([sys.executable, "-c", CODE], env={**environment, **asked_for}, capture_output=True, text=True, check=False)
    assert done.stdout.split()[-1] == used, done.stderr
