"""Runs one Python script: `python -m reactor.program x.py`. Its `main` gets those of trigger, partition, partition_start, partition_end
that it names; a file without `main` just runs.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import runpy
import sys
from pathlib import Path


def main(script: str) -> None:
    """Run it."""
    sys.argv[:] = [script]
    sys.path.insert(0, str(Path(script).resolve().parent))
    has_main = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in ast.parse(Path(script).read_bytes()).body)
    names = runpy.run_path(script, run_name="__reactor__" if has_main else "__main__")
    if not has_main:
        return
    entry = names["main"]
    file = os.environ.get("WM_TRIGGER_FILE")
    given = {
        "trigger": json.loads(Path(file).read_text() if file else os.environ.get("WM_TRIGGER", "{}")),
        "partition": os.environ.get("WM_PARTITION", ""),
        "partition_start": os.environ.get("WM_PARTITION_START") or None,
        "partition_end": os.environ.get("WM_PARTITION_END") or None,
    }
    parameters = inspect.signature(entry).parameters
    everything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    entry(**{name: value for name, value in given.items() if everything or name in parameters})


if __name__ == "__main__":
    main(sys.argv[1])
