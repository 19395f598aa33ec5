"""One connection for all cases of a kind: none may spoil it for the next."""

from pathlib import Path

import duckdb
import pytest

from tests.cases.together import while_it_lives
from tests.harness import Ground, opened_product
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio


async def test_what_fails_leaves_no_transaction_behind(postgres_server: str, tmp_path: Path) -> None:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        with pytest.raises(duckdb.ConversionException):
            await product.tool.replace("main.src", ["id INTEGER"], [["x"]])
        assert not await product.tool.has("src")
        await product.tool.replace("main.src", ["id INTEGER"], [["1"]])
        assert await product.tool.rows("FROM main.src") == [["1"]]


async def test_a_source_may_have_types_that_a_lake_cannot_keep(postgres_server: str, tmp_path: Path) -> None:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        for kind, cell in (("ENUM('a', 'b')", "a"), ("BIT", "101"), ("INTEGER[2]", "[1, 2]"), ("VARCHAR", "x")):
            await product.tool.replace("main.src", ["id INTEGER", f"v {kind}"], [["1", cell], ["2", None]])
            assert await product.tool.columns("main.src") == {"id": "INTEGER", "v": kind}
            assert await product.tool.rows("FROM main.src ORDER BY id") == [["1", cell], ["2", None]]
            await product.tool.replace("main.src", ["id INTEGER", f"v {kind}"], [])
            assert await product.tool.rows("FROM main.src") == []


async def test_who_met_the_death_of_a_product_has_no_answer(postgres_server: str, tmp_path: Path) -> None:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        await product.start()

        async def dead() -> bool:
            return not product.living

        async def run(case: str) -> str | None:
            if case == "deadly":
                await product.kill()
                raise ValueError("it is dead")
            if case == "under way":
                await until(dead, "the product is dead")
            return None

        assert await while_it_lives(product, ["good", "deadly", "under way"], run) == {"good": None}
        assert "ended by itself" in str((await while_it_lives(product, ["late"], run))["late"])
