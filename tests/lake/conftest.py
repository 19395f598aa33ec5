"""Lakes on the real parts: `main` and `sales`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reactor.lake.ducklake import DuckLake
from reactor.lake.session import LakeSettings
from tests.lake.driving import Bench
from tests.parts.furnished import LAKES, furnished


@contextmanager
def opened(url: str, folder: Path) -> Iterator[Bench]:
    lakes = {name: LakeSettings(str(folder / name)) for name in LAKES}
    lake = DuckLake(postgres_url=url, lakes=lakes, memory_limit_bytes=400_000_000, threads=1)
    try:
        yield Bench(lake, url)
    finally:
        lake.close()


@pytest.fixture
def bench(postgres_server: str, tmp_path: Path) -> Iterator[Bench]:
    """Lakes of the test's own."""
    folder = tmp_path / "lakes"
    with furnished(postgres_server, {lake: folder / lake for lake in LAKES}) as url, opened(url, folder) as bench:
        yield bench


@pytest.fixture(scope="module")
def module_bench(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Lakes that the tests of one file share: each test drops what it finds."""
    folder = tmp_path_factory.mktemp("lakes")
    with furnished(postgres_server, {lake: folder / lake for lake in LAKES}) as url, opened(url, folder) as bench:
        yield bench
