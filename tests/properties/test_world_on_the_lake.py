"""The world machine on the real lake: whole services on DuckLake and PostgreSQL, fewer lives, the same promise."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from reactor.errors import Outage
from reactor.testing import Record
from tests.harness import Ground, Product, Replica, opened_product
from tests.parts.waiting import until

APPENDED, MERGED = "ducklake://main/appended", "ducklake://main/merged"
SCRIPT = """-- on kafka://in
-- batch id BIGINT, k VARCHAR
-- partitioned dynamic key=$.k
-- materialize {asset} {strategy}
-- debounce 1s max=1s
SELECT id, k FROM batch"""
TOTAL = "-- on ducklake://main/appended\n-- materialize ducklake://main/total\nSELECT count(*) AS n, CAST(sum(id) AS BIGINT) AS ids FROM appended"
SCRIPTS = {
    "appended.sql": SCRIPT.format(asset=APPENDED, strategy="append"),
    "merged.sql": SCRIPT.format(asset=MERGED, strategy="key=id"),
    "total.sql": TOTAL,
}
LIVES, STEPS = 3, 6
WAIT_SECONDS = 90.0
Result = TypeVar("Result")
WHERE = st.integers(0, 1)


class LakeMachine(RuleBasedStateMachine):
    """One product, at most two replicas, a topic with two source partitions. Every record has an id of its own."""

    ground: ClassVar[Ground]

    def __init__(self) -> None:
        super().__init__()
        self.runner, self.sent, self.ends = asyncio.Runner(), 0, [0, 0]
        self.opened = opened_product(self.ground)
        self.product: Product = self.does(self.opened.__aenter__())
        checked = self.product.put(SCRIPTS)
        assert not checked.refused, checked.refused
        self.parts = [self.product.logs.make("in", number) for number in (0, 1)]
        self.does(self.product.start())

    def does(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    @property
    def living(self) -> list[Replica]:
        return self.product.living

    @initialize(records=st.integers(1, 4))
    def there_is_something_to_read(self, records: int) -> None:
        for where in (0, 1):
            self.records_come(where, records)

    @rule(where=WHERE, records=st.integers(1, 4))
    def records_come(self, where: int, records: int) -> None:
        made = [Record(self.ends[where] + n, b'{"id": %d, "k": "%d"}' % (self.sent + n, (self.sent + n) % 2)) for n in range(records)]
        self.product.logs.produce(self.parts[where], made)
        self.sent, self.ends[where] = self.sent + records, self.ends[where] + records

    @rule()
    def all_are_killed_and_one_comes_back(self) -> None:
        self.does(self.product.kill())
        self.does(self.product.time_passes())
        self.does(self.product.start())

    @rule()
    def one_stops_in_order_and_another_comes(self) -> None:
        self.does(self.living[0].stop())
        self.does(self.product.start())

    @precondition(lambda self: len(self.living) < 2)
    @rule()
    def another_comes(self) -> None:
        self.does(self.product.start())

    @precondition(lambda self: len(self.living) == 2)
    @rule(where=WHERE, asset=st.sampled_from([APPENDED, MERGED]))
    def a_source_partition_is_handed_over_in_mid_run(self, where: int, asset: str) -> None:
        """The one that had it stands before its COMMIT, until the other one has read the same records and is done with them, or nearly."""
        self.does(self._hand_over(where, asset))

    async def _hand_over(self, where: int, asset: str) -> None:
        slow, quick = self.living
        assert quick.source is not None
        assert slow.source is not None
        self.product.logs.move(self.parts[where], slow.source)
        held = slow.gates.hold("commit", asset)
        self.records_come(where, 2)
        await held.reached()
        self.product.logs.move(self.parts[where], quick.source)

        async def moved() -> bool:
            return self.parts[where] in quick.source.positions if quick.source else False

        await until(moved, "it is handed over", WAIT_SECONDS)
        held.release()

    @rule(asset=st.sampled_from([APPENDED, MERGED]), step=st.sampled_from(["write", "commit"]))
    def a_commit_is_lost(self, asset: str, step: Any) -> None:
        self.living[-1].gates.fail(step, asset, Outage("the connection was cut"))

    @rule()
    def it_comes_to_rest(self) -> None:
        self.does(self.product.settle())

    def teardown(self) -> None:
        try:
            self.does(self._ends())
        finally:
            self.does(self.opened.__aexit__(None, None, None))
            self.runner.close()

    async def _ends(self) -> None:
        await self.product.time_passes()
        await self.product.settle()
        expected = [[str(number)] for number in range(self.sent)]
        for table in ("appended", "merged"):
            assert await self.product.tool.rows(f"SELECT id FROM {table} ORDER BY id") == expected
        assert await self.product.tool.rows("SELECT n, ids FROM total") == [[str(self.sent), str(sum(range(self.sent)))]]
        ends = {f"in/{number}": end for number, end in enumerate(self.ends)}
        for asset in (APPENDED, MERGED):
            assert dict.fromkeys(ends, 0) | await self.product.positions(asset) == ends
        updates = await self.product.updates(APPENDED)
        assert sum(update["data"]["rows_inserted"] for update in updates) == self.sent


@pytest.mark.long
@pytest.mark.slow
def test_a_life_on_the_lake_loses_doubles_and_leaves_nothing(postgres_server: str, tmp_path: Path) -> None:
    class Here(LakeMachine):
        ground = Ground(postgres_server, tmp_path)

    run_state_machine_as_test(
        Here,
        settings=settings(max_examples=LIVES, stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)),
    )
