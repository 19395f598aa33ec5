"""One life that tests of metrics and of the log look at."""

import logging

import pytest

from reactor.runtime import service
from tests.harness import Ground, opened_product
from tests.runtime.life import PUBLISHER, SCRIPTS, Kept, Life, live


@pytest.fixture(scope="session")
async def life(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Life:
    lived = Life()
    kept, logger = Kept(lived.lines), logging.getLogger("reactor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "LOOK_SECONDS", 0.1)
        patch.setattr(service, "TABLES_SECONDS", 0.1)
        patch.setattr(logger, "level", logging.DEBUG)
        logger.addHandler(kept)
        async with opened_product(Ground(postgres_server, tmp_path_factory.mktemp("life"))) as product:
            toml = product.folder / "reactor.toml"
            toml.write_text(toml.read_text() + PUBLISHER)
            product.put(SCRIPTS)
            product.logs.make("in")
            await live(product, lived)
        logger.removeHandler(kept)
    return lived
