import asyncio
import signal
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.parts.cut_commit import CommitCutter, Side
from tests.parts.waiting import until

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


CLIENT = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from tests.parts.test_cut_commit import insert
asyncio.run(insert(sys.argv[2], 1))
"""


async def numbers(database: str) -> list[int]:
    direct = await asyncpg.connect(database)
    try:
        return [row["number"] for row in await direct.fetch("SELECT number FROM numbers")]
    finally:
        await direct.close()


@pytest.mark.parametrize("side", ["kill", "stop"])
async def test_a_client_is_struck_while_its_commit_is_on_its_way(database: str, side: Side) -> None:
    direct = await asyncpg.connect(database)
    await direct.execute("CREATE TABLE numbers (number int, note text)")
    await direct.close()
    async with CommitCutter(database) as cutter:
        cutter.arm(side)
        client = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, str(Path.cwd()), cutter.url)
        await cutter.wait_for_cuts(1)
        assert cutter.cuts == [side]
        if side == "stop":
            assert await numbers(database) == []
            client.send_signal(signal.SIGCONT)
        assert await client.wait() == (0 if side == "stop" else -signal.SIGKILL)

        async def committed() -> bool:
            return await numbers(database) == [1]

        await until(committed, "COMMIT has arrived", 60.0)
