import pytest

from reactor.domain.annotations.scan import HeaderLine, Word, header_lines, words


def told(text: str) -> list[tuple[int, int, str]]:
    return [(line.number, line.column, line.text) for line in header_lines(text)[0]]


def test_the_header_ends_at_the_first_other_line() -> None:
    text = "-- a\n\n# b\n//c\nSELECT 1 -- d\n-- e"
    lines, body_at = header_lines(text)
    assert [line.text for line in lines] == ["a", "b", "c"]
    assert text[body_at:].startswith("SELECT 1")


@pytest.mark.parametrize("body", ["/* a */", '"""a"""', "x", "\ufeffx", "-"])
def test_only_three_prefixes_make_a_header(body: str) -> None:
    assert told(f"-- a\n{body}\n-- b") == [(1, 4, "a")]


def test_line_ends_indents_and_tabs() -> None:
    assert told("-- a\r\n\t--\tb \r  //c\n\n#d\t") == [(1, 4, "a"), (2, 5, "b"), (3, 5, "c"), (5, 2, "d")]


def test_a_file_may_be_all_header_or_nothing() -> None:
    assert header_lines("")[1] == 0
    assert header_lines("-- a")[1] == 4
    assert told("#!/bin/sh\n# a") == [(1, 2, "!/bin/sh"), (2, 3, "a")]


def read(text: str) -> list[Word]:
    return list(words(HeaderLine(1, text, 4)))


@pytest.mark.parametrize(
    ("text", "name", "value", "column", "items"),
    [
        ("a,b", None, "a,b", 4, ["a", "b"]),
        ("key=a,b", "key", "a,b", 8, ["a", "b"]),
        ('key="order id",b', "key", '"order id",b', 8, ["order id", "b"]),
        ('track="a, b"', "track", "a, b", 11, ["a", "b"]),
        ("tz='Europe/Berlin'", "tz", "Europe/Berlin", 8, ["Europe/Berlin"]),
        ('format="say ""hi"""', "format", 'say "hi"', 12, ['say "hi"']),
        ("s3://land/dt={partition}/x", None, "s3://land/dt={partition}/x", 4, ["s3://land/dt={partition}/x"]),
        ("key=", "key", "", 8, [""]),
        ("key=a,,b,", "key", "a,,b,", 8, ["a", "", "b", ""]),
    ],
)
def test_words_options_and_lists(text: str, name: str | None, value: str, column: int, items: list[str]) -> None:
    [word] = read(text)
    assert (word.name, word.text, word.text_column, word.flaw) == (name, value, column, "")
    assert [item.text for item in word.items()] == items


def test_a_list_in_quotes_can_be_one_value() -> None:
    [word] = read("'a,b',c")
    assert [item.text for item in word.items(whole=True)] == ["a,b", "c"]
    [word] = read("'a,b'")
    assert [item.text for item in word.items(whole=True)] == ["a,b"]


@pytest.mark.parametrize("text", ['format="%Y %m', '"a', "key=a,'b c"])
def test_an_open_quote_takes_the_rest(text: str) -> None:
    *_, word = read(f"{text} d")
    assert word.flaw == "the quote is not closed"
    assert word.raw.endswith(" d")


def test_text_behind_a_quote_is_a_flaw() -> None:
    assert [word.flaw for word in read('a="b"c d')] == ["a quoted value ends with its quote", ""]


def test_items_know_their_columns() -> None:
    text = 'key="order id",b'
    [word] = read(text)
    assert [text[item.column - 4 :][: len(item.raw)] for item in word.items()] == ['"order id"', "b"]
