"""What a script can see of `batch`."""

import pytest

from reactor.lake.statements.reading import named_columns

COLUMNS = ("_topic", "_key", "_offset", "value")


@pytest.mark.parametrize(("text", "named"), [
    ("SELECT a FROM batch", ""), ("SELECT a, _key FROM batch", "_key"), ("SELECT a * 2, count(*) FROM batch b WHERE b._OFFSET > 1 GROUP BY ALL", "_offset"),
    ("SELECT decode(_key) AS k, value->>'$.a' AS a FROM batch", "_key value"), ("SELECT a FROM t JOIN batch ON t.a = batch.a", ""),
    ("SELECT extract(year FROM ts) FROM batch", ""), ("CREATE TEMP TABLE x AS SELECT \"_topic\" FROM batch", "_topic"),
])  # fmt: skip
def test_named(text: str, named: str) -> None:
    assert named_columns([text], COLUMNS) == set(named.split())


@pytest.mark.parametrize("text", [
    "SELECT * FROM batch", "FROM batch", "SELECT x.* FROM batch x", "SELECT b FROM batch b", "SELECT b FROM batch AS b", "SELECT to_json(batch) FROM batch",
    "WITH x AS (FROM batch) SELECT a FROM x", "SELECT COLUMNS('a') FROM batch", "SELECT 'unclosed", "TABLE batch", "SELECT b FROM t, batch b",
])  # fmt: skip
def test_all_may_be_meant(text: str) -> None:
    assert named_columns(["SELECT a FROM batch", text], COLUMNS) == set(COLUMNS)
