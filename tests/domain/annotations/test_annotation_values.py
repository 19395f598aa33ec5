from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor.domain.annotations.cron import cron
from reactor.domain.annotations.scan import HeaderLine, Word, words
from reactor.domain.annotations.values import (
    column,
    columns,
    day,
    delay,
    duration,
    event_time,
    instant,
    json_path,
    script_path,
    whole,
    zone,
)
from reactor.domain.diagnostics import Malformed
from reactor.domain.scripts import HeaderField


def word(text: str) -> Word:
    """A value as it stands in `x=…`."""
    [found] = words(HeaderLine(1, f'x="{text}"' if " " in text else f"x={text}", 1))
    return found


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1s", 1), ("5m", 300), ("1h", 3600), ("7d", 604800), ("366d", 366 * 86400), ("05m", 300)])
def test_durations(text: str, seconds: float) -> None:
    assert duration(word(text)) == seconds


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("0", None), ("0s", None), ("-1s", "1s"), ("1w", "7d"), ("1.5h", "90m"), ("5min", "5m"), ("1h30m", "90m"), ("2hours", "2h"), ("2S", "2s"),
        ("367d", None), ("500ms", None), ("1500ms", None), ("2000ms", "2s"), ("soon", None), ("1_0s", None), ("٣s", None), ("2s,", "2s"), ("1e3", None),
        ("9" * 40, None),
    ],
)
def test_what_is_no_duration_is_answered(text: str, suggestion: str | None) -> None:
    with pytest.raises(Malformed) as wrong:
        duration(word(text))
    assert wrong.value.suggestion == suggestion


def test_a_delay_is_an_hour_at_most() -> None:
    assert delay(word("1h")) == 3600
    with pytest.raises(Malformed):
        delay(word("61m"))


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [("0", None), ("101", None), ("-1", None), ("1.5", None), ("1_0", "10"), ("2k", "2000"), ("3MiB", "3145728"), ("three", None), ("²", None)],
)
def test_what_is_no_number_is_answered(text: str, suggestion: str | None) -> None:
    with pytest.raises(Malformed) as wrong:
        whole(1, 100)(word(text))
    assert wrong.value.suggestion == suggestion


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [("Europe/Berln", "Europe/Berlin"), ("europe/berlin", "Europe/Berlin"), ("Prague", "Europe/Prague"), ("+02:00", None), ("../etc", None), ("Mars", None)],
)
def test_zones_are_exact(text: str, suggestion: str | None) -> None:
    assert zone(word("Europe/Berlin")) == "Europe/Berlin"
    with pytest.raises(Malformed) as wrong:
        zone(word(text))
    assert wrong.value.suggestion == suggestion


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [("2026-13-01", None), ("2026-02-30", None), ("2026-3-1", "2026-03-01"), ("20260301", "2026-03-01"), ("2026-03-01T00", "2026-03-01"), ("soon", None)],
)
def test_days_are_exact(text: str, suggestion: str | None) -> None:
    assert day(word("2026-03-01")) == date(2026, 3, 1)
    with pytest.raises(Malformed) as wrong:
        day(word(text))
    assert wrong.value.suggestion == suggestion


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("2026-01-01", "2026-01-01T00:00:00Z"), ("2026-01-01T10:00:00", "2026-01-01T10:00:00Z"), ("2026-13-01T00:00:00Z", None), ("now", None),
    ],
)
def test_instants_have_a_zone(text: str, suggestion: str | None) -> None:
    assert instant(word("2026-01-01T00:00:00.5+01:00")) == "2026-01-01T00:00:00.5+01:00"
    with pytest.raises(Malformed) as wrong:
        instant(word(text))
    assert wrong.value.suggestion == suggestion


@pytest.mark.parametrize(
    ("text", "path"), [("$.a", ("a",)), ("$.meta.at", ("meta", "at")), ('$."a b".c', ("a b", "c")), ('$."say ""hi"""', ('say "hi"',)), ("$.a-b.č", ("a-b", "č"))]
)
def test_paths(text: str, path: tuple[str, ...]) -> None:
    assert json_path(Word(text, 1, 1, text, 1)) == path


@pytest.mark.parametrize(
    ("text", "suggestion"), [("ts", "$.ts"), ("$ts", "$.ts"), ("$", None), ("$.", None), ("$.a[0]", None), ("$..a", None), ("$.a.*", None), ("$.a.", None)]
)
def test_what_is_no_path_is_answered(text: str, suggestion: str | None) -> None:
    with pytest.raises(Malformed) as wrong:
        json_path(word(text))
    assert wrong.value.suggestion == suggestion


def test_an_event_time_may_stand_in_a_header() -> None:
    assert event_time(word("header:at")) == HeaderField("at")
    with pytest.raises(Malformed):
        event_time(word("header:"))


def test_columns_are_named_once() -> None:
    assert columns(word("a,b")) == ("a", "b")
    for text in ("a,,b", "a,", ",a", "a,A"):
        with pytest.raises(Malformed) as wrong:
            columns(word(text))
        assert 0 <= wrong.value.offset < len(text)
    with pytest.raises(Malformed):
        column(word("a,b"))


@pytest.mark.parametrize("text", ["lib/x", "lib/x.sql", "x.py", "./x.sql", "a b.sql".replace(" ", "_")])
def test_script_paths(text: str) -> None:
    assert script_path(word(text)) == text.removeprefix("./")


@pytest.mark.parametrize("text", ["lib", "/x.sql", "../x.sql", "a/../x.sql", "http://x/y.sql", "C:\\x.sql", "x/", "."])
def test_what_is_no_script_path_is_answered(text: str) -> None:
    with pytest.raises(Malformed):
        script_path(word(text))


@pytest.mark.parametrize("text", ["0 6 * * *", "*/5 8-18/2 1,15 * mon-fri", "0 0 29 2 *", "0 0 30 2 1", "59 23 31 12 7", "0  6 *\t* *"])
def test_schedules(text: str) -> None:
    assert cron(Word(text, 1, 1, text, 1)) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("60 6 * * *", "60"), ("0 24 * * *", "24"), ("0 6 0 * *", "0"), ("0 6 * 13 *", "13"), ("0 6 * * 8", "8"), ("0 6 * * mun", "mun"), ("0 6 5-1 * *", "5-1"),
        ("0 6 */0 * *", "0"), ("0 6 30 2 *", "30"), ("a 6 * * *", "a"), ("0 6,x * * *", "x"), ("0 6 * * *-5", "*-5"), ("0 6 ? * *", "?"), ("0 ٣ * * *", "٣"),
    ],
)
def test_a_wrong_field_is_pointed_at(text: str, part: str) -> None:
    with pytest.raises(Malformed) as wrong:
        cron(Word(text, 1, 1, text, 1))
    at = wrong.value.offset
    assert text[at : at + (wrong.value.length or 0)] == part
    assert not at or text[at - 1] in " ,/"


@pytest.mark.parametrize(
    ("text", "suggestion", "code"),
    [("0 0 6 * * *", "0 6 * * *", "seconds-field"), ("30 0 6 * * *", None, "seconds-field"), ("0 6 * *", None, "bad-value"), ("@daily", "0 0 * * *", "bad-value")],
)
def test_five_fields_no_more(text: str, suggestion: str | None, code: str) -> None:
    with pytest.raises(Malformed) as wrong:
        cron(Word(text, 1, 1, text, 1))
    assert (wrong.value.suggestion, wrong.value.code) == (suggestion, code)


@pytest.mark.parametrize("reader", [duration, delay, whole(1), zone, day, instant, json_path, event_time, columns, column, script_path, cron])
@given(st.text(st.sampled_from("0123456789abcdhms:/.,-+$\"'*@ TZé\u0663"), min_size=1, max_size=20))
def test_any_text_is_a_value_or_pointed_at(reader: Callable[[Word], object], text: str) -> None:
    start, end = 0, 1
    try:
        reader(Word(text, 1, 1, text, 1))
    except Malformed as wrong:
        start, end = wrong.offset, wrong.offset + (wrong.length or 1)
    assert 0 <= start < end <= len(text)
