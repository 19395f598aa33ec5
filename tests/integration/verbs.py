"""The verbs of the command line, as somebody types them."""

import subprocess
import sys
from pathlib import Path

VERB_SECONDS = 120.0


def reactor(project: Path, *arguments: str) -> tuple[int, str]:
    """A verb: its exit code, and what it says on stdout and stderr."""
    command = [sys.executable, "-m", "reactor", *arguments, "--project", str(project), "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=VERB_SECONDS)
    return done.returncode, done.stdout + done.stderr
