"""What a query reads and what it gives, from its tree (sqlglot, DuckDB's dialect); tokens stand in where the tree cannot be built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from reactor.domain.bodies.lexer import Token
from reactor.domain.bodies.session import dotted

FILE_READERS: Final = frozenset({
    "read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "sniff_csv", "read_json", "read_json_auto", "read_json_objects",
    "read_json_objects_auto", "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_text", "read_blob", "read_avro", "read_xlsx",
    "iceberg_scan", "delta_scan", "st_read", "parquet_metadata", "parquet_schema",
})
"""Table functions whose first argument names files."""
_FILE_SUFFIXES: Final = (".parquet", ".csv", ".json", ".jsonl", ".ndjson", ".avro", ".gz", ".zst")
_TOKEN_REPR: Final = re.compile(r"<Token .*?text: (.*?), line: .*?>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the last SELECT gives. `outputs`: names in lower case, None where a star or an expression without a name hides some."""

    outputs: tuple[str, ...] | None
    one_row_a_key: bool
    """It groups, deduplicates or qualifies, so that it may give one row for each key."""
    mixes_rows: str | None
    """What in it makes a row depend on other rows: GROUP BY, an aggregate, DISTINCT, LIMIT or a window; None: nothing."""


@dataclass(frozen=True, slots=True)
class Query:
    """`tables`: names in one to three parts, lower case, without CTEs. `files`: literal paths. `unclear`: readers of files that no literal names."""

    tables: tuple[tuple[str, ...], ...] = ()
    files: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    shape: Shape | None = None


class Unparsable(Exception):
    """sqlglot does not take it: DuckDB may. `line`, `column`: in the text that was given, from 1."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason)
        self.reason, self.line, self.column = reason, line, column


def read_query(sql: str) -> Query:
    """Read one query, which holds no bare placeholder. Raises `Unparsable`."""
    tree = _tree(sql)
    tables: dict[tuple[str, ...], None] = {}
    files: dict[str, None] = {}
    unclear: dict[str, None] = {}
    one_row_a_key = False
    for node in tree.walk():
        if isinstance(node, exp.Group | exp.Qualify | exp.Distinct):
            one_row_a_key = True
        if not isinstance(node, exp.Table):
            continue
        if isinstance(node.this, exp.Func):
            for name, literals in _file_reader(node.this):
                files |= dict.fromkeys(literals or ())
                unclear |= dict.fromkeys([name] if literals is None else ())
        elif _is_path(node):
            files[node.name] = None
        elif not _is_cte(node):
            tables[tuple(part.name.lower() for part in node.parts)] = None
    return Query(tuple(tables), tuple(files), tuple(unclear), _shape(tree, one_row_a_key=one_row_a_key))


def scan_tables(tokens: Iterable[Token]) -> Iterator[tuple[str, ...]]:
    """Names behind FROM and JOIN, and in comma lists behind them; CTEs are not told apart. For what has no tree."""
    code = list(tokens)
    for at, token in enumerate(code):
        if token.word in {"FROM", "JOIN"} or (token.text == "," and at >= 2 and _in_from_list(code, at)):
            parts = dotted(code, at + 1)
            behind = at + 2 * len(parts)
            if parts and (behind >= len(code) or code[behind].text != "("):
                yield tuple(parts)


def _in_from_list(code: list[Token], at: int) -> bool:
    for token in reversed(code[:at]):
        if token.word == "FROM":
            return True
        if (token.kind == "mark" and token.text in "()") or token.word in {"SELECT", "WHERE", "ON", "USING", "BY", "SET"}:
            return False
    return False


def _tree(sql: str) -> exp.Expression:
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except SqlglotError as error:
        raise _unparsable(error) from None
    except RecursionError:
        raise Unparsable("it is nested too deeply", 1, 1) from None
    except Exception:  # noqa: BLE001  (a foreign parser over text it does not know: whatever it raises means that there is no tree)
        raise Unparsable("it is not understood", 1, 1) from None
    if not isinstance(tree, exp.Expression):
        raise Unparsable("it is no query", 1, 1)
    return tree


def _unparsable(error: SqlglotError) -> Unparsable:
    found = next(iter(getattr(error, "errors", None) or [{}]))
    reason = _TOKEN_REPR.sub(r"`\1`", found.get("description") or "it cannot be split into words").rstrip(".")
    column = (found.get("col") or 1) - max(len(found.get("highlight") or "") - 1, 0)
    return Unparsable("a part is missing" if "<class" in reason else reason, found.get("line") or 1, max(column, 1))


def _is_path(table: exp.Table) -> bool:
    """`FROM 's3://…'`: DuckDB reads the file."""
    name = table.name
    return len(table.parts) == 1 and ("/" in name or name.lower().endswith(_FILE_SUFFIXES))


def _is_cte(table: exp.Table) -> bool:
    """Whether a bare name is that of a common table expression in sight."""
    if len(table.parts) != 1:
        return False
    name = table.name.lower()
    inside: object = table
    node = table.parent
    while node is not None:
        with_ = node.args.get("with_") or node.args.get("with")
        if isinstance(with_, exp.With) and inside is not with_:
            if any(cte.alias.lower() == name for cte in with_.expressions):
                return True
        elif isinstance(node, exp.With):
            for cte in node.expressions:
                if cte is inside and not node.args.get("recursive"):
                    break
                if cte.alias.lower() == name:
                    return True
                if cte is inside:
                    break
        inside, node = node, node.parent
    return False


def _file_reader(function: exp.Func) -> Iterator[tuple[str, list[str] | None]]:
    """A table function that reads files: its name, and its literal paths (None: they are not literal)."""
    name = (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()
    if name not in FILE_READERS:
        return
    arguments = function.expressions if isinstance(function, exp.Anonymous) else [function.this, *function.expressions]
    first = [argument for argument in arguments if isinstance(argument, exp.Expression)][:1]
    items = first[0].expressions if first and isinstance(first[0], exp.Array) else first
    literals = [item.name for item in items if isinstance(item, exp.Literal) and item.is_string]
    yield name, literals if literals and len(literals) == len(items) else None


def _shape(tree: exp.Expression, *, one_row_a_key: bool) -> Shape | None:
    while isinstance(tree, exp.Subquery) and not tree.args.get("joins"):
        tree = tree.this
    return Shape(_outputs(tree), one_row_a_key, _mixing(tree)) if isinstance(tree, exp.Select) else None


def _outputs(select: exp.Select) -> tuple[str, ...] | None:
    names: list[str] = []
    for expression in select.expressions:
        if expression.is_star or not isinstance(expression, exp.Alias | exp.Column):
            return None
        names.append(expression.alias_or_name.lower())
    return tuple(names)


def _mixing(select: exp.Select) -> str | None:
    for argument, said in (("group", "GROUP BY"), ("distinct", "DISTINCT"), ("limit", "LIMIT")):
        if select.args.get(argument):
            return said
    for expression in select.expressions:
        for node in expression.find_all(exp.Window, exp.AggFunc):
            if node.find_ancestor(exp.Subquery) is None:
                return "a window" if isinstance(node, exp.Window) else "an aggregate"
    return None
