"""Programs that measure one thing: started with an interpreter of choice, listened to, and ended with us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reactor.embedded.child import command_as_child

ROOT = Path(__file__).parents[1]


def last_answer(
    command: Sequence[str], environment: Mapping[str, str], log_path: Path, *, seconds: float, heard: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """The last JSON object that a program prints, one a line; `heard` is told of each. Raises RuntimeError: it fails, or takes too long."""
    answer: dict[str, Any] = {}
    with log_path.open("wb") as log:
        child = subprocess.Popen(
            command_as_child(command, user="same", folder=ROOT, death_signal=signal.SIGKILL), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **environment}, text=True,
        )  # fmt: skip
        watch = threading.Timer(seconds, child.kill)
        watch.start()
        try:
            for line in child.stdout or ():
                if line.startswith("{"):
                    answer = json.loads(line)
                    heard(answer)
            code = child.wait()
        finally:
            watch.cancel()
            child.kill()
            child.wait()
    if code != 0 or not answer:
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{log_path.read_text(errors='replace')[-3000:]}")
    return answer
