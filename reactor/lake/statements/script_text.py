"""A script's SQL for one asset partition: aliases of lakes and placeholders filled in, macros made temporary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import TokenError, TokenType, tokenize

from reactor.domain.partitions import window
from reactor.domain.scripts import Script
from reactor.lake.statements.quoting import identifier
from reactor.lake.statements.windows import fill_in, partition_macro

_MACRO = "wm_partition"


def renamed(sql: str, alias: str, database: str) -> str:
    """SQL in which `alias.` means a database: only where a name begins, and only if the text gives that name to nothing else."""
    try:
        tokens = tokenize(sql, dialect="duckdb")
    except TokenError:
        return sql
    kinds = [None, *(token.token_type for token in tokens), None]
    places = [i for i, token in enumerate(tokens, 1) if token.text.lower() == alias.lower() and kinds[i] in {TokenType.VAR, TokenType.IDENTIFIER}]
    if any(kinds[i + 1] is not TokenType.DOT and kinds[i - 1] is not TokenType.DOT for i in places):
        return sql
    for i in reversed(places):
        if kinds[i - 1] is not TokenType.DOT:
            sql = sql[: tokens[i - 1].start] + identifier(database) + sql[tokens[i - 1].end + 1 :]
    return sql


def temporary(sql: str) -> str:
    """A statement that makes a macro makes it for its session only: a lake's macros are not a script's to write."""
    try:
        tokens = tokenize(sql, dialect="duckdb")
    except TokenError:
        return sql
    words = [token.text.upper() for token in tokens[:4]]
    at = next((i for i, word in enumerate(words) if word in {"MACRO", "FUNCTION"}), None)
    if at is None or words[:at] not in (["CREATE"], ["CREATE", "OR", "REPLACE"]):
        return sql
    return f"{sql[: tokens[at].start]}TEMP {sql[tokens[at].start :]}"


def attaches(sql: str) -> bool:
    """Whether a statement attaches a database, which every session of the instance sees."""
    try:
        tokens = tokenize(sql, dialect="duckdb")
    except TokenError:
        return True
    return bool(tokens) and tokens[0].text.upper() == "ATTACH"


@dataclass(frozen=True)
class ScriptText:
    """The statements of a managed script's body."""

    script: Script

    @cached_property
    def _setup(self) -> tuple[str, ...]:
        return tuple(temporary(self._with_aliases(text)) for text in self.script.body.setup)

    @property
    def macro(self) -> str | None:
        """The statement that makes `wm_partition`, if anything calls it."""
        called = any(_MACRO in text.lower() for text in (*self._setup, self._select))
        return partition_macro(self.script.header.partitioned) if called else None

    @cached_property
    def _select(self) -> str:
        return self._with_aliases(self.script.body.select)

    def _with_aliases(self, sql: str) -> str:
        for alias, lake in self.script.body.aliases:
            sql = renamed(sql, alias, f"lake_{lake}")
        return sql

    def _fill_in(self, sql: str, asset_partition: str) -> str:
        partitioning = self.script.header.partitioned
        start, end = window(partitioning, asset_partition)
        return fill_in(sql, asset_partition if partitioning else None, (start, end) if start and end else None)

    @property
    def attaches(self) -> bool:
        """Whether the setup attaches databases of its own."""
        return any(attaches(text) for text in self._setup)

    def setup(self, asset_partition: str) -> tuple[str, ...]:
        """The statements before the SELECT. Raises RunBlocked for a placeholder that the asset has no value for."""
        return tuple(self._fill_in(text, asset_partition) for text in self._setup)

    def select(self, asset_partition: str) -> str:
        """The SELECT. Raises RunBlocked likewise."""
        return self._fill_in(self._select, asset_partition)

    def same_for(self, asset_partitions: Sequence[str]) -> bool:
        """Whether nothing but the records tells these apart, so that one evaluation serves all."""
        if any("batch" in text.lower() for text in self._setup):
            return False
        first, last = asset_partitions[0], asset_partitions[-1]
        return (self.setup(first), self.select(first)) == (self.setup(last), self.select(last))
