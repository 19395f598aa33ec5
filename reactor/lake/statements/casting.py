"""How a value goes from the type that a SELECT gives to the one that a table has: as SQL, and only if it stays the same value.

DuckDB's own casts round, drop a date or an offset, take `5` for true and `0x10` for 16, and a TRY_CAST leaves NULL inside of a list without
a word. So a value fits if the cast *back* gives it again. Four things are taken though that would not hold: digits beyond a DECIMAL's scale are
rounded half away from zero, DOUBLE and FLOAT take their nearest value, digits beyond microseconds are cut, and text is what it spells: a
decimal number, an instant (UTC, unless it says how far from it). One that would hold is refused: true is not 1.

The casts of instants mean UTC only in a session whose zone that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import duckdb
from duckdb.sqltypes import DuckDBPyType

from reactor.lake.statements.quoting import literal

Sql = Callable[[str], str]

CONVERSIONS_KEPT_MAX = 1024

_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20}
INTEGERS = frozenset(_INTEGER_DIGITS)
_HOLDS = {
    "SMALLINT": {"TINYINT", "UTINYINT"}, "INTEGER": {"TINYINT", "SMALLINT", "UTINYINT", "USMALLINT"},
    "BIGINT": {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"},
    "USMALLINT": {"UTINYINT"}, "UINTEGER": {"UTINYINT", "USMALLINT"}, "UBIGINT": {"UTINYINT", "USMALLINT", "UINTEGER"},
}  # fmt: skip
_REALS = frozenset(["FLOAT", "DOUBLE"])
_MICROS = frozenset(["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])
_INSTANTS = _MICROS | {"DATE", "TIMESTAMP_S", "TIMESTAMP_MS"}

_NUMBER = r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"
"""A JSON number, but for zeros in front: they spell the same number, and keys have them."""
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?"
_INSTANT = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([Tt ]{_CLOCK}([Zz]| ?[-+]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)?"
_EXPONENT_MAX = 400
"""No double has a larger one. What is beyond does not fit."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """`value`: of an expression; NULL, or anything, where it does not fit. `failing`: whether that is so, never NULL; None: it always fits."""

    value: Sql
    failing: Sql | None


@lru_cache(maxsize=CONVERSIONS_KEPT_MAX)
def conversion(source: str, target: str, depth: int = 0) -> Conversion:
    """From one type to another, as DuckDB spells them. `depth`: how many lists are around it."""
    if source == target:
        return Conversion(lambda x: x, None)
    if _nested(source) and _nested(target):
        with duckdb.connect() as engine:
            given, wanted = engine.sqltype(source), engine.sqltype(target)
        if given.id == wanted.id and given.id in _NESTED:
            return _NESTED[given.id](given, wanted, depth)

    def value(x: str) -> str:
        return _value(x, source, target)

    return Conversion(value, None if _always_fits(source, target) else lambda x: f"({x} IS NOT NULL AND {value(x)} IS NULL)")


def _nested(kind: str) -> bool:
    return kind.endswith("]") or kind.startswith(("STRUCT(", "MAP("))


def _children(kind: DuckDBPyType) -> dict[str, str]:
    return {name: str(child) for name, child in kind.children}


def _list(given: DuckDBPyType, wanted: DuckDBPyType, depth: int) -> Conversion:
    item, name = conversion(_children(given)["child"], _children(wanted)["child"], depth + 1), f"_wm_{depth}"
    fails = item.failing
    return Conversion(
        lambda x: f"list_transform({x}, lambda {name}: {item.value(name)})",
        fails and (lambda x: f"coalesce(len(list_filter({x}, lambda {name}: {fails(name)})) > 0, false)"),
    )


def _map(given: DuckDBPyType, wanted: DuckDBPyType, depth: int) -> Conversion:
    """As the list of its entries."""
    entries = [f'STRUCT("key" {children["key"]}, "value" {children["value"]})[]' for children in (_children(given), _children(wanted))]
    held = conversion(entries[0], entries[1], depth)
    fails = held.failing
    return Conversion(
        lambda x: f"CASE WHEN {x} IS NOT NULL THEN map_from_entries({held.value(f'map_entries({x})')}) END",
        fails and (lambda x: fails(f"map_entries({x})")),
    )


def _struct(given: DuckDBPyType, wanted: DuckDBPyType, depth: int) -> Conversion:
    """By name, as the columns of a table; but a value that the table has no field for does not fit, as nobody would say that it is left out."""
    have = {name.lower(): (name, kind) for name, kind in _children(given).items()}
    want = _children(wanted)
    shared = {name: (have[name.lower()][0], conversion(have[name.lower()][1], kind, depth)) for name, kind in want.items() if name.lower() in have}
    lost = [name for key, (name, _) in have.items() if key not in {name.lower() for name in want}]

    def value(x: str) -> str:
        fields = [f"{literal(name)}: {shared[name][1].value(_field(x, shared[name][0])) if name in shared else 'NULL'}" for name in want]
        return f"CASE WHEN {x} IS NOT NULL THEN CAST({{{', '.join(fields)}}} AS {wanted}) END"

    def failing(x: str) -> str:
        fails = [held.failing(_field(x, name)) for name, held in shared.values() if held.failing]
        return f"({' OR '.join([*fails, *(f'{_field(x, name)} IS NOT NULL' for name in lost)])})"

    return Conversion(value, failing if lost or any(held.failing for _, held in shared.values()) else None)


def _field(x: str, name: str) -> str:
    return f"struct_extract({x}, {literal(name)})"


_NESTED: Mapping[str, Callable[[DuckDBPyType, DuckDBPyType, int], Conversion]] = {"list": _list, "map": _map, "struct": _struct}


def _decimal(kind: str) -> tuple[int, int] | None:
    """Its digits before and behind the point, where it is one or an integer."""
    if kind in INTEGERS:
        return _INTEGER_DIGITS[kind], 0
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _is_number(kind: str) -> bool:
    return kind in _REALS or _decimal(kind) is not None


def _always_fits(source: str, target: str) -> bool:
    if target == "VARCHAR" or source == '"NULL"' or source in _HOLDS.get(target, ()) or {source, target} == _MICROS:
        return True
    exact, wanted = _decimal(source), _decimal(target)
    if target in _REALS:
        return exact is not None or source == "FLOAT"
    if exact is None or wanted is None or target in INTEGERS:
        return False
    return wanted[0] >= exact[0] + (wanted[1] < exact[1])  # to round may take one digit more


def _value(x: str, source: str, target: str) -> str:
    """A value that is not nested on both sides; NULL where it does not fit."""
    if target == "JSON" or (_always_fits(source, target) and not (target in _REALS and source.startswith("DECIMAL"))):
        return _tried(x, target)
    if source in {"VARCHAR", "JSON"}:
        return _of_text(x, target, source)
    if _is_number(source) and _is_number(target):
        return _of_number(x, source, target)
    if "BOOLEAN" in {source, target} and (_is_number(source) or _is_number(target)):
        return f"CAST(NULL AS {target})"
    if source == "TIMESTAMP_NS" and target in _MICROS:  # DuckDB cuts towards 1970, and so into another day
        return f"{_tried(x, target)} - to_microseconds(CAST(TRY_CAST({_tried(x, target)} AS TIMESTAMP_NS) > {x} AS BIGINT))"
    return _if_back(x, _tried(x, target), source)


def _tried(x: str, target: str) -> str:
    """TRY_CAST, which raises all the same for an instant beyond the nanoseconds that 64 bits hold."""
    return f"TRY(CAST({x} AS {target}))" if target == "TIMESTAMP_NS" else f"TRY_CAST({x} AS {target})"


def _if_back(x: str, value: str, source: str) -> str:
    return f"CASE WHEN TRY_CAST({value} AS {source}) = {x} THEN {value} END"


def _of_number(x: str, source: str, target: str) -> str:
    if target in INTEGERS:
        return _tried(x, target) if source in INTEGERS else _if_back(x, _tried(x, target), source)
    if source in INTEGERS or source == target or (source in _REALS and target in _REALS):
        return _tried(x, target)
    if source.startswith("DECIMAL") and target.startswith("DECIMAL"):
        return _tried(x, target)
    return _number_of_text(f"CAST({x} AS VARCHAR)", target)  # the other way multiplies or divides doubles: 1.005 is 1.00


def _of_text(x: str, target: str, source: str) -> str:
    if source == "JSON" and not _nested(target):
        string = f"{x} ->> '$'"  # which takes the digits of a number through a double
        x, source = f"CASE WHEN starts_with(CAST({x} AS VARCHAR), '\"') THEN {string} ELSE trim(CAST({x} AS VARCHAR)) END", "VARCHAR"
    if _is_number(target):
        return _number_of_text(x, target)
    if target in _INSTANTS or target == "TIMESTAMP_NS":
        return _instant_of_text(x, target)
    if target == "TIME":
        return f"CASE WHEN regexp_full_match({x}, {literal(_CLOCK)}) THEN TRY_CAST(replace({x}, ',', '.') AS TIME) END"
    value = _tried(x, target)
    if _nested(target):  # blanks between values say nothing, and those within come from the same text
        spelt = [f"regexp_replace(CAST({one} AS VARCHAR), '\\s', '', 'g')" for one in (f"CAST({value} AS {source})", x)]
        return f"CASE WHEN {spelt[0]} = {spelt[1]} THEN {value} END"
    return _if_back(f"lower({x})" if target == "UUID" else x, value, source)


def _number_of_text(x: str, target: str) -> str:
    """DuckDB reads what has no exponent by its digits; what has one loses some on its way into a DECIMAL."""
    if target in _REALS:
        value = f"TRY_CAST({x} AS {target})"
        return f"CASE WHEN regexp_full_match({x}, {literal(_NUMBER)}) AND isfinite({value}) THEN {value} END"
    digits = f"CASE WHEN regexp_matches({x}, '[eE]') THEN {_without_exponent(x)} ELSE {x} END"
    if target in INTEGERS:
        digits = f"regexp_replace({digits}, '[.]0*$', '')"
        digits = f"CASE WHEN NOT contains({digits}, '.') THEN {digits} END"
    return f"CASE WHEN regexp_full_match({x}, {literal(_NUMBER)}) THEN TRY_CAST({digits} AS {target}) END"


def _without_exponent(x: str) -> str:
    """The point moved among enough zeros on either side."""
    power = f"TRY_CAST(regexp_extract({x}, '[eE][+]?(-?[0-9]+)$', 1) AS INTEGER)"
    whole, fraction = f"regexp_extract({x}, '^-?([0-9]+)', 1)", f"regexp_extract({x}, '[.]([0-9]+)', 1)"
    zeros = f"repeat('0', least(abs({power}), {_EXPONENT_MAX}))"
    digits, point = f"({zeros} || {whole} || {fraction} || {zeros})", f"(abs({power}) + length({whole}) + {power})"
    sign = f"CASE WHEN starts_with({x}, '-') THEN '-' ELSE '' END"
    return f"CASE WHEN abs({power}) <= {_EXPONENT_MAX} THEN {sign} || left({digits}, {point}) || '.' || substr({digits}, {point} + 1) END"


def _instant_of_text(x: str, target: str) -> str:
    """DuckDB wants the seconds where there is an offset, and no blank before it; TIMESTAMP drops it, TIMESTAMPTZ does not."""
    plain = f"regexp_replace(replace(upper({x}), ',', '.'), '^(.{{10}}).(.{{5}})([^:]|$)', '\\1 \\2:00\\3')"
    plain = f"regexp_replace({plain}, ' ([-+])', '\\1')"
    instant = f"TRY_CAST({plain} AS {'TIMESTAMP_NS' if target == 'TIMESTAMP_NS' else 'TIMESTAMP WITH TIME ZONE'})"
    if target not in _MICROS and target != "TIMESTAMP_NS":
        instant = _if_back(instant, _tried(instant, target), "TIMESTAMP WITH TIME ZONE")
    elif target == "TIMESTAMP":
        instant = _tried(instant, target)
    return f"CASE WHEN regexp_full_match({x}, {literal(_INSTANT)}) AND NOT starts_with({x}, '0000') THEN {instant} END"
