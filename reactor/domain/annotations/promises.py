"""What a script says of its table: `data_test` (rows that must not be), `column` (where a column comes from)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, Literal

from reactor.domain.annotations.inputs import resolve_asset
from reactor.domain.annotations.keyword import Keyword
from reactor.domain.annotations.line import Line, Stop
from reactor.domain.annotations.scan import Word
from reactor.domain.annotations.types import unquoted
from reactor.domain.annotations.values import listed, script_path
from reactor.domain.assets import TABLE_SCHEMES, ProjectNames, read_asset
from reactor.domain.diagnostics import Malformed
from reactor.domain.scripts import ColumnLineage, DataTest, Header
from reactor.domain.spelling import nearest

BUILT_IN: Final = ("unique", "not_null", "accepted_values", "relationships")
_ARROW = re.compile(r"""[ \t]*(?P<left>"(?:[^"]|"")+"|[^ \t"<>=:→←-]+)?[ \t]*(?P<arrow><-|->|<=|=>|→|←|=|:)?[ \t]*(?P<right>.*)""")


class DataTestKeyword(Keyword[DataTest]):
    """`data_test …`: what must hold of the table before it is published: one of four forms, or the path of a script that selects bad rows.

    -- data_test unique order_id
    -- data_test not_null order_id severity=warn
    -- data_test accepted_values state = open,paid,gone
    -- data_test relationships customer_id -> ducklake://main/customers.customer_id
    """

    word, form, many = "data_test", "data_test unique|not_null|accepted_values|relationships …, or data_test <script path>", True

    def parse(self, line: Line) -> DataTest:
        """The head decides what follows."""
        head = line.take("a test", _as_it_is, "")
        level: Literal["error", "warn"] | None = line.choice("severity", "error", "warn")
        severity = level or "error"
        match head:
            case "unique" | "not_null":
                return DataTest(head, self._one_column(line, head), severity)
            case "accepted_values":
                return DataTest(head, self._accepted(line), severity)
            case "relationships":
                return DataTest(head, self._related(line), severity)
            case _:
                return DataTest(head, self._custom(line, head), severity)

    def resolve(self, value: DataTest, names: ProjectNames, line: Line) -> DataTest:
        """A related table must be in a lake that is configured."""
        if value.name == "relationships":
            resolve_asset(read_asset(value.arguments[1]), names, line, "source 0", refuses=False)
        return value

    def identity(self, value: DataTest) -> tuple[str, tuple[str, ...]]:
        """The same test twice, whatever its severity."""
        return (value.name, value.arguments)

    def compile(self, header: Header, value: DataTest) -> Header:
        """One more test."""
        return replace(header, data_tests=(*header.data_tests, value))

    def _one_column(self, line: Line, head: str) -> tuple[str, ...]:
        name = line.take("a column", _as_it_is, "")
        line.close()
        if "," in name:
            line.error(line.place("a column"), f"`{head}` tests one column: a line for each", code="malformed")
        return (name,)

    def _accepted(self, line: Line) -> tuple[str, ...]:
        """`c = a,b`; blanks around the `=` may be left out."""
        text = line.left_text()
        found = _ARROW.match(text)
        name, arrow, values = (found["left"], found["arrow"], found["right"].rstrip()) if found else (None, None, "")
        if not name or not found:
            line.error(line.place("a test"), "`accepted_values` needs a column and a list", "accepted_values column = a,b", code="missing")
            return ()
        if arrow != "=" or not values:
            close = f"accepted_values {name} = {values or 'a,b'}"
            at = line.at(found.start("arrow"), len(arrow)) if arrow else line.at(found.start("left"), len(name))
            what = "the list is empty" if arrow == "=" else "an `=` is missing before the list"
            line.error(at, what, close, code="missing")
            return ()
        raw, *stray = _blank_separated(values)
        if stray:
            joined = "".join(_blank_separated(values)) if raw.endswith(",") or stray[0].startswith(",") else None
            place = line.at(text.index(stray[0], found.start("right") + len(raw)), len(stray[0]))
            line.error(place, "a blank inside the list: quote a value that holds one", joined, code="stray-word")
            return ()
        column = line.rest_column + found.start("right")
        none: tuple[str, ...] = ()
        return (unquoted(name), *line.read(Word(raw, line.number, column, raw, column), lambda word: tuple(listed(word)), none))

    def _related(self, line: Line) -> tuple[str, ...]:
        """`c -> uri.col`."""
        found = _ARROW.match(line.left_text())
        if not found or not found["left"] or found["arrow"] != "->" or not found["right"].strip():
            raw = (found["left"], found["right"].strip()) if found else ("", "")
            close = f"relationships {raw[0] or 'column'} -> {raw[1] or 'ducklake://lake/table.column'}"
            at = line.at(found.start("arrow"), len(found["arrow"])) if found and found["arrow"] else line.place("a test")
            line.error(at, "`relationships` needs a column, `->` and the column that it refers to", close, code="missing")
            return ()
        references = _references(line, found.start("right"), found["right"], TABLE_SCHEMES)
        if len(references) > 1:
            line.error(line.at(found.start("right"), len(found["right"].rstrip())), "one reference, not a list")
        return (unquoted(found["left"]), *references[0]) if references else ()

    def _custom(self, line: Line, head: str) -> tuple[str, ...]:
        """A script of one's own, with arguments `name=value`."""
        close = nearest(head, BUILT_IN)
        place = line.place("a test")
        if close or line.peek() is not None or not ("/" in head or "." in head):
            known = ", ".join(f"`{name}`" for name in BUILT_IN)
            line.error(place, f"no test is named `{head}`: {known}, or the path of a script", close, code="unknown-test")
            raise Stop
        line.read(Word(head, place.line, place.column, head, place.column), script_path, "")
        arguments = tuple(f"{word.name}={word.text}" for word in line.rest_options())
        line.close()
        return arguments


def _as_it_is(word: Word) -> str:
    return word.text


def _blank_separated(text: str) -> list[str]:
    return re.findall(r"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[^ \t"']|["'])+""", text)


def _references(line: Line, offset: int, text: str, schemes: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Each `uri.column` of a comma-separated list; a bad one is reported and makes the list worthless (AN-21)."""
    found: list[tuple[str, str]] = []
    for item in re.finditer(r"[ \t]*(?P<raw>[^,]*?)[ \t]*(?P<end>,|\Z)", text):
        raw, at = item["raw"], offset + item.start("raw")
        if raw:
            word = Word(raw, line.number, line.rest_column + at, raw, line.rest_column + at)
            line.remember(f"source {len(found)}", word.range)
            found += line.read(word, lambda w: [_reference(w.text, schemes)], [])
        else:
            line.error(line.at(max(at - 1, 0), 1), "a source is missing beside the comma", code="missing")
        if not item["end"]:
            break
    return found


def _reference(text: str, schemes: tuple[str, ...]) -> tuple[str, str]:
    """The column is what stands behind the last dot."""
    uri, dot, name = text.rpartition(".")
    if text.split() != [text]:
        raise Malformed("between two sources stands a comma", ", ".join(text.split()))
    if "://" not in text:
        close = f"ducklake://{text.replace('.', '/', 1) if text.count('.') > 1 else f'lake/{text}'}" if "." in text else None
        raise Malformed(f"`{text}` is no `uri.column`", close)
    if not dot or "/" in name or not name:
        raise Malformed(f"`{text}` names no column: `uri.column`", f"{text}.column")
    asset = read_asset(uri)
    if schemes and asset.scheme not in schemes:
        raise Malformed(f"`{uri}` is no table")
    return asset.uri, unquoted(name)


class ColumnKeyword(Keyword[ColumnLineage]):
    """`column <out> <- <uri>.<column>[, …]`: where a column comes from, said by hand where it cannot be seen in the SQL.

    -- column total <- ducklake://main/orders.amount
    """

    word, form, many = "column", "column <out> <- <uri>.<column>[, …]", True

    def parse(self, line: Line) -> ColumnLineage:
        """One bad reference drops the line: half a declaration is none."""
        found = _ARROW.match(line.rest)
        left, arrow, right = (found["left"], found["arrow"], found["right"]) if found else (None, None, "")
        if not found or not left:
            line.error(line.keyword_range, f"`column` needs a column: `{self.form}`", code="missing")
        elif arrow != "<-":
            at = line.at(found.start("arrow"), len(arrow)) if arrow else line.at(found.start("left"), len(left))
            line.error(at, "between the column and its sources stands `<-`", f"column {left} <- {right}".rstrip(), code="missing")
        elif not right.strip():
            line.error(line.at(found.start("arrow"), 2), "`column` needs at least one source", code="missing")
        else:
            references = tuple(_references(line, found.start("right"), right))
            return ColumnLineage(unquoted(left), references)
        return ColumnLineage("", ())

    def resolve(self, value: ColumnLineage, names: ProjectNames, line: Line) -> ColumnLineage:
        """Sources with their cluster; an unknown lake is a bad reference."""
        assets = [resolve_asset(read_asset(uri), names, line, f"source {at}", refuses=False) for at, (uri, _) in enumerate(value.sources)]
        return replace(value, sources=tuple((asset.uri, name) for asset, (_, name) in zip(assets, value.sources, strict=True)))

    def identity(self, value: ColumnLineage) -> str:
        """One declaration a column."""
        return value.column.lower()

    def compile(self, header: Header, value: ColumnLineage) -> Header:
        """One more declared column."""
        return replace(header, columns=(*header.columns, value))
