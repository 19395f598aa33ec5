"""Which rows of a SELECT come from which record: the SELECT with its records' numbers carried along, if it is plain enough.

A SELECT is *plain* if each of its rows is made from one row of `batch` and from nothing else of `batch`: a projection with at most a WHERE,
over `batch`, a plain subquery or a plain CTE. Then two hidden columns may be added to it without a change of its rows. It buys three things:
all slices of an append are evaluated at once, `latest=` knows the later of two equal records, and a value that does not fit the table sets
one record aside instead of failing the run. Whatever is not plain, or not understood, is left as it is written.

Only tokens are looked at and only names are put in, so the rest of the text stays what its author wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from sqlglot import Token, TokenError, TokenType, tokenize

from reactor.lake.statements.quoting import identifier

BATCH = "_wm_batch"
"""The records of a run, decoded, with the hidden columns behind the others."""

SELECTS_KEPT_MAX = 256
"""Texts whose answer is remembered: each run asks twice, and the next run asks the same."""

_AGGREGATE_NAMES = """
    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null
    arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or bit_xor bitstring_agg bool_and bool_or corr count count_if count_star countif
    covar_pop covar_samp entropy favg first fsum group_concat histogram histogram_exact kahan_sum kurtosis kurtosis_pop last list listagg mad max
    max_by mean median min min_by mode product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile sem skewness stddev stddev_pop stddev_samp string_agg sum sum_no_overflow sumkahan
    var_pop var_samp variance
"""
AGGREGATES = frozenset(_AGGREGATE_NAMES.split())
"""One of these makes one row of many."""

_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
_ENDS_PLAINNESS = {
    TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.WINDOW, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH, TokenType.UNION,
    TokenType.EXCEPT, TokenType.INTERSECT, TokenType.USING, TokenType.TABLE_SAMPLE, TokenType.JOIN, TokenType.SEMICOLON,
}  # fmt: skip


class _NotPlainError(Exception):
    """The text is not of the plain kind."""


@dataclass
class _Reader:
    """A text with its tokens, and the insertions found so far: (place in the text, characters to drop there, text)."""

    tokens: list[Token]
    hidden: str
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    carriers: set[str] = field(default_factory=set)

    def kind(self, at: int, end: int) -> TokenType | None:
        return self.tokens[at].token_type if at < end else None

    def name(self, at: int, end: int) -> str | None:
        return self.tokens[at].text.lower() if self.kind(at, end) in _NAMES else None

    def closing(self, at: int, end: int) -> int:
        """The token that closes the parenthesis at `at`."""
        depth = 0
        for place in range(at, end):
            kind = self.tokens[place].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if not depth:
                return place
        raise _NotPlainError

    def top_level(self, at: int, end: int) -> list[int]:
        """The tokens of a range that stand in no bracket of it."""
        places, depth = [], 0
        for place in range(at, end):
            kind = self.tokens[place].token_type
            depth -= kind in {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
            if not depth:
                places.append(place)
            depth += kind in {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
        return places

    def uses(self, name: str) -> int:
        """How often a name stands alone: as a table, not before or behind a dot."""
        dots = [token.token_type is TokenType.DOT for token in self.tokens]
        alone = (i for i in range(len(self.tokens)) if self.name(i, len(self.tokens)) == name)
        return sum(not (dots[i - 1] if i else False) and not (dots[i + 1] if i + 1 < len(dots) else False) for i in alone)

    def query(self, at: int, end: int) -> None:
        """`[WITH name AS (plain)[, …]] SELECT …`"""
        if self.kind(at, end) is TokenType.WITH:
            at = self._ctes(at + 1, end)
        self._select(at, end)

    def _ctes(self, at: int, end: int) -> int:
        while True:
            name = self.name(at, end)
            if name is None or self.kind(at + 1, end) is not TokenType.ALIAS or self.kind(at + 2, end) is not TokenType.L_PAREN:
                raise _NotPlainError
            close = self.closing(at + 2, end)
            if self._reads_batch(at + 3, close):
                self.query(at + 3, close)
                if self.uses(name) != 2:
                    raise _NotPlainError
                self.carriers.add(name)
            if self.kind(close + 1, end) is not TokenType.COMMA:
                return close + 1
            at = close + 2

    def _reads_batch(self, at: int, end: int) -> bool:
        return any(self.name(i, end) in {"batch", *self.carriers} and self.kind(i + 1, end) is not TokenType.DOT for i in range(at, end))

    def _select(self, at: int, end: int) -> None:
        top = self.top_level(at, end)
        source = next((i for i in top if self.tokens[i].token_type is TokenType.FROM), end)
        alias = self._source(source + 1, end)
        if source == at and not any(self.tokens[i].token_type is TokenType.SELECT for i in top):
            return  # `FROM batch` takes all columns
        if self.kind(at, end) is not TokenType.SELECT or self.tokens[source - 1].token_type is TokenType.COMMA:
            raise _NotPlainError
        if not self._star(at + 1, source, alias):
            self.edits.append((self.tokens[source].start, 0, f", {self.hidden} "))

    def _source(self, at: int, end: int) -> str | None:
        """Reads the source and what follows it; the name by which the source is called."""
        name, behind = self.name(at, end), at + 1
        if self.kind(at, end) is TokenType.L_PAREN:
            behind = self.closing(at, end)
            self.query(at + 1, behind)
            behind += 1
        elif name not in {"batch", *self.carriers}:
            raise _NotPlainError
        explicit = self.kind(behind, end) is TokenType.ALIAS
        alias = self.name(behind + explicit, end)
        if name == "batch":
            token = self.tokens[at]
            self.edits.append((token.start, token.end + 1 - token.start, f'"{BATCH}"' + ("" if alias else " AS batch")))
        behind += explicit + (alias is not None)
        if self.kind(behind, end) not in {None, TokenType.WHERE, TokenType.ORDER_BY}:
            raise _NotPlainError
        if any(self.tokens[i].token_type in _ENDS_PLAINNESS for i in self.top_level(behind, end)):
            raise _NotPlainError
        return alias or name

    def _star(self, at: int, end: int, source: str | None) -> bool:
        """Whether the projection takes all columns of its source, the hidden ones too. Raises for what makes one row of many."""
        for i in range(at, end):
            kind, following = self.tokens[i].token_type, self.kind(i + 1, end)
            called = self.tokens[i].text.lower() if following is TokenType.L_PAREN else ""
            if kind in {TokenType.OVER, TokenType.DISTINCT} or called in AGGREGATES or called == "columns":
                raise _NotPlainError
        starts = {TokenType.SELECT, TokenType.COMMA}
        stars = 0
        for i in self.top_level(at, end):
            if self.tokens[i].token_type is TokenType.STAR:
                before = self.tokens[i - 1].token_type
                qualified = before is TokenType.DOT and self.tokens[i - 3].token_type in starts and self.name(i - 2, end) == source
                stars += before in starts or qualified
        if stars > 1:
            raise _NotPlainError
        return stars == 1


@lru_cache(maxsize=SELECTS_KEPT_MAX)
def carrying(select: str, hidden: tuple[str, ...]) -> str | None:
    """The SELECT over the table `_wm_batch`, with that table's `hidden` columns among its own; None if it is not plain."""
    try:
        reader = _Reader(tokenize(select, dialect="duckdb"), ", ".join(identifier(name) for name in hidden))
        if reader.uses("batch") != 1:
            return None
        reader.query(0, len(reader.tokens))
    except (_NotPlainError, TokenError):
        return None
    text = select
    for place, dropped, put in sorted(reader.edits, reverse=True):
        text = text[:place] + put + text[place + dropped :]
    return text


@lru_cache(maxsize=SELECTS_KEPT_MAX)
def only_names(select: str, columns: frozenset[str]) -> bool:
    """Whether the SELECT does nothing but name some of these columns (in lower case) of `batch`: it cannot fail, and gives the same again."""
    try:
        tokens = tokenize(select, dialect="duckdb")
    except TokenError:
        return False
    kinds = [token.token_type for token in tokens]
    if kinds[:1] != [TokenType.SELECT] or kinds[-2:-1] != [TokenType.FROM] or not _is_name(tokens[-1:], frozenset({"batch"})):
        return False
    return all(_is_name(item, columns) for item in _items(tokens[1:-2]))


def _items(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    commas = [i for i, token in enumerate(tokens) if token.token_type is TokenType.COMMA]
    return (tokens[lo + 1 : hi] for lo, hi in pairwise([-1, *commas, len(tokens)]))


def _is_name(item: Sequence[Token], names: frozenset[str]) -> bool:
    """One of the names, or that with `AS name`."""
    kinds = [token.token_type for token in item]
    spelt = _NAMES.issuperset(kinds[::2])
    return spelt and kinds[1::2] in ([], [TokenType.ALIAS]) and len(kinds) in {1, 3} and item[0].text.lower() in names
