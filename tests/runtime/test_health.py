"""Health, decided from what was seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor.runtime.health import LOOP_SECONDS_MAX, Report, Seen, SourceSeen, alive, ready, started

sources = st.builds(SourceSeen, st.just("kafka://main"), st.booleans(), st.sampled_from(["", "away"]), st.lists(st.just("halted"), max_size=1))
seen_things = st.builds(
    Seen, st.sampled_from([None, "", "PostgreSQL does not answer"]), st.booleans(), st.sampled_from(["", "away"]),
    st.dictionaries(st.sampled_from(["main", "sales"]), st.sampled_from(["", "not there"])), st.lists(st.just("main"), max_size=1),
    st.lists(sources, max_size=3), st.integers(0, 2),
)  # fmt: skip


def status(report: Report, name: str) -> str:
    return next(check.status for check in report.checks if check.name == name)


@given(seen_things)
def test_ready_exactly_if_everything_is_there_that_conventions_name(seen: Seen) -> None:
    """503 while draining or unless postgres, commit trigger and lakes are up and each source was reached once; the rest degrades."""
    report = ready(seen)
    sound = not seen.postgres and not seen.unwatched and not any(seen.lakes.values())
    reached = all(source.reached for source in seen.sources)
    serves = seen.waiting is None and not seen.draining and sound and reached
    assert (report.http_status == 200) == serves
    if serves:
        flawless = not seen.gaps and not any(source.trouble or source.halted for source in seen.sources)
        assert report.status == ("up" if flawless else "degraded")


@given(seen_things)
def test_what_is_not_up_says_why(seen: Seen) -> None:
    for report in (ready(seen), started(seen)):
        assert report.checks
        assert all(check.message for check in report.checks if check.status != "up") or seen.waiting == ""
        assert report.to_json()["status"] == report.status


def test_a_source_that_was_reached_and_is_lost_only_degrades() -> None:
    report = ready(Seen(sources=[SourceSeen("kafka://main", reached=True, trouble="does not answer")]))
    assert (report.status, report.http_status, status(report, "source kafka://main")) == ("degraded", 200, "degraded")


def test_a_lost_range_stays_visible() -> None:
    report = ready(Seen(gaps=2))
    assert (report.status, status(report, "gaps")) == ("degraded", "degraded")


def test_without_postgres_the_rest_is_not_known() -> None:
    report = ready(Seen(postgres="away", lakes={"main": ""}))
    assert [status(report, name) for name in ("postgres", "commit_trigger", "lakes")] == ["down", "down", "down"]


@pytest.mark.parametrize(("turned_at", "status"), [(None, "up"), (100.0, "up"), (100.0 - LOOP_SECONDS_MAX, "up"), (99.0 - LOOP_SECONDS_MAX, "down")])
def test_a_loop_that_hangs_is_not_alive(turned_at: float | None, status: str) -> None:
    assert alive(turned_at, 100.0).status == status


def test_started_once_nothing_is_waited_for() -> None:
    assert started(Seen(waiting="starting")).http_status == 503
    assert started(Seen()).http_status == 200
