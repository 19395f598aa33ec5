"""Runs one Python script: `python program.py x.py`. Its `main` gets those of trigger, partition, partition_start, partition_end that it names; a
file without `main` just runs.

This file is run by its path, by whatever interpreter `[runners.python]` names: Reactor need not be installed there, so nothing of it is imported.
The script's folder and the project's are where it finds modules of its own.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import runpy
import sys
import traceback
from pathlib import Path


def main(script: str) -> None:
    """Run it."""
    sys.argv[:] = [script]
    sys.path[:1] = [str(Path(script).resolve().parent), str(Path.cwd())]  # instead of this file's folder
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


def missing(module: str) -> str:
    """What to do about a module that is not there."""
    package, python = module.partition(".")[0], sys.executable
    return (f"{python} has no module `{module}`. Next step: {python} -m pip install {package} (the package may have another name), or name an "
            'interpreter that has it: [runners.python] interpreter = ".venv/bin/python"')


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ModuleNotFoundError as error:
        traceback.print_exc()
        sys.exit(missing(error.name) if error.name else 1)
