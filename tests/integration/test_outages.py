"""PostgreSQL or Kafka is away, at the start or later (OP-11): it is said, waited for, and no run fails by it."""

import pytest

from tests.integration.own_postgres import OwnPostgres
from tests.integration.records import Load
from tests.integration.shop import Shop
from tests.parts.kafka import KafkaCluster
from tests.parts.waiting import wait_until

pytestmark = pytest.mark.slow

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
FORGOTTEN = """
INSERT INTO reactor.run SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'state', 'running'))).*
  FROM reactor.run r ORDER BY id DESC LIMIT 1
"""
"""What a failover leaves that has lost the newest commits: a run that is running, and whose replica believes that it has ended."""


def test_a_database_that_is_away_at_the_start_and_dies_twice_under_load(shop_on_own_postgres: Shop, own_postgres: OwnPostgres) -> None:
    shop = shop_on_own_postgres
    shop.write_all_scripts()
    own_postgres.kill()
    served = shop.serve()
    said = served.wait_until_said("start_waits")
    assert "PostgreSQL does not answer" in said["message"]
    status, checks = served.ready()
    assert status == 503
    assert "PostgreSQL does not answer" in checks["start"][1]
    own_postgres.start()
    served.wait_until_ready()
    with Load(shop.orders):
        for _ in range(2):
            shop.wait_until_committed(shop.committed() + 200)
            shop.execute(FORGOTTEN)
            own_postgres.kill()
            wait_until(lambda: served.ready()[0] == 503, "it is not ready")
            assert served.alive()
            sent = len(shop.orders.sent)
            wait_until(lambda: len(shop.orders.sent) > sent + 300, "the load goes on")  # noqa: B023 - waited for within the turn
            own_postgres.start()
            wait_until(lambda: served.ready()[0] == 200, "it is ready again")
    shop.finish()
    assert shop.failed_runs() == []


@pytest.mark.long
def test_sessions_that_are_cut_again_and_again(shop: Shop) -> None:
    shop.write_all_scripts()
    served = shop.serve()
    served.wait_until_ready()
    with Load(shop.orders):
        for _ in range(12):
            before = shop.committed()
            shop.execute(CUT)
            shop.wait_until_committed(before + 1)
            assert not served.ended
    shop.finish()
    assert shop.failed_runs() == []


def test_a_broker_that_is_away_at_the_start_and_dies_under_load(shop_on_own_kafka: Shop, own_kafka: KafkaCluster) -> None:
    shop = shop_on_own_kafka
    shop.write_all_scripts()
    source = "source kafka://main"
    own_kafka.kill()
    served = shop.serve()
    wait_until(lambda: served.ready()[1].get(source, ("", ""))[1].startswith("Kafka cluster main"), "the broker's absence is said", 60.0)
    assert served.ready()[0] == 503
    own_kafka.start()
    served.wait_until_ready()
    with Load(shop.orders):
        shop.wait_until_committed(200)
        own_kafka.kill()
        wait_until(lambda: served.ready()[1][source][0] == "degraded", "the loss is said", 60.0)
        assert served.ready()[0] == 200
        own_kafka.start()
        sent = len(shop.orders.sent)
        wait_until(lambda: len(shop.orders.sent) > sent + 300, "the load goes on")
    shop.finish()
    assert shop.failed_runs() == []
