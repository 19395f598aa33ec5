"""Names and values as SQL text: the only two ways by which anything of a user's gets into a generated statement."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A quoted name. Raises ValueError for what no name can be: empty, or holding NUL (DuckDB's parser would cut it there)."""
    if not name or "\0" in name:
        raise ValueError(f"not a name: {name!r}")
    return '"' + name.replace('"', '""') + '"'


def qualified(*names: str) -> str:
    """Quoted names joined by dots: database, schema, table, column."""
    return ".".join(identifier(name) for name in names)


def literal(text: str) -> str:
    """A string literal, whole wherever it stands. NUL cannot stand in SQL text, so text that holds one becomes an expression."""
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in text.split("\0")]
    return pieces[0] if len(pieces) == 1 else "(" + " || chr(0) || ".join(pieces) + ")"
