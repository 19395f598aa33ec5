"""A body for one asset partition."""

import pytest

from reactor.lake.statements.script_text import ScriptText, attaches, renamed, temporary
from tests.lake.driving import DAILY, managed


@pytest.mark.parametrize(("sql", "wanted"), [
    ("SELECT y.orders.id FROM y.orders", 'SELECT "lake_x".orders.id FROM "lake_x".orders'),
    ('SELECT 1 FROM "Y".main.orders AS o', 'SELECT 1 FROM "lake_x".main.orders AS o'),
    ("SELECT 'y.orders' FROM orders -- y.z", "SELECT 'y.orders' FROM orders -- y.z"),
    ("SELECT t.y.z FROM t", "SELECT t.y.z FROM t"),
    ("SELECT y.a FROM t AS y", "SELECT y.a FROM t AS y"),
    ("SELECT 'open", "SELECT 'open"),
])  # fmt: skip
def test_an_alias_of_a_lake_is_its_name(sql: str, wanted: str) -> None:
    assert renamed(sql, "y", "lake_x") == wanted


@pytest.mark.parametrize(("sql", "wanted"), [
    ("CREATE MACRO f(x) AS x + 1", "CREATE TEMP MACRO f(x) AS x + 1"),
    ("-- doc\ncreate or replace function f(x) AS x", "-- doc\ncreate or replace TEMP function f(x) AS x"),
    ("CREATE TEMP MACRO f(x) AS x", "CREATE TEMP MACRO f(x) AS x"),
    ("SET threads = 1", "SET threads = 1"),
    ("CREATE TEMP TABLE macro AS SELECT 1", "CREATE TEMP TABLE macro AS SELECT 1"),
])  # fmt: skip
def test_macros_are_of_their_session(sql: str, wanted: str) -> None:
    assert temporary(sql) == wanted


def test_what_attaches() -> None:
    assert attaches("/* x */ ATTACH ':memory:' AS y")
    assert not attaches("SELECT 'ATTACH'")


def test_one_text_serves_slices_that_it_does_not_name() -> None:
    days = ["2026-03-01", "2026-03-02"]
    assert ScriptText(managed("SELECT a FROM batch", partitioned=DAILY)).same_for(days)
    assert ScriptText(managed("SELECT wm_partition(ts) AS d FROM batch", partitioned=DAILY)).same_for(days)
    assert not ScriptText(managed("SELECT {partition} AS d FROM batch", partitioned=DAILY)).same_for(days)
    assert not ScriptText(managed("SELECT $WM_PARTITION_START AS d FROM batch", partitioned=DAILY)).same_for(days)
    assert not ScriptText(managed("SELECT a FROM t", setup=["CREATE TEMP TABLE t AS FROM batch"], partitioned=DAILY)).same_for(days)
