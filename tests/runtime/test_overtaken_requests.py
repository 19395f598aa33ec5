"""What was asked for, or waits, and has been overtaken: by an edit of the script, or by another request. It ends alone, and says why."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Ground, Product, opened_product

pytestmark = pytest.mark.anyio
ASSET, OTHER = "ducklake://main/t", "ducklake://main/other"
SCRIPT = "-- pipeline\n-- manual\n{partitioned}-- materialize {asset} {strategy}\nSELECT 1 AS n"
DAILY, WEEKLY = "-- partitioned daily\n", "-- partitioned weekly\n"


def script(partitioned: str = "", strategy: str = "", asset: str = ASSET) -> str:
    return SCRIPT.format(partitioned=partitioned, strategy=strategy, asset=asset)


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        product.put({"t.sql": script(DAILY), "other.sql": script(asset=OTHER)})
        yield product


@pytest.mark.parametrize(("edited", "asked", "why"), [
    (WEEKLY, "2026-03-01", "'2026-03-01' names no slice of `partitioned weekly`"), (WEEKLY, "", "'' names no slice of `partitioned weekly`"),
    ("", "2026-03-01", "the asset is not partitioned, so it has no '2026-03-01'"), (DAILY, "2026-02-30", "'2026-02-30' never comes in UTC"),
])  # fmt: skip
async def test_a_slice_that_is_none_any_more_fails_alone(edited: str, asked: str, why: str, product: Product) -> None:
    product.put({"t.sql": script(edited), "other.sql": script(asset=OTHER)})
    await product.start()
    run = await product.run_by_hand("t.sql", asked)
    assert run.state == "failed"
    assert why in (run.error or "")
    assert (await product.run_by_hand("other.sql")).state == "completed"
    good = {WEEKLY: "2026-W10", DAILY: "2026-03-01", "": ""}[edited]
    assert (await product.run_by_hand("t.sql", good)).state == "completed"


async def test_a_slice_before_a_start_that_was_moved_still_is_one(product: Product) -> None:
    product.put({"t.sql": script("-- partitioned daily start=2026-06-01\n")})
    await product.start()
    assert (await product.run_by_hand("t.sql", "2026-03-01")).state == "completed"


async def test_an_append_by_hand_does_not_double_a_slice_that_came_meanwhile(product: Product) -> None:
    product.put({"t.sql": script(DAILY, "append")})
    await product.start()
    assert (await product.run_by_hand("t.sql", "2026-03-01")).state == "completed"
    again = await product.run_by_hand("t.sql", "2026-03-01")
    assert again.state == "failed"
    assert "slice 2026-03-01 of ducklake://main/t is there already" in (again.error or "")
    assert (await product.run_by_hand("t.sql", "2026-03-02")).state == "completed"
    assert await product.tool.rows("SELECT count(*) FROM main.t") == [["2"]]


async def test_an_append_without_slices_appends_again(product: Product) -> None:
    product.put({"t.sql": script(strategy="append")})
    await product.start()
    assert [(await product.run_by_hand("t.sql")).state for _ in range(2)] == ["completed", "completed"]
    assert await product.tool.rows("SELECT count(*) FROM main.t") == [["2"]]
