"""What a statement is, by its first words: setup, the SELECT, or something that a managed body must not hold (MT-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from reactor.domain.bodies.lexer import Statement, Token
from reactor.domain.bodies.session import dotted

StatementKind = Literal["select", "setup", "attach", "use", "temporary", "macro", "writing", "transaction", "other"]

QUERY_WORDS: Final = frozenset({"SELECT", "FROM", "VALUES", "PIVOT", "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER", "TABLE", "WITH"})
_SETUP_WORDS: Final = frozenset({"INSTALL", "LOAD", "SET", "RESET", "PRAGMA"})
_WRITING_WORDS: Final = frozenset({
    "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "EXPORT", "IMPORT", "CREATE", "DROP", "ALTER", "COMMENT", "CALL", "VACUUM",
    "CHECKPOINT", "DETACH", "REINDEX", "REPLACE",
})
_WRITING_QUERIES: Final = frozenset({"WITH", "INSERT", "UPDATE", "DELETE", "MERGE"})
"""Writing statements that read as queries do."""
_TRANSACTION_WORDS: Final = frozenset({"BEGIN", "START", "COMMIT", "ROLLBACK", "ABORT", "END", "SAVEPOINT"})
_BEFORE_OBJECT: Final = frozenset({"TABLE", "VIEW", "INTO", "UPDATE", "DELETE", "TRUNCATE", "COPY"})
_BETWEEN: Final = frozenset({"TABLE", "FROM", "IF", "NOT", "EXISTS"})
KNOWN_WORDS: Final = (*sorted(QUERY_WORDS), "ATTACH", "USE", *sorted(_SETUP_WORDS), *sorted(_WRITING_WORDS), *sorted(_TRANSACTION_WORDS))


def kind_of(statement: Statement) -> StatementKind:
    """What the statement is."""
    words = [token.word for token in statement.tokens[:5]]
    first = words[0]
    if first == "FORCE" and len(words) > 1:
        first = words[1]
    if first in {"ATTACH", "USE"}:
        return "attach" if first == "ATTACH" else "use"
    if first == "CREATE":
        return _created(words[1:])
    if first in QUERY_WORDS or _opens_query(statement.tokens):
        verb = _verb(statement.tokens)
        return "select" if verb in QUERY_WORDS else "writing"
    if first in _SETUP_WORDS:
        return "setup"
    if first in _WRITING_WORDS:
        return "writing"
    return "transaction" if first in _TRANSACTION_WORDS else "other"


def _created(words: Sequence[str]) -> StatementKind:
    """What `CREATE …` makes: something of this session, or a thing that stays."""
    rest = [word for word in words if word not in {"OR", "REPLACE"}]
    temporary = bool(rest) and rest[0] in {"TEMP", "TEMPORARY"}
    what = rest[1:] if temporary else rest
    if what and what[0] in {"MACRO", "FUNCTION"}:
        return "macro"
    return "temporary" if temporary else "writing"


def _opens_query(tokens: Sequence[Token]) -> bool:
    """`((SELECT …))`."""
    inner = next((token for token in tokens if token.text != "("), None)
    return tokens[0].text == "(" and inner is not None and inner.word in QUERY_WORDS


def _verb(tokens: Sequence[Token]) -> str:
    """The word that acts: behind a WITH list, what follows it."""
    if tokens[0].word != "WITH":
        return "SELECT"
    verbs = (QUERY_WORDS | _WRITING_WORDS) - {"WITH"}
    return next((token.word for _, token in _outermost(tokens) if token.word in verbs), "SELECT")


def _outermost(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Tokens outside parentheses, with their index."""
    depth = 0
    for at, token in enumerate(tokens):
        if token.kind == "mark":
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            yield at, token


def query_of(statement: Statement, kind: StatementKind) -> tuple[int, str]:
    """Where in a statement a query begins (an index of its tokens, its length if there is none), and what to put before it."""
    tokens = statement.tokens
    first = tokens[0].word
    if kind == "select" or (kind == "writing" and first in _WRITING_QUERIES):
        return 0, ""
    if kind in {"temporary", "macro"} or first == "CREATE":
        at = next((at for at, token in _outermost(tokens) if token.word == "AS"), len(tokens)) + 1
        if kind != "macro":
            return at, ""
        return (at + 1, "") if at < len(tokens) and tokens[at].word == "TABLE" else (at, "SELECT ")
    if first == "SET":
        return next((at + 1 for at, token in enumerate(tokens) if token.text == "="), len(tokens)), "SELECT "
    return len(tokens), ""


def named_table(statement: Statement) -> list[str]:
    """The parts of the table or view that a statement has as its object: what it creates, changes or drops."""
    tokens = statement.tokens
    for at, token in _outermost(tokens):
        if token.word in _BEFORE_OBJECT:
            behind = next((i for i in range(at + 1, len(tokens)) if tokens[i].word not in _BETWEEN), len(tokens))
            return dotted(tokens, behind)
    return []
