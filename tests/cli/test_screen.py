import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from rich.console import Console

from reactor.cli.live import AssetView, LaneView, RunView, SourceView, Totals, View
from reactor.cli.screen import Frame, clock, doing, fired_by, line, screen
from reactor.domain.runs import Reason, RunState
from reactor.state.listing import RunSummary

AT = datetime(2026, 6, 19, 10, 0, 7, tzinfo=UTC)
RUN = UUID(int=1)
SNAPSHOTS: Sequence[Mapping[str, object]] = [
    {"asset": "ducklake://main/orders", "snapshot_id": 58, "partition": "2026-06-19"},
    {"asset": "ducklake://main/customers", "snapshot_id": 53},
]


def ran(reason: Reason = "asset", *, error: str | None = None, events: int = 0, upstream: Sequence[Mapping[str, object]] = ()) -> RunView:
    state: RunState = "failed" if error else "completed"
    run = RunSummary(RUN, RUN, "x.sql", None, "main", "", state, reason, 1, "", "", 59, 20, 18, error, AT, AT, AT)
    return RunView(run, upstream, events)


def drawn(view: View, frame: Frame, width: int = 110) -> str:
    console = Console(width=width, color_system=None, record=True, file=io.StringIO())
    console.print(screen(view, frame))
    return console.export_text()


VIEW = View(
    [
        AssetView("ducklake://main/orders", "raw/orders.sql", 12_397, 58, LaneView(running=True, slices_open=2), ran("kafka", events=60), AT),
        AssetView("ducklake://main/orders_daily", "marts/orders_daily.sql", 20, 59, LaneView(slices_due=1), ran(upstream=SNAPSHOTS[:1]),
                  AT - timedelta(hours=2)),
        AssetView("export/notify.py", "export/notify.py", lane=LaneView(), last=ran(upstream=SNAPSHOTS)),
        AssetView("export/archive.sh", "export/archive.sh"),
    ],
    [SourceView("kafka://local/orders", 43, 30.04), SourceView("kafka://local/customers", 0, None)],
    Totals(12_000, 44, 40, 20, 3), 5, AT.timestamp() + 5,
)
FRAME = Frame("orders", "running", 73.9, {"metrics": "http://127.0.0.1:8081/metrics"}, "what notify.py wrote", ["one", "two"], "q stops")


def test_a_screen_says_rows_snapshots_lag_and_what_fired_what() -> None:
    lines = [" ".join(line.split()) for line in drawn(VIEW, FRAME).splitlines()]
    assert lines == [
        "orders running 1:13 q stops",
        "12 000 rows in 44 runs, 40 snapshots, 20 cascades 5 quarantined",
        "",
        "topic lag records/s",
        "kafka://local/orders 43 30.0",
        "kafka://local/customers 0 -",
        "",
        "asset rows snapshot fresh slices fired by",
        "main/orders 12 397 58 5 s running, 2 open kafka, 60 records",
        "main/orders_daily 20 59 2 h 1 due asset: orders @58 2026-06-19",
        "export/notify.py - - - idle asset: orders @58 2026-06-19, customers @53",
        "export/archive.sh - - - - -",
        "",
        "what notify.py wrote",
        "one",
        "two",
        "metrics http://127.0.0.1:8081/metrics",
    ]


def test_a_narrow_screen_cuts_only_what_fired() -> None:
    wide, narrow = drawn(VIEW, FRAME), drawn(VIEW, FRAME, 80)
    assert len(narrow.splitlines()) == len(wide.splitlines()) <= 24
    assert max(map(len, narrow.splitlines())) <= 80
    assert "running, 2 open kafka, 60" in narrow
    assert "asset: orders @58" in narrow


def test_a_line_says_the_same_for_a_file() -> None:
    assert line(VIEW, FRAME) == (
        "1:13 running: rows=12000 runs=44 snapshots=40 cascades=20 quarantined=3 lag=43; orders 12397 rows @58; orders_daily 20 rows @59; "
        "raw/orders.sql fired by kafka, 60 records")
    assert line(View(), Frame("", "starting", 0)) == "0:00 starting: rows=0 runs=0 snapshots=0 cascades=0 quarantined=0 lag=0"


def test_before_anything_answers_there_is_a_screen_too() -> None:
    text = drawn(View(), Frame("orders", "starting", 0))
    assert "no topic is read yet" in text
    assert "0 quarantined" in text


def test_the_error_of_a_failed_run_is_shown_by_its_first_line() -> None:
    text = drawn(View([AssetView("a", "a.sql", last=ran(error="it broke\nat length"))]), FRAME)
    assert "a.sql: it broke" in text
    assert "at length" not in text


def test_many_upstream_snapshots_are_counted() -> None:
    many = [{"asset": "ducklake://main/a", "snapshot_id": n} for n in range(5)]
    assert fired_by(ran(upstream=many)) == "asset: a @0, a @1, a @2, 2 more"
    assert fired_by(ran("manual")) == "manual"


def test_a_lane_says_all_it_has_to_do() -> None:
    assert doing(LaneView(running=True, slices_open=1, slices_due=2, slices_blocked=3)) == "running, 1 open, 2 due, 3 blocked"
    assert clock(3725) == "62:05"


def test_at_rest_is_when_nothing_is_left() -> None:
    idle, busy = AssetView("a", "a.sql", lane=LaneView()), AssetView("a", "a.sql", lane=LaneView(slices_open=1))
    read, behind = SourceView("kafka://c/t", 0, None), SourceView("kafka://c/t", 1, None)
    assert View([idle], [read]).at_rest
    assert not View([idle], [behind]).at_rest
    assert not View([busy], [read]).at_rest
    assert not View([AssetView("a", "a.sql")], [read]).at_rest
    assert not View([idle]).at_rest
