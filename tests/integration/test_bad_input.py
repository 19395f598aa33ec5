"""What is wrong is said, with the place and what to do; the rest goes on, and nothing is lost."""

import json
from pathlib import Path

import pytest

from tests.conftest import had
from tests.integration.shop import DAILY, NEWEST, ORDERS, Shop
from tests.integration.small_disk import small_disk
from tests.integration.verbs import reactor
from tests.parts.waiting import wait_until

pytestmark = pytest.mark.slow

KEYED = """\
-- pipeline
-- on kafka://{topic}
-- batch n BIGINT
-- partitioned dynamic key=$.KEY
-- materialize ducklake://main/orders append
-- debounce 1s max=60s
SELECT n, _offset FROM batch
"""


def test_malformed_records_are_set_aside_whole(shop: Shop) -> None:
    shop.write({"raw/orders.sql": ORDERS})
    served = shop.serve()
    served.wait_until_ready()
    broken = [b'{"order_id": 1', b"\xff\xfe", b'{"order_id": "twelve", "ordered_at": "2026-03-01T00:00:00Z"}', b'{"order_id": 9, "customer_id": 1}']
    shop.orders.send(50)
    shop.orders.send_raw(*broken, partition=1)
    shop.orders.send(50)
    wait_until(lambda: shop.committed() == 100 and bool(shop.value("SELECT true FROM lake_main.ducklake_table WHERE table_name = '_reactor_quarantine'")), "all")
    wait_until(lambda: len(shop.rows("SELECT 1 FROM _reactor_quarantine")[0]) == 4, "four are in quarantine")
    (rows,) = shop.rows("SELECT reason, \"column\", asset, source, source_partition, CAST(value AS BLOB) FROM _reactor_quarantine ORDER BY \"offset\"")
    assert [bytes(row[5]) for row in rows] == broken
    assert [row[:2] for row in rows] == [("not_json", None), ("not_utf8", None), ("wrong_type", "order_id"), ("no_event_time", None)]
    assert {row[2:5] for row in rows} == {("ducklake://main/orders", f"kafka://main/{shop.orders.name}", "1")}
    served.stop()
    (places,) = shop.rows("SELECT order_id FROM orders")
    assert sorted(row[0] for row in places) == list(range(100))
    assert shop.failed_runs() == []


def test_a_script_that_does_not_parse_leaves_the_others_at_work(shop: Shop) -> None:
    makes = "-- pipeline\n-- on ducklake://main/orders\n-- materialize ducklake://main/made_by_"
    shop.write({
        "raw/orders.sql": ORDERS, "marts/broken.sql": f"{makes}broken\nSELEC 1", "marts/odd.sql": f"{makes}odd\nSELECT FROM WHERE",
        "marts/typo.sql": f"-- partitoned daily\n{makes}typo\nSELECT 1 AS n"})
    code, said = reactor(shop.folder, "check")
    assert code == 2
    assert "marts/broken.sql:4:" in said
    assert "marts/typo.sql:1:" in said
    assert "did you mean `partitioned`" in said
    assert "marts/odd.sql:4:13: warning" in said  # DuckDB has the last word
    served = shop.serve()
    served.wait_until_ready()
    (refused,) = served.said("script_refused", script="marts/broken.sql")
    assert refused["message"].startswith("marts/broken.sql does not run: neither setup nor a SELECT: `SELEC 1`")
    assert served.said("script_refused", script="marts/typo.sql")
    shop.orders.send(20)
    shop.wait_until_committed(20)
    assert "syntax error" in served.wait_until_said("run_failed", script="marts/odd.sql")["message"]
    served.stop()
    assert shop.committed() == 20
    strict = shop.serve(arguments=("--strict",))
    assert strict.wait_until_ended() == 2
    assert "marts/broken.sql:4:" in strict.log()


def test_a_missing_column_blocks_its_slice_and_a_fixed_script_catches_up(shop: Shop) -> None:
    shop.write({"raw/orders.sql": ORDERS.replace("SELECT order_id,", "SELECT order_no,"), "raw/newest.sql": NEWEST})
    served = shop.serve()
    served.wait_until_ready()
    shop.orders.send(200)
    wait_until(lambda: {r["status"] for r in shop.fetch("SELECT status FROM reactor.materialized_partition WHERE asset LIKE '%orders'")} == {"failed"}
               and len(shop.failed_runs()) >= 3, "blocked")
    assert all("order_no" in error and "raw/orders.sql" in error and "no retry helps" in error for error in shop.failed_runs())
    asset = "ducklake://main/newest"
    shop.wait_until_committed(5, asset)
    before = shop.committed(asset)
    shop.orders.send(200)
    shop.wait_until_committed(before + 1, asset)
    failed = len(shop.failed_runs())
    served.stop()
    shop.write({"raw/orders.sql": ORDERS, "marts/orders_daily.sql": DAILY})
    shop.serve()
    shop.finish()
    assert len(shop.failed_runs()) == failed


@pytest.mark.parametrize("url", ["sqlite:///state.db", "mysql://127.0.0.1/reactor", "duckdb:state.db"])
def test_a_catalog_that_is_not_postgresql_is_refused(tmp_path: Path, url: str) -> None:
    (tmp_path / "reactor.toml").write_text(f'[state]\nurl = "{url}"\n')
    for verb in ("check", "serve"):
        code, said = reactor(tmp_path, verb)
        assert code == 2
        assert "reactor.toml:2" in said
        assert "state.url" in said
        assert "postgresql://" in said


def test_a_lake_whose_folder_cannot_be_made_is_said(shop: Shop) -> None:
    shop.write({"raw/orders.sql": ORDERS, "lake": "a file in its way"})
    code, said = reactor(shop.folder, "serve", "--timeout", "20")
    assert code in {1, 2, 3}
    assert str(shop.folder / "lake") in said
    assert "Traceback" not in said
    assert "data_path" in said


def test_a_full_and_a_read_only_disk_are_said_and_waited_for(shop: Shop) -> None:
    shop.write_all_scripts()
    with had(small_disk(shop.folder / "disk", "400k")) as disk:
        shop.write({"reactor.toml": (shop.folder / "reactor.toml").read_text().replace('data_path = "lake"', 'data_path = "disk/lake"')})
        served = shop.serve()
        served.wait_until_ready()

        def says(text: str) -> bool:
            return any(text in line["message"] for event in ("run_deferred", "run_aborted", "run_failed") for line in served.said(event))

        while not says("the disk is full"):
            shop.orders.send(1000)
            assert not served.ended
            assert len(shop.orders.sent) < 100_000
        assert str(disk.folder) in served.log()
        disk.remount("size=200m")
        shop.wait_until_whole()
        disk.remount("ro")
        shop.orders.send(100)
        wait_until(lambda: says("cannot be written"), "it is said that the disk is read-only", 60.0)
        disk.remount("rw")
        shop.finish()
        assert shop.failed_runs() == []


def test_another_identity_of_the_slices_is_refused_until_the_table_is_dropped(shop: Shop) -> None:
    shop.write({"raw/orders.sql": ORDERS, "raw/newest.sql": NEWEST})
    served = shop.serve()
    served.wait_until_ready()
    shop.orders.send(100)
    shop.wait_until_committed(100)
    served.stop()
    shop.write({"raw/orders.sql": ORDERS.replace("partitioned daily", "partitioned monthly")})
    served = shop.serve()
    refused = served.wait_until_said("script_refused", script="raw/orders.sql")
    for word in ("ducklake://main/orders", "daily", "monthly", "rename", "drop", "positions reset"):
        assert word in refused["message"]
    served.wait_until_ready()
    shop.orders.send(100)
    shop.wait_until_committed(shop.committed("ducklake://main/newest") + 1, "ducklake://main/newest")
    assert shop.committed() == 100
    served.stop()
    shop.change_lake("DROP TABLE orders")
    reset = ("positions", "reset", "ducklake://main/orders", "--to", "earliest", "--reason", "by month", "--confirm", "ducklake://main/orders")
    code, said = reactor(shop.folder, *reset)
    assert code == 0, said
    served = shop.serve()
    wait_until(lambda: shop.committed() == 300, "all are read again")
    served.stop()
    (slices,) = shop.rows("SELECT _wm_partition, count(*) FROM orders GROUP BY 1")
    assert slices == [("2026-03", 200)]


def test_another_key_takes_over_at_a_common_cut(shop: Shop) -> None:
    shop.write({"raw/orders.sql": KEYED.replace("KEY", "a")})
    served = shop.serve(failpoint="after_commit:kill")
    served.wait_until_ready()
    sent = 0

    def send(a: str) -> None:
        nonlocal sent
        shop.orders.send_raw(json.dumps({"n": sent, "a": a, "b": f"by b {sent % 2}"}).encode(), partition=0)
        sent += 1

    for _ in range(5):
        send("early")
    while not served.ended:  # never quiet for a second, so this slice stays open while the first one commits
        send("busy")
    ((fence,),) = shop.fetch("SELECT next FROM reactor.fence WHERE source LIKE 'kafka%'")
    assert 5 < fence <= sent
    shop.write({"raw/orders.sql": KEYED.replace("KEY", "b")})
    shop.time_passes()
    served = shop.serve()
    served.wait_until_ready()
    for _ in range(5):
        send("ignored by now")
    wait_until(lambda: shop.committed() >= sent, "all are there", 60.0)
    served.stop()
    (rows,) = shop.rows("SELECT n, _wm_partition FROM orders ORDER BY _offset")
    cut = min(n for n, asset_partition in rows if asset_partition.startswith("by b"))
    assert fence <= cut <= sent - 5
    assert rows == list(enumerate(["early"] * 5 + ["busy"] * (cut - 5) + [f"by b {n % 2}" for n in range(cut, sent)]))
    assert shop.value("SELECT routing::jsonb->'key' FROM reactor.position WHERE source LIKE 'kafka%' AND source_partition = '0'") == '["b"]'
    assert shop.failed_runs() == []
