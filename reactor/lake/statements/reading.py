"""Which columns of `batch` a script may see: what it cannot name need not be decoded, copied or kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlglot import Token, TokenError, TokenType, tokenize

_BEFORE_A_TABLE = {TokenType.FROM, TokenType.JOIN, TokenType.COMMA}
_BEFORE_A_STAR = {TokenType.SELECT, TokenType.COMMA, TokenType.DOT, TokenType.DISTINCT, TokenType.ALL}
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


def named_columns(texts: Iterable[str], columns: Collection[str]) -> set[str]:
    """Those of the columns of `batch` that the statements may read; all where a star, `COLUMNS` or a whole row may mean any."""
    named: set[str] = set()
    for text in texts:
        try:
            tokens = tokenize(text, dialect="duckdb")
        except TokenError:
            return set(columns)
        if _takes_all(tokens):
            return set(columns)
        said = {token.text.lower() for token in tokens}
        named |= {column for column in columns if column.lower() in said}
    return named


def _takes_all(tokens: Sequence[Token]) -> bool:
    kinds = [None, *(token.token_type for token in tokens), None]
    batch_names = {"batch"}
    for i, token in enumerate(tokens, 1):
        if kinds[i] is TokenType.STAR and kinds[i - 1] in _BEFORE_A_STAR:
            return True
        if kinds[i] is TokenType.FROM and kinds[i - 1] in {None, TokenType.L_PAREN}:
            return True
        if token.text.lower() == "columns" and kinds[i + 1] is TokenType.L_PAREN:
            return True
        if token.text.lower() == "batch" and kinds[i + 1] is not TokenType.DOT:
            alias = i + (kinds[i + 1] is TokenType.ALIAS)
            if kinds[alias + 1] in _NAMES:
                batch_names.add(tokens[alias].text.lower())
    return any(_is_row(tokens, kinds, i, batch_names) for i in range(1, len(tokens) + 1))


def _is_row(tokens: Sequence[Token], kinds: Sequence[TokenType | None], i: int, batch_names: Collection[str]) -> bool:
    """Whether a name of `batch` stands where it is neither a table, nor its alias, nor before a dot: it means the whole row."""
    name = tokens[i - 1].text.lower()
    if name not in batch_names or kinds[i + 1] is TokenType.DOT:
        return False
    if name == "batch":
        return kinds[i - 1] not in _BEFORE_A_TABLE
    before = i - 1 - (kinds[i - 1] is TokenType.ALIAS)
    return before < 1 or tokens[before - 1].text.lower() != "batch"
