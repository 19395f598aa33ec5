"""A run that takes too long ends (OP-11), and what is kept of each run (OB-11)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reactor.runtime import executor
from reactor.testing import Record
from tests.harness import Ground, Product, opened_product
from tests.parts.waiting import until

pytestmark = pytest.mark.anyio
TIMEOUT_SECONDS = 5
TABLE = "ducklake://main/t"
TOO_LONG = "-- on kafka://in\n-- batch n BIGINT, k VARCHAR\n-- partitioned dynamic key=$.k\n-- retry 1 1s\n-- debounce 1s\n-- materialize ducklake://main/t append\n"
SELECT = "SELECT n FROM batch"
ENDLESS = f"{SELECT} WHERE (SELECT count(*) FROM range(CASE WHEN {{partition}} = 'slow' THEN 1000000000000 ELSE 0 END)) >= 0"
PROGRAM = "# on ducklake://main/t\nprint('fired')\n"


@pytest.fixture
async def product(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        toml = product.folder / "reactor.toml"
        toml.write_text(f"{toml.read_text()}\n[run]\ntimeout_seconds = {TIMEOUT_SECONDS}\n")
        product.logs.make("in")
        yield product


def produce(product: Product, *records: tuple[int, str]) -> None:
    product.logs.produce(product.logs.partition("in"), [Record(n, b'{"n":%d,"k":"%s"}' % (n, k.encode())) for n, k in records])


async def test_a_select_that_takes_too_long_is_stopped_and_loses_nothing(product: Product) -> None:
    product.put({"t.sql": TOO_LONG + ENDLESS})
    await product.start()
    produce(product, (0, "slow"), (1, "quick"), (2, "slow"))

    async def failed_twice() -> bool:
        return [run.attempt for run in await product.runs() if (run.state, run.partition) == ("failed", "slow")] == [1, 2]

    await until(failed_twice, "the slow slice has failed, and been tried again")
    said = f"t.sql ran longer than {TIMEOUT_SECONDS} s and was stopped."
    assert {run.error.splitlines()[0] for run in await product.runs() if run.state == "failed"} == {said}
    produce(product, (3, "quick"))
    await product.settle()
    assert await product.tool.rows("SELECT n FROM t ORDER BY n") == [["1"], ["3"]], "the lane goes on with the others"
    assert [f"{TABLE} failed: {said}"] == sorted(set(product.said("run_failed", TABLE)))
    await product.stop()
    product.put({"t.sql": TOO_LONG + SELECT})
    await product.start()
    await product.settle()
    assert await product.tool.rows("SELECT n, _wm_partition FROM t ORDER BY n") == [["0", "slow"], ["1", "quick"], ["2", "slow"], ["3", "quick"]]


@pytest.mark.parametrize("way", ["completed", "failed", "away"])
async def test_what_is_prepared_for_long_is_seen_to_run(way: str, product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SHOWN_AFTER_SECONDS", 0.05)
    product.put({"t.sql": TOO_LONG + (f"{SELECT} WHERE n / 0 > error('bad')" if way == "failed" else SELECT)})
    replica = await product.start()
    held = replica.gates.hold("stage", TABLE)
    produce(product, (0, "a"))
    await held.reached()

    async def seen() -> bool:
        return [run.state for run in await product.runs()] == ["running"]

    await until(seen, "it is shown")
    held.killed = way == "away"
    held.release()

    async def ended() -> bool:
        return [run.state for run in await product.runs()][:1] == [{"away": "aborted"}.get(way, way)]

    await until(ended, "it has ended as the same run")
    if way != "failed":
        await product.settle()
        assert [run.state for run in await product.runs()] == [*(["aborted"] if way == "away" else []), "completed"]
        assert await product.tool.rows("SELECT n FROM t") == [["0"]]


async def test_what_is_kept_of_a_run(product: Product) -> None:
    product.put({"t.sql": TOO_LONG + SELECT, "tell.py": PROGRAM})
    await product.start()
    produce(product, (0, "a"))
    await product.settle()

    async def kept() -> bool:
        return not await product.fetch("SELECT FROM reactor.run WHERE NOT timings ?| ARRAY['commit', 'program']")

    await until(kept, "a run's times are written once it is told")
    managed, program = await product.fetch("SELECT script_version, compiled_sql, timings::text, state FROM reactor.run ORDER BY id")
    assert managed["state"] == program["state"] == "completed"
    assert (managed["script_version"], program["script_version"]) == tuple(script.version for script in product.opened.project.scripts)
    assert "SELECT n" in managed["compiled_sql"]
    assert all(f'"{stage}"' in managed["timings"] for stage in ("decode", "evaluate", "check", "write", "commit"))
    assert '"program"' in program["timings"]
