"""What holds for every SQL text."""

import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.domain.assets import ProjectNames
from reactor.domain.bodies import read_body
from reactor.domain.bodies.lexer import Places, statements_of, tokens_of
from reactor.domain.diagnostics import Malformed, Range

NAMES = ProjectNames(lakes=("main", "sales"), stores=("land",))
AT = Range(1, 1, 1, 2)

PIECES = st.sampled_from([
    "SELECT", "FROM", "WITH", "a", "b AS", "(", ")", ",", ";", "*", "batch", "main.t", "sales.x.y", "JOIN", "USING (id)", "'text'", "'it''s; '", "$$;$$", "$t$ ; $t$",
    "-- note\n", "/* c /* d */ ; */", '"q""; "', "{partition}", "'{partition}'", "$WM_PARTITION_END", "1", "CREATE TEMP TABLE x AS", "CREATE MACRO f(a) AS",
    "ATTACH 'ducklake://sales' AS dl", "USE sales", "SET x =", "INSERT INTO t", "read_csv('a.csv')", "UNION ALL", "GROUP BY ALL", "é", "\n", "\t", "{", "}", "[", "]", "@",
    "PIVOT", "ON", "CASE", "END", "::", "->", "'open", '"open', "/* open", "$x$",
])
SQL = st.lists(PIECES, max_size=14).map(" ".join)


@settings(max_examples=400, deadline=None)
@given(SQL, st.booleans())
def test_any_text_can_be_read(text: str, managed: bool) -> None:
    reading = read_body(text, 0, NAMES, managed_at=AT if managed else None)
    lines = text.split("\n")
    for found in reading.findings:
        place = found.range
        if found.range != AT:
            assert 1 <= place.line <= len(lines)
            assert 1 <= place.column <= len(lines[place.line - 1]) + 1
    if managed:
        assert all(part in text for part in (*reading.body.setup, reading.body.select))
        assert reading.body.select or any(found.refuses for found in reading.findings)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_noise_can_be_read(text: str) -> None:
    read_body(text, 0, NAMES, managed_at=AT)


@settings(max_examples=200, deadline=None)
@given(SQL)
def test_tokens_cover_the_text_in_order(text: str) -> None:
    try:
        tokens = list(tokens_of(text, 0))
    except Malformed:
        return
    at = 0
    for token in tokens:
        assert text[at : token.start].strip() == ""
        assert text[token.start : token.end] == token.text
        at = token.end
    assert text[at:].strip() == ""


@settings(max_examples=200, deadline=None)
@given(SQL)
def test_statements_are_split_as_sqlglot_splits_them(text: str) -> None:
    """Two lexers that know nothing of each other find the same statements."""
    plain = text.replace("{partition}", "'_________'").replace("{", " ").replace("}", " ").replace("''_________''", "'___________'")
    try:
        ours = [statement.slice(plain) for statement in statements_of(tokens_of(plain, 0))]
        theirs = sqlglot.tokenize(plain, dialect="duckdb")
    except (Malformed, sqlglot.TokenError):
        return
    groups: list[list[tuple[int, int]]] = [[]]
    for token in theirs:
        if token.text == ";" and plain[token.start : token.end + 1] == ";":
            groups.append([])
        else:
            groups[-1].append((token.start, token.end))
    assert ours == [plain[group[0][0] : group[-1][1] + 1] for group in groups if group]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["ab", "", "é", "\t"]), min_size=1), st.sampled_from(["\n", "\r\n", "\r"]))
def test_places_are_lines_and_columns(lines: list[str], end: str) -> None:
    text = end.join(lines)
    places = Places(text)
    for offset in range(len(text)):
        place = places.range(offset, offset + 1)
        before = end.join(lines)[:offset]
        assert place.line == before.count(end) + 1 or (end == "\r\n" and before.endswith("\r"))
