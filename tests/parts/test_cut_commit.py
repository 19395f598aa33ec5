import asyncpg
import pytest

from tests.parts.cut_commit import CommitCutter, Side

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]


async def insert(url: str, number: int) -> None:
    """One transaction, as DuckLake sends it: simple queries."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("BEGIN")
        await connection.execute(f"INSERT INTO numbers VALUES ({number}, 'COMMIT; in a value, and commit_extra_info')")
        await connection.execute("COMMIT")
    finally:
        connection.terminate()


@pytest.mark.parametrize(("side", "kept"), [("after", [1, 2, 3]), ("before", [1, 3])])
async def test_one_commit_is_cut_for_each_arming(database: str, side: Side, kept: list[int]) -> None:
    direct = await asyncpg.connect(database)
    try:
        await direct.execute("CREATE TABLE numbers (number int, note text)")
        async with CommitCutter(database) as cutter:
            await insert(cutter.url, 1)
            cutter.arm(side)
            with pytest.raises(asyncpg.ConnectionDoesNotExistError):
                await insert(cutter.url, 2)
            await cutter.wait_for_cuts(1)
            await insert(cutter.url, 3)
            assert cutter.cuts == [side]
        assert [row["number"] for row in await direct.fetch("SELECT number FROM numbers ORDER BY number")] == kept
    finally:
        await direct.close()
