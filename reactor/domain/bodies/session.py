"""Which table a name in SQL means, while the statements of a body change what names mean (authoring, *What the body sees*).

The default lake is the session's database. `main.orders` is its table; `sales.orders` is one of the lake `sales` if there is such a lake or
such an alias, else of the schema `sales` of the default lake; a lake is always reached as `lake_<name>` too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from reactor.domain.assets import LAKES_RESERVED, LakeTable, ProjectNames
from reactor.domain.bodies.lexer import Statement, Token
from reactor.domain.diagnostics import Malformed
from reactor.domain.spelling import nearest

CATALOG_PREFIX: Final = "lake_"
LAKE_SCHEME: Final = "ducklake://"
_NO_LAKE: Final = LAKES_RESERVED | {"information_schema", "pg_catalog"}


@dataclass(slots=True)
class Session:
    """Names in force. `temporary`: tables and views of this session; `foreign`: databases that are no lakes; `lake` None: none by default."""

    names: ProjectNames
    lake: str | None = None
    schema: str = "main"
    aliases: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    temporary: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """A session begins in the default lake."""
        self.lake = self.names.default_lake

    def lake_of(self, name: str) -> str | None:
        """The lake that a database name means."""
        if name in self.aliases:
            return self.aliases[name]
        bare = name.removeprefix(CATALOG_PREFIX)
        if bare in self.names.lakes and (bare != name or bare != "main"):
            return bare
        return None

    def table(self, parts: Sequence[str]) -> LakeTable | None:
        """The lake table of a name in one to three parts (lower case); None if it is temporary, foreign or DuckDB's own."""
        *qualifiers, table = parts
        if not qualifiers:
            if table in self.temporary or self.lake is None:
                return None
            return LakeTable(self.lake, self.schema, table)
        if qualifiers[0] in self.foreign or qualifiers[0] in _NO_LAKE or len(qualifiers) > 2:
            return None
        lake = self.lake_of(qualifiers[0])
        if len(qualifiers) == 2:
            lake = lake or ("main" if qualifiers[0] == "main" in self.names.lakes else None)
            return LakeTable(lake, qualifiers[1], table) if lake else None
        if lake is not None:
            return LakeTable(lake, "main", table)
        return LakeTable(self.lake, qualifiers[0], table) if self.lake else None

    def use(self, statement: Statement) -> None:
        """`USE database[.schema]`."""
        parts = dotted(statement.tokens, 1)
        if not parts:
            return
        lake = self.lake_of(parts[0])
        if lake is None and len(parts) == 1 and parts[0] not in self.foreign | _NO_LAKE:
            self.schema = parts[0]
            return
        self.lake, self.schema = lake, parts[1] if len(parts) > 1 else "main"

    def attach(self, statement: Statement) -> tuple[str, str] | None:
        """`ATTACH …`: the (alias, lake) that `ATTACH 'ducklake://lake' AS alias` declares; None for any other database, or nothing new.

        Raises `Malformed`, with the offset of the statement, for a name that is a lake's and for a lake that is not configured.
        """
        target = _address(statement)
        if target is None:
            return None
        address = target.literal or ""
        named = _behind(statement.tokens, "AS")
        first = statement.first
        lake = self._lake_of_address(address, first)
        alias = named.identifier if named and named.identifier else lake or address.rsplit("/", 1)[-1].split(".", 1)[0].lower()
        if self.lake_of(alias) == lake is not None or (lake == self.names.default_lake and alias == "main"):
            return None
        if alias in LAKES_RESERVED or alias == "main" or alias in self.names.lakes or self.lake_of(alias) is not None:
            whose = "DuckDB keeps that name for itself" if alias in LAKES_RESERVED else "that is the name of a lake"
            raise Malformed(f"`ATTACH` under the name `{alias}`: {whose}; take another", offset=first.start, length=len(first.text))
        if lake is None:
            self.foreign.add(alias)
            return None
        self.aliases[alias] = lake
        return alias, lake

    def _lake_of_address(self, address: str, first: Token) -> str | None:
        """Windmill's addresses: `ducklake://lake`, and `ducklake` for the default one."""
        if not is_lake_address(address):
            return None
        if address == "ducklake":
            return self.names.default_lake
        lake = address.removeprefix(LAKE_SCHEME).strip("/").lower()
        if lake not in self.names.lakes:
            there_are = ", ".join(f"`{name}`" for name in self.names.lakes)
            close = nearest(lake, self.names.lakes)
            message = f"`ATTACH` of a lake `{lake}` that is not configured; there is {there_are}"
            raise Malformed(message, close and LAKE_SCHEME + close, offset=first.start, length=len(first.text), code="unknown-name")
        return lake


def is_lake_address(address: str) -> bool:
    """Whether an ATTACH of it only names a lake (Windmill's way)."""
    return address == "ducklake" or address.startswith(LAKE_SCHEME)


def address_of(statement: Statement) -> str:
    """What an ATTACH statement attaches."""
    token = _address(statement)
    return (token.literal or "") if token else ""


def _address(statement: Statement) -> Token | None:
    return next((token for token in statement.tokens if token.kind == "text"), None)


def dotted(tokens: Sequence[Token], at: int) -> list[str]:
    """The parts of the dotted name that begins at a token."""
    parts: list[str] = []
    while at < len(tokens) and (name := tokens[at].identifier) is not None:
        parts.append(name)
        if at + 1 >= len(tokens) or tokens[at + 1].text != ".":
            break
        at += 2
    return parts


def _behind(tokens: Sequence[Token], word: str) -> Token | None:
    """The token behind a bare word."""
    return next((after for token, after in pairwise(tokens) if token.word == word), None)
