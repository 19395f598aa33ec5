"""What a verb says. stdout is the result and nothing else; notes, warnings and errors go to stderr."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

LINE_COLUMNS_MAX = 10_000
"""A line of a table is never folded: a terminal does it better, and an id that is cut in two cannot be copied."""

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def envelope(verb: str, data: object, warnings: Collection[str]) -> str:
    """The JSON of a result, one line. `verb`: `runs list` becomes `reactor.cli.runs.list.v1`."""
    schema = f"reactor.cli.{verb.replace(' ', '.')}.v1"
    return json.dumps({"schema": schema, "data": as_json(data), "warnings": list(warnings)}, allow_nan=False)


def as_json(value: object) -> Json:
    """Values of the house as JSON has them: times in RFC 3339 UTC, bytes as hexadecimal, what is no number in JSON as text."""
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(inner) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return _scalar(value)


def _scalar(value: object) -> Json:
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case datetime():
            return rfc3339(value)
        case bytes():
            return value.hex()
        case _:
            return str(value)


def rfc3339(at: datetime) -> str:
    """UTC with milliseconds; a time without a zone is UTC."""
    utc = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seen_at(at: datetime | None) -> str:
    """A time in a table, to the second; empty for none."""
    return rfc3339(at)[:19] + "Z" if at else ""


def printable(text: str) -> str:
    """One line that moves no cursor, whatever was stored."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str, indent: str = "") -> str:
    """Its lines, each printable, all but the first behind an indent: an error may be a traceback."""
    return f"\n{indent}".join(map(printable, text.expandtabs().splitlines()))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[str] = ()) -> Text:
    """A plain table; `right`: the columns of numbers. None is shown as nothing. (A `Table` of a thousand rows takes rich a second.)"""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        blanks = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        return "  ".join(blank + cell if column in right else cell + blank for column, cell, blank in zip(columns, row, blanks, strict=True))

    return Text("\n", no_wrap=True, overflow="ignore").join([Text(line(columns), style="bold"), *([Text("\n".join(map(line, cells)))] if cells else [])])


def facts(pairs: Mapping[str, object]) -> Table:
    """Names and values, one a line; those without a value are left out."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs.items():
        if value is not None and value != "":
            made.add_row(name, Text(printable_lines(str(value))))
    return made


def console(stream: TextIO, *, color: bool, width: int | None = None) -> Console:
    """Text as it is: no markup is looked for in what users wrote. `width` None: the terminal's."""
    return Console(file=stream, width=width, no_color=not color, highlight=False, markup=False, emoji=False, soft_wrap=False)


def write(shown: RenderableType, *, color: bool) -> None:
    """To stdout, without the blanks that fill the last column."""
    out = console(sys.stdout, color=color, width=LINE_COLUMNS_MAX)
    with out.capture() as made:
        out.print(shown)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in made.get().splitlines()))
    sys.stdout.flush()


def say(text: str, *, color: bool, style: str = "") -> None:
    """To stderr."""
    console(sys.stderr, color=color).print(Text(text, style=style), soft_wrap=True)


def counted(n: int, word: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{n} {word}{'' if n == 1 else 's'}"
