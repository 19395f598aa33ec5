"""Which tests `-m` chooses: marks of parts come from what a test uses."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("asked", "collected"), [("kafka", True), ("not kafka", False)])
def test_what_uses_kafka_is_chosen_by_its_mark(asked: str, collected: bool) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", asked, "tests/parts/test_kafka_cluster.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ("::test_the_shared_kafka_has_transactions" in done.stdout) is collected, done.stdout + done.stderr
