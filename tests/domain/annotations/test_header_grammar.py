"""Every rule of the header, line by line: what holds, and what is said where."""

import pytest

from reactor.domain.annotations import HeaderReading, read_header
from reactor.domain.assets import ProjectNames
from reactor.domain.scripts import (
    BatchColumn,
    Debounce,
    Edge,
    Freshness,
    HeaderField,
    Incremental,
    Materialize,
    Partitioning,
    Retry,
    TriggerRule,
)

NAMES = ProjectNames(lakes=("main", "sales"), clusters=("eu",), stores=("land",))


def read(*lines: str) -> HeaderReading:
    return read_header("\n".join(lines), NAMES)


def said(reading: HeaderReading) -> list[str]:
    """`line:column severity suggestion` of each finding."""
    return [f"{f.range.line}:{f.range.column} {f.severity}{f' {f.suggestion}' if f.suggestion else ''}" for f in reading.findings]


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("-- pipeline", "pipeline", True),
        ("-- batch id BIGINT, \"order by\" varchar", "batch", (BatchColumn("id", "BIGINT"), BatchColumn("order by", "VARCHAR"))),
        ("-- partitioned hourly tz=Europe/Prague", "partitioned", Partitioning("hourly", "Europe/Prague")),
        ("-- partitioned daily event_time=$.meta.at format=%Y/%m/%d", "partitioned", Partitioning("daily", format="%Y/%m/%d", event_time=("meta", "at"))),
        ("-- partitioned monthly event_time=header:at", "partitioned", Partitioning("monthly", event_time=HeaderField("at"))),
        ("-- partitioned dynamic key=$.tenant", "partitioned", Partitioning("dynamic", key=("tenant",))),
        ("-- materialize ducklake://Main/T", "materialize", Materialize("ducklake://main/t", "replace")),
        ("-- materialize ducklake://main/t append", "materialize", Materialize("ducklake://main/t", "append")),
        ("-- materialize ducklake://main/t key=a,b latest=ts", "materialize", Materialize("ducklake://main/t", "merge", ("a", "b"), "ts")),
        (
            "-- materialize scd2 ducklake://main/t key=a track=b,c deletes=close on_schema_change=sync", "materialize",
            Materialize("ducklake://main/t", "scd2", ("a",), None, ("b", "c"), True, "sync"),
        ),
        ("-- materialize ducklake://main/t history key=a", "materialize", Materialize("ducklake://main/t", "scd2", ("a",))),
        ("-- materialize manual s3://land/x.parquet", "materialize", Materialize("s3://land/x.parquet", "manual")),
        ("-- trigger any", "trigger", TriggerRule()),
        ("-- trigger all expires=7d at_least=2 late=rerun", "trigger", TriggerRule("all", 604800.0, 2, True)),
        ("-- debounce 2s max=30s rows=100000 bytes=5", "debounce", Debounce(2, 30, 100000, 5)),
        ("-- freshness 5m", "freshness", Freshness(300)),
        ('-- freshness 1d deadline="0 9 * * 1-5" tz=Europe/Prague on=data', "freshness", Freshness(86400, "0 9 * * 1-5", "Europe/Prague", "data")),
        ("-- retry 3", "retry", Retry(3)),
        ("-- retry 3 10s backoff=exponential", "retry", Retry(3, 10, True)),
        ("-- retry 3 backoff=exponential", "retry", Retry(3, 1, True)),
        ("-- tag nightly", "tag", "nightly"),
        ("-- mute all", "mute", ("all",)),
        ("-- mute ducklake://Main/x", "mute", ("ducklake://main/x",)),
        ("-- incremental cdc=u lookback=1h", "incremental", Incremental("u", 3600)),
        ("-- macros", "macros", True),
        ("-- use lib/money.sql", "use", ("lib/money.sql",)),
        ("-- on_failure hooks/tell.py", "on_failure", "hooks/tell.py"),
        ("-- pre_run hooks/first.sql", "pre_run", "hooks/first.sql"),
        ("-- read pinned", "read_pinned", True),
    ],
)
def test_a_well_formed_line_holds(line: str, field: str, value: object) -> None:
    reading = read(line)
    assert (getattr(reading.header, field), said(reading)) == (value, [])
    assert not reading.refused


@pytest.mark.parametrize(
    ("line", "edge"),
    [
        ("-- on ducklake://main/A/{partition}", Edge("asset", "ducklake://main/a")),
        ("-- on ducklake://main/a debounce=5s start=earliest", Edge("asset", "ducklake://main/a", debounce=Debounce(5), start="earliest")),
        ("-- on datatable://shop/t", Edge("asset", "datatable://shop/t")),
        ("-- on kafka://orders", Edge("kafka", "kafka://eu/orders")),
        (
            "-- on kafka://eu/orders format=debezium start=2026-01-01T00:00:00Z tombstones=row",
            Edge("kafka", "kafka://eu/orders", format="debezium", start="2026-01-01T00:00:00Z", options=(("tombstones", "row"),)),
        ),
        ("-- on s3://land/{partition}/*.csv overwrite=load", Edge("s3", "s3://land/{partition}/*.csv", options=(("overwrite", "load"),))),
        ("-- on file://in/*.json format=json", Edge("file", "file://in/*.json", format="json")),
        ('-- on "s3://land/a b.json"', Edge("s3", "s3://land/a b.json")),
        (
            '-- on schedule "0  6 * * *" tz=Europe/Prague partition=previous catch_up=all',
            Edge("schedule", "0 6 * * *", options=(("tz", "Europe/Prague"), ("partition", "previous"), ("catch_up", "all"))),
        ),
        ("-- on webhook auth=none", Edge("webhook", "", options=(("auth", "none"),))),
        ("-- on data_upload", Edge("upload", "")),
        ("-- on sqs://queue", Edge("sqs", "sqs://queue")),
    ],
)
def test_an_input_is_an_edge(line: str, edge: Edge) -> None:
    reading = read(line)
    assert (reading.header.edges, said(reading)) == ((edge,), [])


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("unique id", ("id",)),
        ('not_null "order id"', ("order id",)),
        ("accepted_values s = new,paid", ("s", "new", "paid")),
        ("accepted_values s='a,b',c severity=error", ("s", "a,b", "c")),
        ("relationships c -> ducklake://Main/customers.id", ("c", "ducklake://main/customers", "id")),
        ("lib/rows_between min=1 max=9", ("min=1", "max=9")),
    ],
)
def test_five_forms_of_tests(line: str, arguments: tuple[str, ...]) -> None:
    reading = read(f"-- data_test {line}")
    [test] = reading.header.data_tests
    assert (test.name, test.arguments, said(reading)) == (line.split(maxsplit=1)[0], arguments, [])


def test_declared_lineage() -> None:
    [lineage] = read("-- column total<-ducklake://Main/crm.orders.Amount, kafka://orders.fee").header.columns
    assert (lineage.column, lineage.sources) == ("total", (("ducklake://main/crm.orders", "Amount"), ("kafka://eu/orders", "fee")))


@pytest.mark.parametrize(
    ("line", "findings"),
    [
        ("-- pipeline x", ["1:13 error"]),
        ("-- on", ["1:4 error"]),
        ("-- on orders", ["1:7 error ducklake://lake/orders"]),
        ("-- on kafka", ["1:7 error kafka://[cluster/]topic"]),
        ("-- on kafak://x debunce=3s", ["1:7 error kafka://", "1:17 error debounce"]),
        ("-- on ducklake://main/a, ducklake://main/b", ["1:7 error", "1:26 error"]),
        ("-- on ducklake://main/a ducklake://main/b", ["1:25 error"]),
        ("-- on ducklake://main/a debounce=0", ["1:34 error"]),
        ("-- on kafka://o format=csv", ["1:24 error"]),
        ("-- on kafka://o format=jsn start=latst tombstones=rows", ["1:24 error json", "1:34 error latest", "1:51 error row"]),
        ("-- on kafka://o start=2026-01-01", ["1:23 error 2026-01-01T00:00:00Z"]),
        ("-- on schedule 0 6 * * *", ['1:16 error "0 6 * * *"']),
        ("-- on schedule 0 6 * * * tz=UTC", ['1:16 error "0 6 * * *"']),
        ("-- on schedule “0 6 * * *”", ['1:16 error "0 6 * * *"']),
        ("-- on schedule @daily", ['1:16 error "0 0 * * *"']),
        ("-- on schedule tz=UTC", ['1:7 error schedule "0 6 * * *"']),
        ('-- on schedule "0 6 * * *', ["1:16 error"]),
        ('-- on schedule "0 25 * * *" tz=Prague', ["1:19 error", "1:32 error Europe/Prague"]),
        ('-- on schedul "0 6 * * *"', ["1:7 error schedule"]),
        ("-- on webhook auth=basic", ["1:20 error"]),
        ("-- on sqs://", ["1:7 error"]),
        ("-- debounce 2 s", ["1:15 error 2s"]),
        ("-- debounce 2s max=30 s", ["1:23 error max=30s"]),
        ("-- debounce 2s max 30s", ["1:16 error max=30s"]),
        ("-- debounce 2s max = 30s", ["1:16 error max=30s"]),
        ("-- debounce 2s maximum=30s", ["1:16 error max"]),
        ("-- debounce 2s max=30s max=40s", ["1:24 error"]),
        ("-- debounce 5s max=2s", ["1:20 error"]),
        ("-- debounce 2s rows=0 bytes=64MiB", ["1:21 error", "1:29 error 67108864"]),
        ("-- debounce max=30s", ["1:13 error"]),
        ("-- freshness 5min on=date", ["1:14 error 5m", "1:22 error data"]),
        ("-- freshness 5m data", ["1:17 error on=data"]),
        ("-- freshness 5m deadline=0 9 * * * tz=UTC", ['1:26 error deadline="0 9 * * *"']),
        ('-- freshness 5m deadline="0 0 9 * * *"', ["1:27 error 0 9 * * *"]),
        ("-- retry 0", ["1:10 error"]),
        ("-- retry 101 2h", ["1:10 error", "1:14 error"]),
        ("-- retry 3 exponential", ["1:12 error backoff=exponential"]),
        ("-- retry 3 backoff=exponental", ["1:20 error exponential"]),
        ("-- tag", ["1:4 error"]),
        ("-- tag a b", ["1:10 error"]),
        ('-- tag "a b"', ["1:9 error"]),
        (f"-- tag {'é' * 26}", ["1:8 error"]),
        ("-- mute al", ["1:9 error all"]),
        ("-- mute orders", ["1:9 error ducklake://lake/orders"]),
        ("-- macros x", ["1:11 error"]),
        ("-- use lib", ["1:8 error ./lib.sql"]),
        ("-- on_failure ../x.py", ["1:15 error"]),
        ("-- column", ["1:4 error"]),
        ("-- column t <-", ["1:13 error"]),
        ("-- column t = ducklake://main/a.b", ["1:13 error column t <- ducklake://main/a.b"]),
        ("-- column t <- ducklake://main/a, b", ["1:16 error ducklake://main/a.column", "1:35 error"]),
        ("-- column t <- ducklake://main/a.b,", ["1:35 error"]),
        ("-- column t <- ducklake://main/a.b ducklake://main/a.c", ["1:16 error ducklake://main/a.b, ducklake://main/a.c"]),
        ("-- column t <- main.orders.amount", ["1:16 error ducklake://main/orders.amount"]),
        ("-- column t <- ducklake://mian/a.b", ["1:16 error ducklake://main/a"]),
        ("-- data_test", ["1:4 error"]),
        ("-- data_test uniq id", ["1:14 error unique"]),
        ("-- data_test foo id", ["1:14 error"]),
        ("-- data_test unique", ["1:4 error"]),
        ("-- data_test unique a,b", ["1:21 error"]),
        ("-- data_test unique a severity=wran", ["1:32 error warn"]),
        ("-- data_test unique a warn", ["1:23 error severity=warn"]),
        ("-- data_test accepted_values s new,paid", ["1:30 error accepted_values s = new,paid"]),
        ("-- data_test accepted_values s =", ["1:32 error accepted_values s = a,b"]),
        ("-- data_test accepted_values s = new, paid", ["1:39 error new,paid"]),
        ("-- data_test accepted_values s = a,,b", ["1:34 error"]),
        ("-- data_test relationships c ducklake://main/a.b", ["1:14 error relationships c -> ducklake://main/a.b"]),
        ("-- data_test relationships c <- ducklake://main/a.b", ["1:30 error relationships c -> ducklake://main/a.b"]),
        ("-- data_test relationships c -> s3://land/a.b", ["1:33 error"]),
        ("-- data_test relationships c -> ducklake://mian/a.b", ["1:33 error ducklake://main/a"]),
        ("-- data_test lib/x 5", ["1:14 error"]),
    ],
)
def test_a_malformed_line_is_dropped_and_told(line: str, findings: list[str]) -> None:
    reading = read(line, "-- tag other" if "tag" not in line else "-- retry 1")
    assert said(reading) == findings
    assert not reading.refused
    assert len(reading.malformed) == 1
    assert len(reading.annotations) == 1


@pytest.mark.parametrize(
    ("line", "findings"),
    [
        ("-- on ducklake", ["1:7 error ducklake://lake/table"]),
        ("-- on ducklake://mian/t", ["1:7 error ducklake://main/t"]),
        ("-- on s3://lost/x", ["1:7 error"]),
        ("-- on kafka://us/x", ["1:7 error"]),
        ("-- on res://x", ["1:7 error file://"]),
        ("-- on s3://land/{partition}/{partition}", ["1:29 error"]),
        ("-- on s3://{partition}/x", ["1:12 error"]),
        ('-- on schedule "0 0 6 * * *"', ["1:17 error 0 6 * * *"]),
        ("-- partitioned", ["1:4 error"]),
        ("-- partitioned dialy tz=Mars start=2026-3-1 event_time=ts", ["1:16 error daily", "1:25 error", "1:36 error 2026-03-01", "1:56 error $.ts"]),
        ("-- partitioned day", ["1:16 error daily"]),
        ("-- partitioned daily tz", ["1:22 error tz=…"]),
        ("-- partitioned daily zone=UTC", ["1:22 error tz"]),
        ("-- partitioned daily key=$.a", ["1:22 error dynamic"]),
        ("-- partitioned daily format=%Y-%m", ["1:29 error"]),
        ("-- partitioned daily format=%Y %m %d", ['1:29 error format="%Y %m %d"']),
        ('-- partitioned daily format="%Y', ["1:29 error"]),
        ("-- partitioned dynamic", ["1:16 error key=$.member"]),
        ("-- partitioned dynamic $.a", ["1:24 error key=$.a"]),
        ("-- partitioned dynamic key=$.a tz=UTC", ["1:32 error"]),
        ("-- materialize", ["1:4 error"]),
        ("-- materialize orders", ["1:16 error ducklake://lake/orders"]),
        ("-- materialize manul ducklake://main/t", ["1:16 error manual"]),
        ("-- materialize append ducklake://main/t", ["1:16 error"]),
        ("-- materialize snapshot ducklake://main/t key=a", ["1:16 error scd2"]),
        ("-- materialize ducklake://main/t key=a, b", ["1:41 error key=a,b"]),
        ("-- materialize ducklake://main/t key=a ,b latest=c", ["1:40 error key=a,b"]),
        ("-- materialize ducklake://main/t key= a", ["1:34 error key=a"]),
        ("-- materialize ducklake://main/t key = a", ["1:34 error key=a"]),
        ("-- materialize ducklake://main/t key=a,A", ["1:40 error"]),
        ("-- materialize ducklake://main/t key=a,", ["1:39 error"]),
        ("-- materialize ducklake://main/t track=a, b history key=c", ["1:43 error track=a,b"]),
        ("-- materialize ducklake://main/t appnd", ["1:34 error append"]),
        ("-- materialize ducklake://main/t append append", ["1:41 error"]),
        ("-- materialize ducklake://main/t on_schema_change=snyc", ["1:51 error sync"]),
        ("-- materialize ducklake://main/t key=a history deletes=open", ["1:56 error"]),
        ("-- materialize ducklake://main/t key=a deletes=close", ["1:40 error"]),
        ("-- materialize ducklake://main/t history", ["1:34 error"]),
        ("-- materialize scd2 ducklake://main/t", ["1:16 error"]),
        ("-- materialize ducklake://main/t latest=c", ["1:34 error"]),
        ("-- materialize ducklake://main/t unique_key=a wrap=x", ["1:34 error key=a", "1:47 error"]),
        ("-- materialize s3://land/x", ["1:16 error"]),
        ("-- materialize manual kafka://orders", ["1:23 error"]),
        ("-- materialize ducklake://mian/t", ["1:16 error ducklake://main/t"]),
        ("-- materialize ducklake://main/_reactor_quarantine", ["1:16 error"]),
        ("-- trigger each", ["1:12 error"]),
        ("-- trigger all at_least=0 late=rerum", ["1:25 error", "1:32 error rerun"]),
        ("-- incremental", ["1:4 error incremental cdc=<column>"]),
        ("-- incremental u", ["1:16 error cdc=u"]),
        ("-- incremental cdc=u lookbak=1h", ["1:22 error lookback"]),
        ("-- read", ["1:4 error"]),
        ("-- read pined", ["1:9 error pinned"]),
        ("-- batch", ["1:4 error batch id BIGINT, name VARCHAR"]),
        ("-- batch id", ["1:10 error"]),
        ("-- batch a INTT, b BIGNT", ["1:12 error INT", "1:20 error BIGINT"]),
        ("-- batch id BIGINT v VARCHAR", ["1:20 error , v"]),
        ("-- batch id BIGINT,, v VARCHAR", ["1:19 error"]),
        ("-- batch id BIGINT, ID VARCHAR", ["1:21 error"]),
        ("-- batch id BIGINT NOT NULL", ["1:20 error data_test not_null id"]),
        ("-- batch BIGINT id", ["1:10 error id BIGINT"]),
        ("-- batch id:BIGINT", ["1:10 error id BIGINT"]),
        ("-- batch order-id BIGINT", ['1:10 error "order-id"']),
        ('-- batch "id BIGINT', ["1:10 error"]),
        ("-- batch _offset BIGINT, _wm_x INT", ["1:10 error", "1:26 error"]),
        ("-- batch a STRUCT(x INTT, y INT", ["1:21 error INT"]),
    ],
)
def test_what_decides_what_is_written_refuses_the_script(line: str, findings: list[str]) -> None:
    reading = read(line)
    assert said(reading) == findings
    assert reading.refused
    assert reading.annotations == ()


@pytest.mark.parametrize(
    ("line", "findings"),
    [
        ("-- materialize ducklake://main/t append key=a latest=b", ["1:41 warning", "1:47 warning"]),
        ("-- materialize ducklake://main/t append key=a history", ["1:34 warning"]),
        ("-- materialize ducklake://main/t track=a", ["1:34 warning"]),
        ("-- materialize manual ducklake://main/t append on_schema_change=sync", ["1:41 warning", "1:48 warning"]),
        ("-- on ducklake://main/a format=json", ["1:25 warning"]),
        ("-- on kafka://o overwrite=load", ["1:17 warning"]),
        ("-- on schedule", ["1:7 warning"]),
        ("-- on email", ["1:7 warning"]),
        ("-- trigger any expires=1d", ["1:16 warning"]),
        ("-- freshness 5m tz=UTC", ["1:17 warning"]),
        ("-- measure revenue = sum(amount)", ["1:4 warning"]),
        ("-- dimension region", ["1:4 warning"]),
        ("-- batch a HUGEINT, b TIMETZ[], c STRUCT(x BIT)", ["1:12 warning", "1:23 warning", "1:35 warning"]),
    ],
)
def test_what_has_no_effect_is_a_warning(line: str, findings: list[str]) -> None:
    reading = read(line)
    assert (said(reading), reading.refused, len(reading.annotations)) == (findings, False, 1)


def test_a_binding_makes_a_bare_marker_whole() -> None:
    names = ProjectNames(bindings=("schedule",))
    assert read_header("-- on schedule", names).findings == ()


@pytest.mark.parametrize(
    ("lines", "findings"),
    [
        (["-- freshness 5m", "-- freshness 1h"], ["2:4 warning"]),
        (["-- partitioned daily", "-- partitioned hourly"], ["2:4 warning"]),
        (["-- trigger any", "-- trigger all"], ["2:4 warning"]),
        (["-- pipeline", "-- pipeline"], ["2:4 warning"]),
        (["-- on kafka://orders", "-- on kafka://eu/orders debounce=5s"], ["2:7 warning"]),
        (["-- mute all", "-- mute all"], ["2:9 warning"]),
        (["-- data_test unique a", "-- data_test unique a severity=warn"], ["2:14 warning"]),
        (["-- column t <- ducklake://main/a.b", "-- column T <- ducklake://main/a.c"], ["2:11 warning"]),
        (["-- use a.sql", "-- use a.sql"], ["2:8 warning"]),
        (["-- measure a", "-- measure a"], ["1:4 warning", "2:4 warning"]),
    ],
)
def test_the_first_line_counts(lines: list[str], findings: list[str]) -> None:
    reading = read(*lines)
    assert said(reading) == findings
    assert reading.header == read(lines[0]).header


def test_a_malformed_line_is_not_the_first() -> None:
    reading = read("-- freshness soon", "-- freshness 5m")
    assert reading.header.freshness == Freshness(300)
    assert (reading.malformed, said(reading)) == (("freshness",), ["1:14 error"])


def test_a_script_has_a_hundred_inputs_at_most() -> None:
    lines = [f"-- on ducklake://main/t{number}" for number in range(101)]
    assert not read(*lines[:100]).refused
    reading = read(*lines)
    assert (said(reading), reading.refused) == (["101:4 error"], True)
