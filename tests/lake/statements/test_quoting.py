"""Whatever a user writes stays one name or one value, wherever it stands."""

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reactor.lake.statements.quoting import identifier, literal, qualified

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(st.sampled_from("'\";\\\0$-/*\n\u202e{}%"), max_size=12)


@given(TEXT)
@example("'; DROP TABLE t; --")
@example("\0")
@example("a\0'b\0")
@example("\u202egnp")
@example("E'\\'")
@example("$$")
def test_a_literal_is_its_text(text: str) -> None:
    assert duckdb.execute(f"SELECT {literal(text)}, 1").fetchall() == [(text, 1)]


@given(TEXT)
@example("O'Brien")
@example("a\0b")
def test_a_literal_holds_within_an_expression(text: str) -> None:
    assert duckdb.execute(f"SELECT {literal(text)} || {literal(text)} = ?", [text + text]).fetchone() == (True,)


@given(TEXT.filter(lambda text: text and "\0" not in text))
@example('a"; DROP TABLE t; --')
@example('"')
@example("\u202egnp")
def test_an_identifier_names_what_it_says(name: str) -> None:
    duckdb.execute(f"CREATE OR REPLACE TEMP TABLE {identifier(name)} ({identifier(name)} INTEGER)")
    made = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND table_name = ?"
    assert duckdb.execute(made, [name]).fetchall() == [(name, name)]
    assert duckdb.execute(f"SELECT {qualified(name, name)} FROM {identifier(name)}").fetchall() == []
    duckdb.execute(f"DROP TABLE {identifier(name)}")


@pytest.mark.parametrize("name", ["", "a\0b", "\0"])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        identifier(name)
