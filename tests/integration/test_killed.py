"""kill -9 anywhere: a restart alone repairs."""

import random
import signal
from collections import Counter

import pytest

from tests.integration.records import Load, published
from tests.integration.shop import Shop

pytestmark = pytest.mark.slow

PLACES = (
    "before_commit:kill", "before_commit:kill:4", "after_commit:kill", "after_commit:kill:5", "before_complete:kill", "before_complete:kill:2",
    "before_publish:kill", "after_publish:kill", "after_publish:kill:2",
)


def test_in_order_everything_arrives_once(shop: Shop) -> None:
    shop.write_all_scripts()
    served = shop.serve()
    served.wait_until_ready()
    shop.orders.send(3000)
    shop.finish()
    assert shop.failed_runs() == []


def test_killed_at_every_place_under_load(shop: Shop) -> None:
    shop.write_all_scripts()
    with Load(shop.orders):
        for place in PLACES:
            served = shop.serve(failpoint=place)
            assert served.wait_until_ended(60.0) == -signal.SIGKILL, place
            shop.time_passes()
    shop.serve()
    shop.finish()
    assert shop.failed_runs() == []
    assert max(Counter(published(shop.orders.bootstrap_servers, shop.events)).values()) == 2  # killed between its answer and its position


@pytest.mark.long
def test_killed_at_random_moments_of_a_load_of_fifty_thousand(shop: Shop) -> None:
    moments = random.Random(20260301)
    shop.write_all_scripts()
    for batch in range(4):
        shop.orders.send(12_500)
        served = shop.serve()
        before, share = shop.committed(), moments.random()
        shop.wait_until_committed(before + round(share * (len(shop.orders.sent) - before)))
        if batch < 3:
            served.kill()
            shop.time_passes()
    shop.finish()
    assert shop.failed_runs() == []
