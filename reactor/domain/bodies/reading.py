"""A body as a whole: from text to `Body`, with what it does that its header must allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reactor.domain.assets import PLACEHOLDER, ProjectNames, read_asset
from reactor.domain.bodies.lexer import Places, Statement, Token, statements_of, tokens_of
from reactor.domain.bodies.reads import Query, Shape, Unparsable, read_query, scan_tables
from reactor.domain.bodies.session import Session, address_of, is_lake_address
from reactor.domain.bodies.statements import KNOWN_WORDS, StatementKind, kind_of, named_table, query_of
from reactor.domain.diagnostics import Diagnostic, Malformed, Range, finding
from reactor.domain.scripts import Body
from reactor.domain.spelling import nearest

QUOTED_CHARACTERS: Final = 40
"""How much of a statement a message shows."""
OWN_TABLES: Final = ("batch", "landing")
"""Bare names that are the rows of the slice."""
BOUNDS: Final = ("$WM_PARTITION_START", "$WM_PARTITION_END")
_TOLD: Final = frozenset({"$bounds", "wm_partition", "_op", *OWN_TABLES})
FORM: Final = "a managed body is setup (ATTACH, INSTALL, LOAD, SET, PRAGMA, USE, CREATE TEMP, CREATE MACRO), then one SELECT"


@dataclass(frozen=True, slots=True)
class BodyReading:
    """What a body says. `places`: where it first names `batch`, `landing`, `_op`, `{partition}`, the bounds (`$bounds`) or `wm_partition`, and
    where its SELECT begins (`select`).

    `writes`: canonical URIs of lake tables that it writes. `clear`: what it reads is known, all of it. `shape`: of the SELECT.
    """

    body: Body
    findings: tuple[Diagnostic, ...] = ()
    writes: tuple[str, ...] = ()
    places: Mapping[str, Range] = field(default_factory=dict)
    shape: Shape | None = None
    clear: bool = True


def read_body(
    text: str, start: int, names: ProjectNames, *, managed_at: Range | None, writes: Iterable[str] = (), derives: bool = True,
) -> BodyReading:
    """Read the SQL of a file from offset `start` on.

    `managed_at`: the place of the `materialize` line whose body must be setup and one SELECT, None for a body that may hold anything.
    `writes`: URIs that the script makes anyway. `derives`: reads become edges, so one that is not literal is worth a warning.
    """
    reader = _Reader(text, names, managed=managed_at is not None, derives=derives)
    reader.writes |= dict.fromkeys(writes)
    try:
        tokens = list(tokens_of(text, start))
    except Malformed as wrong:
        reader.refuse(wrong, wrong.code)
        return BodyReading(Body(), tuple(reader.findings), clear=False)
    reader.names_of(tokens)
    for statement in statements_of(tokens):
        reader.statement(statement)
    if managed_at is not None:
        reader.complete(managed_at)
    return reader.reading()


class _Reader:
    """Takes statements in order; the session in force decides what their names mean."""

    def __init__(self, text: str, names: ProjectNames, *, managed: bool, derives: bool) -> None:
        self.text, self.names, self.managed, self.derives = text, names, managed, derives
        self.places, self.session = Places(text), Session(names)
        self.findings: list[Diagnostic] = []
        self.named_at: dict[str, Range] = {}
        self.setup: list[Statement] = []
        self.selects: list[Statement] = []
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.own: set[str] = set()
        self.aliases: list[tuple[str, str]] = []
        self.shape: Shape | None = None
        self.clear = True

    def names_of(self, tokens: Iterable[Token]) -> None:
        """Remember where the body first names what needs a slice."""
        for token in tokens:
            name = token.text.lower().strip('"')
            if token.kind in {"placeholder", "text"} and PLACEHOLDER in token.text:
                at = token.start + token.text.index(PLACEHOLDER)
                self.named_at.setdefault(PLACEHOLDER, self.places.range(at, at + len(PLACEHOLDER)))
            elif token.kind == "parameter" and token.text.upper() in BOUNDS:
                name = "$bounds"
            if name in _TOLD and token.kind not in {"comment", "text"}:
                self.named_at.setdefault(name, self.place(token))

    def place(self, token: Token) -> Range:
        """Where a token stands in the file."""
        return self.places.range(token.start, token.end)

    def refuse(self, wrong: Malformed, code: str) -> None:
        """A mistake with an offset into the file."""
        place = self.places.range(wrong.offset, wrong.offset + (wrong.length or 1))
        self.findings.append(finding(place, "error", code, wrong.message, wrong.suggestion, refuses=True))

    def statement(self, statement: Statement) -> None:
        """The next statement."""
        kind = kind_of(statement)
        if self.managed:
            self._allow(statement, kind)
        try:
            self._enter(statement, kind)
        except Malformed as wrong:
            self.refuse(wrong, "attach")
        if kind == "writing" and (table := self.session.table(parts) if (parts := named_table(statement)) else None):
            self.writes[table.uri] = None
        if kind in {"select", "setup", "temporary", "macro", "writing"}:
            self._read(statement, kind)

    def complete(self, at: Range) -> None:
        """A managed body has a SELECT; where another mistake was told, that one is enough."""
        if self.selects or any(found.refuses for found in self.findings):
            return
        place = self.place(self.setup[-1].first) if self.setup else at
        what = "the body has no SELECT" if self.setup else "the body is empty"
        self.findings.append(finding(place, "error", "no-select", f"{what}: {FORM}", refuses=True))

    def reading(self) -> BodyReading:
        """All of it."""
        reads = tuple(uri for uri in self.reads if uri not in self.writes)
        setup = tuple(statement.slice(self.text) for statement in self.setup) if self.managed else ()
        select = self.selects[0].slice(self.text) if self.managed and self.selects else ""
        body = Body(setup, select, reads, "batch" in self.own, "landing" in self.own, "_op" in self.named_at, tuple(self.aliases))
        return BodyReading(body, tuple(self.findings), tuple(self.writes), self.named_at, self.shape, self.clear)

    def _allow(self, statement: Statement, kind: StatementKind) -> None:
        """Complain of what a managed body must not hold."""
        shown = " ".join(statement.slice(self.text).split())[:QUOTED_CHARACTERS]
        if kind in {"writing", "transaction"}:
            what = "writes" if kind == "writing" else "steers the transaction"
            self._error(statement, "writing-statement", f"this statement {what}, and a managed body must not: `{shown}`; {FORM}")
        elif self.selects and kind == "select":
            self._error(statement, "second-select", f"a second SELECT, `{shown}`: which one is the table? {FORM}")
        elif self.selects:
            self._error(statement, "behind-select", f"a statement behind the SELECT: `{shown}`; {FORM}")
        elif kind == "other":
            close = nearest(statement.first.text, KNOWN_WORDS)
            self._error(statement, "unknown-statement", f"neither setup nor a SELECT: `{shown}`; {FORM}", close)

    def _enter(self, statement: Statement, kind: StatementKind) -> None:
        """Keep the statement, and what it changes for the names behind it."""
        if kind == "select":
            self.selects.append(statement)
            self.named_at.setdefault("select", self.place(statement.first))
        elif kind == "attach":
            alias = self.session.attach(statement)
            self.aliases += [alias] if alias else []
        elif kind == "use":
            self.session.use(statement)
        elif kind == "temporary":
            self.session.temporary |= set(named_table(statement)[-1:])
        if kind in {"setup", "use", "temporary", "macro"} or (kind == "attach" and not is_lake_address(address_of(statement))):
            self.setup.append(statement)

    def _read(self, statement: Statement, kind: StatementKind) -> None:
        at, before = query_of(statement, kind)
        tokens = statement.tokens[at:]
        if not tokens:
            return
        try:
            query = read_query(before + Statement(tokens).filled(self.text))
        except Unparsable as error:
            self._unparsed(tokens, error, len(before))
            return
        for parts in query.tables:
            self._table(parts)
        self._files(query, tokens)
        if kind == "select":
            self.shape = query.shape

    def _unparsed(self, tokens: Sequence[Token], error: Unparsable, before: int) -> None:
        """DuckDB may take it all the same: its rows still come from `batch`, but it makes no edges."""
        self.clear = False
        for parts in scan_tables(tokens):
            if parts in {(name,) for name in OWN_TABLES}:
                self._table(parts)
        start = self.places.offset(tokens[0].start, error.line, error.column - (before if error.line == 1 else 0))
        message = f"this SQL cannot be analysed ({error.reason}): it makes no edges, and `check --online` tells whether DuckDB takes it"
        self.findings.append(finding(self.places.range(start, start + 1), "warning", "unparsable", message))

    def _table(self, parts: tuple[str, ...]) -> None:
        if len(parts) == 1 and parts[0] in OWN_TABLES and parts[0] not in self.session.temporary:
            self.own.add(parts[0])
        elif table := self.session.table(parts):
            self.reads[table.uri] = None

    def _files(self, query: Query, tokens: Sequence[Token]) -> None:
        for path in query.files:
            if uri := file_uri(path, self.names):
                self.reads[uri] = None
        for reader in query.unclear:
            self.clear = False
            if self.derives:
                place = next((self.place(token) for token in tokens if token.identifier == reader), self.place(tokens[0]))
                self.findings.append(finding(place, "warning", "not-literal", f"no edge: what `{reader}` reads is not a literal"))

    def _error(self, statement: Statement, code: str, message: str, suggestion: str | None = None) -> None:
        self.findings.append(finding(self.place(statement.first), "error", code, message, suggestion, refuses=True))


def file_uri(path: str, names: ProjectNames) -> str | None:
    """The canonical URI of a literal path; None for what no store of the project holds."""
    try:
        asset = read_asset(path if "://" in path else f"file://{path}")
    except Malformed:
        return None
    foreign = asset.scheme == "s3" and asset.authority not in {"", *names.stores}
    return None if foreign or asset.scheme not in {"s3", "file"} else asset.uri
