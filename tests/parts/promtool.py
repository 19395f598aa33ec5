"""Prometheus' own checker of metrics and rules."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.parts import PartMissing


@contextmanager
def found_promtool() -> Iterator[Path]:
    """Where the program is. Raises `PartMissing`."""
    found = shutil.which("promtool")
    if found is None:
        raise PartMissing("promtool is not installed (Debian: apt-get install prometheus)")
    yield Path(found)
