"""One life that tests of metrics and of the log look at."""

import logging
from pathlib import Path

import pytest

from reactor.runtime import service
from tests.harness import Ground, opened_product
from tests.runtime.life import PUBLISHER, SCRIPTS, Life, kept, live


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
