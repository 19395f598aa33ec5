"""The connection is cut between COMMIT and its answer, or before COMMIT has arrived (OP-15)."""

import pytest

from tests.integration.records import Load
from tests.integration.shop import PUBLISHES, Shop
from tests.parts.cut_commit import cutter

pytestmark = pytest.mark.slow


def test_commits_that_are_cut_lose_and_double_nothing(shop: Shop) -> None:
    shop.write_all_scripts()
    with cutter(shop.direct_url, PUBLISHES) as proxy:
        shop.connect_by(proxy.url)
        served = shop.serve()
        served.wait_until_ready()
        with Load(shop.orders):
            for side in ("after", "before", "after", "after", "before", "after"):
                proxy.cut(side)
        shop.finish()
    assert shop.failed_runs() == []


def test_interrupted_at_commit_it_ends_in_order(shop: Shop) -> None:
    shop.write_all_scripts()
    with Load(shop.orders):
        for place in ("before_commit:interrupt:2", "after_commit:interrupt:3"):
            assert shop.serve(failpoint=place).wait_until_ended() == 0
    shop.serve()
    shop.finish()
    assert shop.failed_runs() == []
