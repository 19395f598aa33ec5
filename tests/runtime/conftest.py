"""One life that tests of metrics and of the log look at, and the product of one append, for what needs no more than that."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reactor.runtime import service
from tests.harness import Ground, Product, opened_product
from tests.runtime.life import PUBLISHER, SCRIPTS, Life, kept, live

APPEND = "-- on kafka://in\n-- batch n BIGINT\n-- debounce 1s max=1s\n-- materialize ducklake://main/t append\nSELECT n FROM batch"


@pytest.fixture(scope="session")
async def life(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Life:
    lived = Life()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "LOOK_SECONDS", 0.1)
        patch.setattr(service, "TABLES_SECONDS", 0.1)
        with kept(lived.lines, logging.DEBUG):
            await _live(postgres_server, tmp_path_factory.mktemp("life"), lived)
    return lived


async def _live(postgres_server: str, folder: Path, lived: Life) -> None:
    async with opened_product(Ground(postgres_server, folder)) as product:
        toml = product.folder / "reactor.toml"
        toml.write_text(toml.read_text() + PUBLISHER)
        product.put(SCRIPTS)
        product.logs.make("in")
        await live(product, lived)


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    """The records of the topic `in` go into the table `t`; nothing is there yet."""
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        product.put({"t.sql": APPEND})
        product.logs.make("in")
        yield product
