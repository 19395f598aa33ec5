"""What holds for every header, whatever stands in it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.annotations import KEYWORDS, HeaderReading, read_header
from reactor.domain.assets import ProjectNames
from reactor.domain.diagnostics import Diagnostic, Range

NAMES = ProjectNames(lakes=("main",), clusters=("eu",), stores=("land",))

PIECES = st.sampled_from([
    *KEYWORDS, "partitoned", "Pipeline", "test", "snapshot", "unique_key", "append", "daily", "dynamic", "any", "all", "manual", "scd2", "history", "unique",
    "accepted_values", "relationships", "id", "a,b", "a,", ",b", "=", "key=", "key=a", "key=$.a", "max=", "max=2s", "tz=UTC", "tz=Mars", "rows=0", "2s", "5min",
    "0", "3", "10", "s", "->", "<-", "id BIGINT,", "v DECIMAL(12,2)", "STRUCT(a INT", "ducklake://main/t", "ducklake://main/t.c", "kafka://orders", "s3://land/x",
    "lib/x.sql", '"', "'", '"a b"', '"0 6 * * *"', "schedule", "webhook", "pinned", "\u00a0", "\u200b", "é", "$", "{partition}", "(", ")", "[", "]", "\\",
])
PREFIXES = st.sampled_from(["-- ", "--", "#", "// ", " --\t"])
WORDS = st.one_of(PIECES, st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=8))
LINES = st.builds(lambda prefix, words, blank: prefix + blank.join(words), PREFIXES, st.lists(WORDS, max_size=6), st.sampled_from([" ", "  ", "\t"]))
HEADERS = st.lists(LINES, max_size=6)


def inside(found: Diagnostic, lines: list[str]) -> bool:
    """Whether it points at characters that are there."""
    place: Range = found.range
    line = lines[place.line - 1]
    return place.line == place.end_line and 1 <= place.column < place.end_column <= len(line) + 1


def facts(reading: HeaderReading) -> object:
    return (reading.header, reading.malformed, reading.findings, [(a.keyword, a.value) for a in reading.annotations])


@settings(max_examples=400, deadline=None)
@given(HEADERS)
def test_a_finding_points_inside_its_line(lines: list[str]) -> None:
    for found in read_header("\n".join(lines), NAMES).findings:
        assert inside(found, lines)
        assert found.suggestion is None or found.suggestion in found.message
        assert not found.refuses or found.severity == "error"


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_has_a_header(text: str) -> None:
    reading = read_header(text, NAMES)
    assert 0 <= reading.body_at <= len(text)


@settings(max_examples=200, deadline=None)
@given(HEADERS)
def test_line_ends_change_nothing(lines: list[str]) -> None:
    plain = facts(read_header("\n".join([*lines, "SELECT 1"]), NAMES))
    for end in ("\r\n", "\r"):
        assert facts(read_header(end.join([*lines, "SELECT 1"]), NAMES)) == plain


@settings(max_examples=200, deadline=None)
@given(HEADERS)
def test_every_line_is_in_force_told_or_prose(lines: list[str]) -> None:
    """Never silent: a line whose first word is a keyword is one or the other."""
    reading = read_header("\n".join(lines), NAMES)
    told = {found.range.line for found in reading.findings}
    held = {annotation.line.number for annotation in reading.annotations}
    for number, line in enumerate(lines, 1):
        words = line.strip(" \t").removeprefix("--").removeprefix("#").removeprefix("//").split()
        if words and words[0] in KEYWORDS:
            assert number in told | held


@settings(max_examples=200, deadline=None)
@given(HEADERS)
def test_a_malformed_line_is_as_if_not_written(lines: list[str]) -> None:
    reading = read_header("\n".join(lines), NAMES)
    wrong = {found.range.line for found in reading.findings if found.severity == "error"}
    without = [line if number not in wrong else "--" for number, line in enumerate(lines, 1)]
    again = read_header("\n".join(without), NAMES)
    assert (again.header, again.malformed) == (reading.header, ())
    assert again.findings == tuple(found for found in reading.findings if found.severity != "error")


@settings(max_examples=100, deadline=None)
@given(HEADERS, HEADERS)
def test_what_stands_below_the_header_is_not_read(lines: list[str], below: list[str]) -> None:
    header = read_header("\n".join([*lines, "SELECT 1"]), NAMES)
    assert facts(read_header("\n".join([*lines, "SELECT 1", *below]), NAMES)) == facts(header)
