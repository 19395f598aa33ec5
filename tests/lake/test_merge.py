"""Merge: keys, the newest row of each, deletes, and who may meet whom."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactor.errors import RunBlocked, RunFailed
from tests.lake.driving import DAILY, Bench, feed, managed, raw_span
from tests.parts.effort import tries

COLUMNS = [("k", "VARCHAR"), ("v", "INTEGER"), ("ts", "INTEGER"), ("gone", "BOOLEAN")]
LATEST = managed("SELECT k, v, ts FROM batch", "merge", key=["k"], latest="ts", batch=COLUMNS)


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    for table in ("t", "src"):
        module_bench.rows(f"DROP TABLE IF EXISTS lake_main.main.{table}")
    return module_bench


def events(*rows: tuple[str | None, int | None, int | None]) -> list[bytes]:
    return [json.dumps({"k": k, "v": v, "ts": ts}).encode() for k, v, ts in rows]


def stored(bench: Bench) -> list[list[str | None]]:
    return bench.texts("SELECT k, v, ts FROM t")


def test_the_newest_row_of_each_key_stays(bench: Bench) -> None:
    feed(bench, LATEST, raw_span(events(("A", 10, 1), ("B", 20, 1), ("A", 15, 2))))
    assert stored(bench) == [["A", "15", "2"], ["B", "20", "1"]]
    (ran,) = feed(bench, LATEST, raw_span(events(("A", 9, 1), ("B", 21, 1)), 3))
    assert stored(bench) == [["A", "15", "2"], ["B", "21", "1"]]
    assert [(c.inserted, c.deleted) for c in ran.counts] == [(1, 1)]
    (late,) = feed(bench, LATEST, raw_span(events(("A", 8, 1)), 5))
    assert not late.changed


def test_ties_of_one_batch_go_to_the_later_record(bench: Bench) -> None:
    feed(bench, LATEST, raw_span(events(("A", 1, 7), ("A", 2, 7), ("A", 3, None))))
    assert stored(bench) == [["A", "2", "7"]]


def test_a_null_is_older_than_everything(bench: Bench) -> None:
    feed(bench, LATEST, raw_span(events(("A", 1, None))))
    feed(bench, LATEST, raw_span(events(("A", 2, None)), 1))
    assert stored(bench) == [["A", "2", None]]
    feed(bench, LATEST, raw_span(events(("A", 3, 1)), 2))
    feed(bench, LATEST, raw_span(events(("A", 4, None)), 3))
    assert stored(bench) == [["A", "3", "1"]]


def test_ties_that_nobody_can_tell_apart_fail(bench: Bench) -> None:
    bench.rows("CREATE TABLE lake_main.main.src AS SELECT * FROM (VALUES ('A', 1, 7), ('A', 2, 7), ('B', 3, 1), ('B', 4, 2)) s(k, v, ts)")
    with pytest.raises(RunFailed, match=r"1 key with more than one row in the SELECT and the same ts\n.*\(A\)"):
        bench.run(managed("SELECT * FROM main.src", "merge", key=["k"], latest="ts"))


def test_events_without_a_key_land_once_each(bench: Bench) -> None:
    script = managed("SELECT k, v FROM batch", "merge", key=["k"], batch=COLUMNS)
    (ran,) = feed(bench, script, raw_span(events((None, 1, 0), (None, 2, 0), ("A", 3, 0))))
    assert ran.warnings == ("2 rows have a NULL in their key (k); to refuse them: data_test not_null k",)
    feed(bench, script, raw_span(events((None, 1, 0), ("A", 4, 0)), 3))
    assert bench.texts("SELECT k, v FROM t") == [[None, "1"], [None, "1"], [None, "2"], ["A", "4"]]


def test_duplicates_are_counted_and_five_are_shown(bench: Bench) -> None:
    script = managed("SELECT k, v FROM batch", "merge", key=["k"], batch=COLUMNS)
    with pytest.raises(RunFailed) as raised:
        feed(bench, script, raw_span(events(*((f"k{i % 7}", i, 0) for i in range(14)))))
    assert raised.value.args[0] == "7 keys with more than one row in the SELECT"
    assert raised.value.hint.count("(k") == 5
    assert all(word in raised.value.hint for word in ("latest=", "QUALIFY", "append"))


def test_deletes(bench: Bench) -> None:
    script = managed("SELECT k, v, gone AS _deleted FROM batch", "merge", key=["k"], batch=COLUMNS)
    feed(bench, script, raw_span([b'{"k":"A","v":1}', b'{"k":"B","v":2,"gone":false}', b'{"k":"C","gone":true}']))
    assert bench.texts("SELECT * FROM t") == [["A", "1"], ["B", "2"]]
    (ran,) = feed(bench, script, raw_span([b'{"k":"A","gone":true}'], 3))
    assert [(c.inserted, c.deleted) for c in ran.counts] == [(0, 1)]
    assert bench.texts("SELECT * FROM t") == [["B", "2"]]
    assert [row[0] for row in bench.rows("DESCRIBE t")] == ["k", "v"]


def test_a_delete_mark_has_to_be_a_boolean(bench: Bench) -> None:
    with pytest.raises(RunBlocked, match="_deleted is INTEGER"):
        feed(bench, managed("SELECT k, v AS _deleted FROM batch", "merge", key=["k"], batch=COLUMNS), raw_span(events(("A", 1, 1))))


def test_keys_are_compared_as_the_table_has_them(bench: Bench) -> None:
    bench.run(managed("SELECT 1 AS k, 'x' AS v", "merge", key=["k"]))
    bench.run(managed("SELECT '01' AS K, 'y' AS v", "merge", key=["K"]))
    assert bench.rows("SELECT * FROM t") == [(1, "y")]
    with pytest.raises(RunFailed, match="1 key with more than one row"):
        bench.run(managed("SELECT unnest(['1', '01']) AS k, 'z' AS v", "merge", key=["k"]))


def test_what_a_merge_needs(bench: Bench) -> None:
    with pytest.raises(RunBlocked, match="latest= column ts is not in the SELECT"):
        bench.run(managed("SELECT 1 AS k", "merge", key=["k"], latest="ts"))
    bench.run(managed("SELECT 1 AS k, 2 AS v", "merge", key=["k"]))
    with pytest.raises(RunBlocked, match="the table has no column ts"):
        bench.run(managed("SELECT 1 AS k, 2 AS v, 3 AS ts", "merge", key=["k"], latest="ts"))


Row = tuple[str | None, str | None, int, int | None, bool]
KEYS = st.sampled_from(["a", "ab", None])
ROWS = st.lists(st.tuples(KEYS, st.sampled_from(["bc", "c", None]), st.integers(0, 9), st.integers(0, 3) | st.none(), st.booleans()), max_size=6)


def model(table: Sequence[Row], staged: Sequence[Row], *, latest: bool, events: bool) -> list[Row] | None:
    """MT-4 and MT-5 by hand; None: it fails."""
    age = [(-1 if row[3] is None else row[3]) for row in staged]
    kept: list[Row] = []
    for i, row in enumerate(staged):
        rivals = [j for j, other in enumerate(staged) if other[:2] == row[:2]]
        if None in row[:2] or len(rivals) == 1:
            kept.append(row)
        elif not latest:
            return None
        elif (best := max(age[j] for j in rivals)) == age[i]:
            if not events and sum(age[j] == best for j in rivals) > 1:
                return None
            if not events or i == max(j for j in rivals if age[j] == best):
                kept.append(row)
    meets = [row for row in kept if not (events and None in row[:2])]
    newer = {old[:2] for old in table for row in meets if latest and old[:2] == row[:2] and (-1 if old[3] is None else old[3]) > (-1 if row[3] is None else row[3])}
    untouched = [old for old in table if old[:2] not in {row[:2] for row in meets}]
    survivors = [old for old in table if old[:2] in newer]
    new = [row for row in kept if not row[4] and (row not in meets or row[:2] not in newer)]
    return [(*row[:4], False) for row in [*untouched, *survivors, *new]]


def plain_keys(rows: Sequence[Row]) -> bool:
    """One stored row a key, and one staged row of a key with a NULL: what several of them do to each other is nobody's rule."""
    return len({row[:2] for row in rows}) == len(rows)


@pytest.mark.thorough
@given(first=ROWS.filter(plain_keys), second=ROWS, latest=st.booleans(), events=st.booleans())
@settings(max_examples=tries(10, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_merges_do_what_the_rules_say(bench: Bench, first: list[Row], second: list[Row], latest: bool, events: bool) -> None:
    if latest and not plain_keys([row for row in second if None in row[:2]]):
        second = [row for row in second if None not in row[:2]]
    bench.rows("DROP TABLE IF EXISTS lake_main.main.t")
    table: list[Row] = []
    for rows in (first, second):
        wanted = model(table, rows, latest=latest, events=events)
        if wanted is None:
            with pytest.raises(RunFailed, match="more than one row"):
                merge(bench, rows, latest=latest, events=events)
        else:
            merge(bench, rows, latest=latest, events=events)
            table = wanted
        has = bench.rows("SELECT 1 FROM duckdb_tables() WHERE database_name = 'lake_main' AND table_name = 't'")
        found = bench.rows("SELECT k, l, v, ts FROM t") if has else []
        assert sorted(map(str, found)) == sorted(str(row[:4]) for row in table)


def merge(bench: Bench, rows: Sequence[Row], *, latest: bool, events: bool) -> None:
    columns = [("k", "VARCHAR"), ("l", "VARCHAR"), ("v", "INTEGER"), ("ts", "INTEGER"), ("_deleted", "BOOLEAN")]
    select, ts = "SELECT k, l, v, ts, _deleted FROM ", "ts" if latest else None
    if events:
        script = managed(f"{select} batch", "merge", key=["k", "l"], latest=ts, batch=columns)
        names = [name for name, _ in columns]
        feed(bench, script, raw_span([json.dumps(dict(zip(names, row, strict=True))).encode() for row in rows]))
        return
    bench.rows(f"CREATE OR REPLACE TABLE lake_main.main.src ({', '.join(f'{name} {kind}' for name, kind in columns)})")
    for row in rows:
        bench.rows("INSERT INTO lake_main.main.src VALUES (" + ", ".join("NULL" if cell is None else repr(cell) for cell in row) + ")")
    bench.run(managed(f"{select} main.src", "merge", key=["k", "l"], latest=ts))


def test_a_merge_stays_in_its_slice(bench: Bench) -> None:
    script = managed("SELECT 'a' AS k, {partition} AS v", "merge", key=["k"], partitioned=DAILY)
    for day in ("2026-03-01", "2026-03-02", "2026-03-01"):
        bench.run(script, day)
    assert bench.texts("SELECT k, v FROM t") == [["a", "2026-03-01"], ["a", "2026-03-02"]]
