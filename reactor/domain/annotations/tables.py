"""What a script makes: `materialize`, `incremental`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from reactor.domain.annotations.inputs import resolve_asset
from reactor.domain.annotations.keyword import Keyword
from reactor.domain.annotations.line import Line
from reactor.domain.annotations.scan import Word
from reactor.domain.annotations.values import asset, column, columns, duration
from reactor.domain.assets import Asset, ProjectNames, read_asset
from reactor.domain.diagnostics import Malformed
from reactor.domain.runs import Strategy
from reactor.domain.scripts import Header, Incremental, Materialize, OnSchemaChange
from reactor.domain.spelling import nearest

BOTH_WAYS_OUT: Final = (
    "Reactor itself writes only `ducklake://lake/table`, from SQL: let the program land objects that a second script loads, or write the table"
    " yourself and say `materialize manual`"
)
RESERVED_TABLE_PREFIX: Final = "_reactor_"
_MARKERS: Final = ("manual", "scd2")
_STRATEGY_OPTIONS: Final = ("append", "history", "key", "latest", "track", "deletes", "on_schema_change")


class MaterializeKeyword(Keyword[Materialize]):
    """`materialize ducklake://lake/table …`: the table that the SELECT becomes, and how. History before append before key before replace.

    Nothing more: the table, or the slice of it that fired, is replaced. `append`: rows are added. `key=a,b`: rows of a key are merged; `latest=c` keeps
    the newest of several; a boolean output column `_deleted` deletes. `history` (or `scd2` before the table): a history with validity; `track=`
    names the columns whose change counts, `deletes=close` ends what is no more. `manual`: the script writes the table itself.
    `on_schema_change=` says what a SELECT with other columns does: warn (the table keeps its own, and the run says what differs), ignore, fail, sync
    (the table follows). An unpartitioned table that is replaced always follows.

        -- materialize ducklake://main/orders append
        -- materialize ducklake://main/customers key=customer_id latest=updated_at
    """

    word = "materialize"
    form = "materialize [manual|scd2] ducklake://lake/table [append] [key=a[,b] [latest=c]] [history] [track=a,b] [deletes=close] [on_schema_change=]"
    refuses = True

    def parse(self, line: Line) -> Materialize:
        """The table and how rows get into it."""
        marker = self._marker(line)
        target = line.take("a table", asset, None)
        append, history = line.flag("append"), line.flag("history") or marker == "scd2"
        key, latest = line.option("key", columns) or (), line.option("latest", column)
        track, deletes = line.option("track", columns) or (), line.choice("deletes", "close")
        change: OnSchemaChange | None = line.choice("on_schema_change", "warn", "ignore", "fail", "sync")
        self._old_options(line)
        line.close()
        manual = marker == "manual"
        if target is not None:
            self._target(line, target, manual=manual)
        strategy: Strategy = "manual" if manual else "scd2" if history else "append" if append else "merge" if key else "replace"
        if not line.malformed:
            self._fits(line, strategy, marker)
        return Materialize(target.uri if target else "", strategy, key, latest, track, deletes is not None, change or "warn")

    def resolve(self, value: Materialize, names: ProjectNames, line: Line) -> Materialize:
        """Refuse an unknown lake or store."""
        resolve_asset(read_asset(value.asset), names, line, "a table")
        return value

    def compile(self, header: Header, value: Materialize) -> Header:
        """The target of this script."""
        return replace(header, materialize=value)

    def _marker(self, line: Line) -> str:
        """`manual` or `scd2`, if a word stands before the table."""
        first, second = line.peek(), line.peek(1)
        if first is None or "://" in first.raw:
            return ""
        if first.raw not in _MARKERS and (second is None or "://" not in second.raw):
            return ""
        return line.take("a marker", _read_marker, "")

    def _old_options(self, line: Line) -> None:
        """Options of former versions (AN-24)."""
        for word in line.rest_options("unique_key", "wrap"):
            today = f"key={word.text}" if word.name == "unique_key" else None
            hint = "" if today else ": the SELECT is the table, leave it out"
            line.error(word.name_range, f"`{word.name}=` is an old word{hint}", today, code="old-word")

    def _target(self, line: Line, target: Asset, *, manual: bool) -> None:
        place = line.place("a table")
        if not manual and target.scheme != "ducklake":
            line.error(place, f"`{target.scheme}://` cannot be managed. {BOTH_WAYS_OUT}", code="unmanaged-target")
        elif target.scheme == "kafka":
            line.error(place, "a topic is no table: publish with `[publishers.<name>]`", code="unmanaged-target")
        elif target.path.rpartition(".")[2].startswith(RESERVED_TABLE_PREFIX):
            line.error(place, f"tables named `{RESERVED_TABLE_PREFIX}…` are Reactor's own", code="reserved")

    def _fits(self, line: Line, strategy: Strategy, marker: str) -> None:
        """Combinations that are refused, and options that have no effect beside the strategy (AN-14, 15, 16, 18)."""
        if line.names("latest") and not line.names("key"):
            line.error(line.place("latest"), "`latest=` picks among the rows of one key: it needs `key=`", code="missing")
        if line.names("deletes") and strategy not in {"scd2", "manual"}:
            line.error(line.place("deletes"), "`deletes=` belongs to a history: it needs `history` or `scd2`", code="missing")
        if strategy == "scd2" and not line.names("key"):
            word = marker or "history"
            place = line.place("a marker" if marker else "history")
            line.error(place, f"`{word}` needs `key=`: nothing says which rows are one thing", code="missing")
        idle = {
            "manual": _STRATEGY_OPTIONS, "scd2": ("append", "latest"), "append": ("key", "latest", "track"), "merge": ("track",),
            "replace": ("track",),
        }[strategy]
        why = "the script writes the table itself" if strategy == "manual" else f"the strategy is {strategy}"
        for option in idle if not line.malformed else ():
            if line.names(option):
                line.tell(line.place(option), "no-effect", f"`{option}` has no effect: {why}")


def _read_marker(word: Word) -> str:
    if word.raw in {"append", "history"}:
        raise Malformed(f"`{word.raw}` stands behind the table", code="stray-word")
    if word.raw == "snapshot":
        raise Malformed("`snapshot` is an old word", "scd2", code="old-word")
    if word.raw not in _MARKERS:
        raise Malformed(f"`{word.raw}` is neither `manual` nor `scd2`", nearest(word.raw, _MARKERS), code="unknown-value")
    return word.raw


class IncrementalKeyword(Keyword[Incremental]):
    """`incremental cdc=<column> [lookback=<dur>]`: only rows beyond the last materialized value, for `append` and `key=`.

    -- incremental cdc=updated_at lookback=1h
    """

    word, form, refuses = "incremental", "incremental cdc=<column> [lookback=<dur>]", True

    def parse(self, line: Line) -> Incremental:
        """The column whose values grow, and how far back to look again."""
        name, lookback = line.option("cdc", column), line.option("lookback", duration)
        if not line.names("cdc") and (word := line.peek()):
            line.reject(word, "the column is an option", f"cdc={word.raw}")
        line.close()
        if name is None and not line.malformed:
            line.error(line.keyword_range, "`incremental` needs the column that grows", "incremental cdc=<column>", code="missing")
        return Incremental(name or "", lookback or 0.0)

    def compile(self, header: Header, value: Incremental) -> Header:
        """The mark of this script."""
        return replace(header, incremental=value)


