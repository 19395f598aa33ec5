"""SIGTERM (OP-6): what runs is finished, nothing fails, nothing is lost, and it is over in time."""

import signal
import time

import pytest

from tests.integration.records import Load
from tests.integration.shop import Shop
from tests.parts.waiting import wait_until

pytestmark = pytest.mark.slow

DRAIN_SECONDS = 90.0
"""As it is by default."""
LONG = """# pipeline
# on ducklake://main/orders
echo begun >> long.log
until [ -e go ]; do sleep 0.1; done
echo ended >> long.log
"""


@pytest.mark.long
def test_under_load_again_and_again(shop: Shop) -> None:
    shop.drain_seconds = DRAIN_SECONDS
    shop.connect_by(shop.direct_url)
    shop.write_all_scripts()
    with Load(shop.orders):
        for _ in range(10):
            served = shop.serve()
            shop.wait_until_committed(shop.committed() + 300)
            asked_at = time.monotonic()
            served.stop()
            assert time.monotonic() - asked_at < DRAIN_SECONDS
            assert shop.value("SELECT count(*) FROM reactor.run WHERE state = 'running'") == 0
            assert shop.value("SELECT count(*) FROM reactor.lease") == 0
    shop.serve()
    shop.finish()
    assert shop.failed_runs() == []


def test_before_it_is_ready(shop: Shop) -> None:
    shop.write_all_scripts()
    served = shop.serve()
    served.wait_until_said("service_started")
    served.stop()


def test_a_running_program_is_waited_for(shop: Shop) -> None:
    shop.write_all_scripts()
    shop.write({"long.sh": LONG})
    served = shop.serve()
    shop.orders.send(10)
    log = shop.folder / "long.log"
    wait_until(log.exists, "it runs", 60.0)
    served.send(signal.SIGTERM)
    served.wait_until_said("service_draining")
    assert not served.ended
    (shop.folder / "go").touch()
    assert served.wait_until_ended() == 0
    assert log.read_text().split() == ["begun", "ended"]
    assert [r["state"] for r in shop.fetch("SELECT state FROM reactor.run WHERE script = 'long.sh'")] == ["completed"]


def test_a_second_signal_ends_it_at_once(shop: Shop) -> None:
    shop.write_all_scripts()
    shop.write({"long.sh": LONG})
    served = shop.serve()
    shop.orders.send(10)
    wait_until((shop.folder / "long.log").exists, "it runs", 60.0)
    served.send(signal.SIGTERM)
    served.wait_until_said("service_draining")
    served.send(signal.SIGTERM)
    assert served.wait_until_ended(5.0) == 130
    (shop.folder / "go").touch()
    shop.time_passes()
    shop.serve()
    shop.finish()
    assert (shop.folder / "long.log").read_text().split()[-1] == "ended"
