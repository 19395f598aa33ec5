"""A state of the test's own on a real PostgreSQL, with the catalog tables of a lake; every event is held to the schema."""

import json
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from reactor.state import PostgresState
from tests.state.making import Catalog

SCHEMA = json.loads(files("reactor").joinpath("schemas/asset-updated.v1.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
EVENT_BYTES_MAX = 65_536


@pytest.fixture
async def state(database: str, anyio_backend: str) -> AsyncIterator[PostgresState]:  # noqa: ARG001 (async fixtures need the backend)
    state = await PostgresState.open(database, installation="local", workspace="prod")
    yield state
    _, events = await state.read_published(0, 100_000)
    for event in (dict[str, Any](each) for each in events):
        VALIDATOR.validate(event)
        assert len(json.dumps(event, separators=(",", ":")).encode()) <= EVENT_BYTES_MAX
        assert event["subject"] == event["partitionkey"] == event["data"]["asset"]
        assert event.get("assetpartition") == event["data"]["partition"]
    assert len({(event["source"], event["id"]) for event in events}) == len(events)
    await state.close()


@pytest.fixture
async def catalog(state: PostgresState, database: str) -> AsyncIterator[Catalog]:
    """The two catalog tables that the commit needs, in the schema of the lake `main`, watched."""
    async with Catalog.made(database) as catalog:
        await state.watch_lake("main", watch_external=True)
        yield catalog
