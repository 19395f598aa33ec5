"""A lake on the real parts, and the shortest way to run a managed script in it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor.domain.runs import new_run_id
from reactor.lake.ducklake import DuckLake
from reactor.lake.session import LakeSettings


@pytest.fixture
def lake(database: str, tmp_path: Path) -> Iterator[DuckLake]:
    """One lake `main` and one `sales`, in a database of the test's own."""
    lakes = {name: LakeSettings(str(tmp_path / "lakes" / name)) for name in ("main", "sales")}
    lake = DuckLake(postgres_url=database, lakes=lakes, memory_limit_bytes=400_000_000, threads=2)
    yield lake
    lake.close()
