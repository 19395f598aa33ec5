"""Which declared types a payload can be decoded into, and how each is made; the others are refused when a script is checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import duckdb
from duckdb.sqltypes import DuckDBPyType

from reactor.lake.decoding.digits import DIGITS_MAX

Family = Literal["boolean", "integer", "decimal", "real", "text", "json", "uuid", "date", "clock", "instant", "struct", "list", "map"]

_FAMILIES: dict[str, Family] = {
    "boolean": "boolean", "decimal": "decimal", "float": "real", "double": "real", "varchar": "text", "uuid": "uuid", "date": "date", "time": "clock",
    "timestamp": "instant", "timestamp_s": "instant", "timestamp_ms": "instant", "timestamp_ns": "instant", "timestamp with time zone": "instant",
    "struct": "struct", "list": "list", "map": "map",
    **dict.fromkeys(
        ("tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"), "integer"
    ),
}
_CAST_IN_SELECT = "declare VARCHAR and cast it in the SELECT"
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32}
"""Those that a signed integer of 64 bits holds, with their bits."""
_REFUSED = {
    "blob": "JSON has no bytes: declare VARCHAR and decode it in the SELECT, for example with from_base64()",
    "array": "declare a list of any length instead, for example DOUBLE[]",
    "time with time zone": "the lake loses its offset: declare TIMESTAMPTZ, TIME or VARCHAR",
    "variant": "declare JSON and cast it in the SELECT",
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared type, opened: `sql` is DuckDB's own spelling, `fields` are the members of a struct, else what a list or map holds."""

    sql: str
    family: Family
    fields: tuple[tuple[str, Declared], ...] = ()


def decodable(type_: str) -> str | None:
    """Why no column of a payload can have this type, and what to declare instead; None: it can."""
    try:
        declared(type_)
    except ValueError as error:
        return str(error)
    return None


@cache
def declared(type_: str) -> Declared:
    """Open a type. Raises ValueError with a message for the author of the script if it cannot be decoded exactly."""
    try:
        with duckdb.connect() as engine:
            return _opened(engine.sqltype(type_))
    except duckdb.Error:
        message = f"{type_} is no type of DuckDB"
    raise ValueError(message)


@cache
def held_in_64_bits(type_: Declared) -> tuple[Declared, int] | None:
    """The widest type of its kind whose values, times 10^scale, 64 bits hold, and the scale; None: its own values need more."""
    if type_.sql in _INTEGERS or type_.sql in _UNSIGNED:
        return Declared("BIGINT", "integer"), 0
    if type_.sql == "DOUBLE":
        return type_, 0
    if type_.family == "decimal":
        width, scale = _digits(type_)
        return (Declared(f"DECIMAL({DIGITS_MAX},{scale})", "decimal"), scale) if width <= DIGITS_MAX else None
    return None


@cache
def least_and_most(type_: Declared) -> tuple[int, int] | None:
    """The bounds of a type that `held_in_64_bits` gives, times 10^scale; None: its values are those that are held."""
    if (bits := _INTEGERS.get(type_.sql)) is not None:
        return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if bits < 64 else None
    if (bits := _UNSIGNED.get(type_.sql)) is not None:
        return 0, 2**bits - 1
    if type_.family == "decimal":
        width, _ = _digits(type_)
        return (1 - 10**width, 10**width - 1) if width < DIGITS_MAX else None
    return None


def _digits(decimal: Declared) -> tuple[int, int]:
    """All, and those behind the point."""
    width, scale = decimal.sql.removeprefix("DECIMAL(").removesuffix(")").split(",")
    return int(width), int(scale)


def _opened(type_: DuckDBPyType) -> Declared:
    sql, kind = str(type_), type_.id
    if kind not in _FAMILIES:
        raise ValueError(f"{sql} cannot be decoded from JSON exactly: {_REFUSED.get(kind, _CAST_IN_SELECT)}")
    children = [(name, child) for name, child in type_.children if isinstance(child, DuckDBPyType)] if kind in ("struct", "list", "map") else []
    if kind == "map" and str(children[0][1]) != "VARCHAR":
        raise ValueError(f"{sql} cannot be decoded from JSON exactly: names are text, declare MAP(VARCHAR, …)")
    fields = tuple((name, _opened(child)) for name, child in children)
    if kind == "struct" and len({name.casefold() for name, _ in fields}) < len(fields):
        raise ValueError(f"{sql} has two fields whose names differ in case only: declare JSON")
    return Declared(sql, "json" if sql == "JSON" else _FAMILIES[kind], fields[-1:] if kind == "map" else fields)
