"""The grounds on which contracts are shown: in memory, and on real parts that the tests of one file share."""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.contract.lake_grounds import SHARED, LakeCase, LakeGround, MemoryLakes, RealLakes
from tests.contract.state_grounds import Case, Ground, InMemory, OnPostgres
from tests.parts.postgres import new_database

NUMBERS = count()
"""Of assets: each test has one of its own."""


@pytest.fixture(scope="module", params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def shared_database(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The URL of an empty database; None: in memory."""
    if request.param == "memory":
        yield None
        return
    with new_database(request.getfixturevalue("postgres_server")) as url:
        yield url


@pytest.fixture(scope="module")
async def ground(shared_database: str | None, anyio_backend: str) -> AsyncIterator[Ground]:  # noqa: ARG001 (async fixtures need the backend)
    if shared_database is None:
        yield InMemory()
        return
    async with OnPostgres.made(shared_database) as made:
        yield made


@pytest.fixture
async def case(ground: Ground) -> Case:
    return Case(ground, ground.state, f"ducklake://main/t{next(NUMBERS)}", await ground.state.outbox_next())


@pytest.fixture(scope="module")
async def lakes(shared_database: str | None, tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[LakeGround]:  # noqa: ARG001 (as above)
    if shared_database is None:
        yield MemoryLakes()
        return
    async with RealLakes.made(shared_database, Path(tmp_path_factory.mktemp("lakes"))) as made:
        yield made


@pytest.fixture
async def work(lakes: LakeGround) -> LakeCase:
    """With the shared table: a run that makes one would be refused for that alone if another one makes it."""
    work = LakeCase(lakes, next(NUMBERS))
    if not await lakes.rows(SHARED):
        await work.ran(work.script({"made": [(0, "first")]}), "made")
    return work
