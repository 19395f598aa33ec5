"""The tokens of one declared column as an Arrow array that DuckDB casts to the declared type, and the rows that cannot have it.

`read` decides all that depends on the text of a value, and whether a number fits a type that 64 bits hold. Whether it fits another only the
cast knows (`cast`, NULL where it does not fit); inside nested types it is asked here, so that a nested array holds nothing that a cast refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reactor.lake.decoding import digits, grammar
from reactor.lake.decoding import reasons as why
from reactor.lake.decoding.digits import DIGITS_MAX
from reactor.lake.decoding.instants import MICROS_END, MICROS_MIN, SLACK_MICROS, read_clocks, read_instants
from reactor.lake.decoding.numbers import plain
from reactor.lake.decoding.reasons import Reasons
from reactor.lake.decoding.scanner import Mask, number_kinds
from reactor.lake.decoding.tokens import Texts, Tokens, children, members, one_array, texts
from reactor.lake.decoding.types import Declared, declared, held_in_64_bits, least_and_most

_DAY_MICROS = 86_400_000_000
_NANOS_MIN, _NANOS_MAX = -9_223_286_400_000_000_000, 2**63 - 2
"""The least and the most of TIMESTAMP_NS: 1677-09-22, for DuckDB 1.5 cannot write what is left of the day before, and all but infinity."""
_UUID = "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_TICKS = {"TIMESTAMP_S": (pa.timestamp("s"), 1_000_000), "TIMESTAMP_MS": (pa.timestamp("ms"), 1_000)}


@dataclass(frozen=True, slots=True)
class Column:
    """`array` is null where a value is missing, null or set aside; `reasons` says why the latter."""

    array: pa.Array | pa.ChunkedArray
    reasons: Reasons


def cast(name: str, type_: Declared) -> str:
    """SQL: the value of a column that `read` made; NULL where `bounded` and the type cannot hold it."""
    return _tried(name, type_) if bounded(type_) else f"CAST({name} AS {type_.sql})"


def _tried(name: str, type_: Declared) -> str:
    value = f"TRY_CAST({name} AS {type_.sql})"
    return f"CASE WHEN isfinite({value}) THEN {value} END" if type_.family == "real" else value


def bounded(type_: Declared) -> bool:
    """Whether only the cast knows what the type can hold."""
    return type_.family in ("integer", "decimal", "real") and held_in_64_bits(type_) is None


def read_exactly(name: str) -> bool:
    """Whether the array that is read for a type of this name holds its values as they are: the cast takes next to nothing, and cannot fail."""
    type_ = declared(name)
    return type_.family in ("boolean", "text", "date", "instant", "clock") or held_in_64_bits(type_) is not None


def read(tokens: Tokens, type_: Declared, cursor: duckdb.DuckDBPyConnection) -> Column:
    """One value a token."""
    twice = tokens.twice
    column = _READERS[type_.family](tokens.having(~twice), type_, cursor)
    column.reasons[twice] = why.DUPLICATE_KEY
    return column


def _column(array: pa.Array, tokens: Tokens, fits: npt.NDArray[np.bool_]) -> Column:
    return Column(array, np.where(tokens.there & ~fits, why.WRONG_TYPE, why.FINE).astype(np.uint8))


def _boolean(tokens: Tokens, _type: Declared, _cursor: duckdb.DuckDBPyConnection) -> Column:
    true, false = tokens.kinds == grammar.TRUE, tokens.kinds == grammar.FALSE
    return _column(pa.array(true, mask=~(true | false)), tokens, true | false)


def _text(tokens: Tokens, _type: Declared, _cursor: duckdb.DuckDBPyConnection) -> Column:
    return _column(texts(tokens).array(tokens.there), tokens, tokens.there)


def _json(tokens: Tokens, _type: Declared, _cursor: duckdb.DuckDBPyConnection) -> Column:
    return _column(texts(tokens, as_json=True).array(tokens.there), tokens, tokens.there)


def _uuid(tokens: Tokens, _type: Declared, _cursor: duckdb.DuckDBPyConnection) -> Column:
    array = texts(tokens).array(tokens.strings)
    spelt: Mask = pc.match_substring_regex(array, _UUID).fill_null(False).to_numpy(zero_copy_only=False)
    return _column(pc.if_else(pa.array(spelt), array, None), tokens, spelt)


def _number(tokens: Tokens, type_: Declared, cursor: duckdb.DuckDBPyConnection) -> Column:
    """Straight from the digits where 64 bits hold the type and that is sure; the others by way of their text."""
    held = held_in_64_bits(type_)
    if held is None:
        return _number_text(tokens, type_)
    wide, scale = held
    done = np.zeros(len(tokens.kinds), np.bool_)
    values: npt.NDArray[Any] = np.zeros(len(done), np.float64 if type_.family == "real" else np.int64)
    if not len(done):
        pass  # (`scanner` says why)
    elif type_.family == "real":
        digits.doubles(tokens.data, tokens.kinds, tokens.starts, tokens.stops, values, done)
    else:
        digits.scaled(tokens.data, tokens.kinds, tokens.starts, tokens.stops, scale, values, done)
    reasons, others = np.zeros(len(done), np.uint8), np.flatnonzero(tokens.there & ~done)
    if len(others):
        values[others], done[others], reasons[others] = _numbers_by_text(tokens.taken(others), wide, scale, cursor)
    if (limits := least_and_most(type_)) is not None:
        beyond = done & ((values < limits[0]) | (values > limits[1]))
        reasons[beyond] = why.OUT_OF_RANGE
        done &= ~beyond
    return Column(_decimals(values, done, scale) if type_.family == "decimal" else pa.array(values, mask=~done), reasons)


def _numbers_by_text(tokens: Tokens, wide: Declared, scale: int, cursor: duckdb.DuckDBPyConnection) -> tuple[npt.NDArray[Any], Mask, Reasons]:
    """(values times 10^scale, which are there, why others are not): what DuckDB makes of their texts."""
    column = _number_text(tokens, wide)
    value = _tried("c", wide)
    if wide.family == "decimal":
        value = f"CAST(CAST({value} AS DECIMAL(38,{scale})) * {10**scale} AS BIGINT)"
    found = one_array(cursor.from_arrow(pa.table({"c": column.array})).project(f"{value} AS v").to_arrow_table()["v"])
    there: Mask = found.is_valid().to_numpy(zero_copy_only=False)
    beyond = column.array.is_valid().to_numpy(zero_copy_only=False) & ~there
    return found.fill_null(0).to_numpy(), there, why.graver(column.reasons, np.where(beyond, why.OUT_OF_RANGE, why.FINE).astype(np.uint8))


def _decimals(values: npt.NDArray[np.int64], there: Mask, scale: int) -> pa.Array:
    """Values times 10^scale as decimals: Arrow keeps 128 bits of each."""
    pairs = np.stack((values, values >> 63), axis=1)
    return pa.Array.from_buffers(pa.decimal128(DIGITS_MAX, scale), len(values), [pa.py_buffer(np.packbits(there, bitorder="little")), pa.py_buffer(pairs)])


def _number_text(tokens: Tokens, type_: Declared) -> Column:
    """The text of each number, without an exponent where only a fraction is understood."""
    text = texts(tokens)
    kinds = number_kinds(text.data, text.offsets, tokens.kinds) if tokens.strings.any() else tokens.kinds
    fits = (kinds >= grammar.INTEGER) & (kinds <= grammar.EXPONENT)
    array = text.array(fits)
    powers = pa.array(kinds == grammar.EXPONENT)
    if type_.family != "real" and powers.true_count:
        array = pc.replace_with_mask(array, powers, pa.array(map(plain, array.filter(powers).to_pylist()), pa.large_string()))
    fractions = fits & (kinds != grammar.INTEGER)
    if type_.family == "integer" and fractions.any():
        trimmed = pc.replace_substring_regex(array.filter(pa.array(fractions)), r"\.0+$", "")
        whole = pc.invert(pc.match_substring(trimmed, "."))
        array = pc.replace_with_mask(array, pa.array(fractions), pc.if_else(whole, trimmed, None))
        fits[fractions] = whole.to_numpy(zero_copy_only=False)
    return _column(array, tokens, fits)


@dataclass(frozen=True, slots=True)
class Instants:
    """What `read_instants` has found, of one token a row."""

    reasons: Reasons
    micros: npt.NDArray[np.int64]
    nanos: npt.NDArray[np.int64]

    @classmethod
    def of(cls, tokens: Tokens, text: Texts) -> Instants:
        """Of tokens with these texts; with a day of slack, for who reads local dates."""
        return cls(*read_instants(text.data, text.offsets, tokens.numbers, tokens.strings, SLACK_MICROS))


def _instant(tokens: Tokens, type_: Declared, _cursor: duckdb.DuckDBPyConnection) -> Column:
    return instant_column(tokens, type_, Instants.of(tokens, texts(tokens)))


def instant_column(tokens: Tokens, type_: Declared, instants: Instants) -> Column:
    """The column of a type of the family `instant` or `date`, of instants that have been read."""
    micros, nanos = instants.micros, instants.nanos
    within = (micros >= MICROS_MIN) & (micros < MICROS_END)
    reasons = np.where((instants.reasons == why.FINE) & ~within, why.OUT_OF_RANGE, instants.reasons)
    kind, ticks, unit = pa.timestamp("us", "UTC" if type_.sql.endswith("ZONE") else None), micros, 1
    if type_.sql == "TIMESTAMP_NS":
        far = (micros < _NANOS_MIN // 1000) | (micros > _NANOS_MAX // 1000) | ((micros == _NANOS_MAX // 1000) & (nanos > _NANOS_MAX % 1000))
        reasons = np.where((reasons == why.FINE) & far, why.OUT_OF_RANGE, reasons)
        kind, ticks = pa.timestamp("ns"), np.where(far, 0, micros) * 1000 + nanos
    elif type_.sql in _TICKS or type_.family == "date":
        kind, unit = _TICKS.get(type_.sql, (pa.date32(), _DAY_MICROS))
        reasons = np.where((reasons == why.FINE) & ((micros % unit != 0) | (nanos != 0)), why.WRONG_TYPE, reasons)
        ticks = micros // unit
    good = reasons == why.FINE
    ticks = np.where(good, ticks, 0).astype(np.int32 if type_.family == "date" else np.int64)
    reasons = np.where(tokens.there, reasons, why.FINE).astype(np.uint8)
    return Column(pa.array(ticks, mask=~good).cast(kind), reasons)


def _clock(tokens: Tokens, _type: Declared, _cursor: duckdb.DuckDBPyConnection) -> Column:
    text = texts(tokens)
    reasons, micros = read_clocks(text.data, text.offsets, tokens.strings)
    good = reasons == why.FINE
    return _column(pa.array(micros, mask=~good).cast(pa.time64("us")), tokens, good)


def _struct(tokens: Tokens, type_: Declared, cursor: duckdb.DuckDBPyConnection) -> Column:
    fits: Mask = np.asarray(tokens.kinds == grammar.OBJECT)
    names = [name for name, _ in type_.fields]
    fields = [_held(found, type_.fields[i][1], cursor) for i, found in enumerate(members(tokens, fits, names)[1])]
    column = _column(pa.StructArray.from_arrays([field.array for field in fields], names, mask=pa.array(~fits)), tokens, fits)
    reasons = column.reasons
    for field in fields:
        reasons = why.graver(reasons, field.reasons)
    return Column(column.array, reasons)


def _list(tokens: Tokens, type_: Declared, cursor: duckdb.DuckDBPyConnection) -> Column:
    fits: Mask = np.asarray(tokens.kinds == grammar.ARRAY)
    held = children(tokens, fits)[1]
    items = _held(held.values, type_.fields[0][1], cursor)
    array = pa.LargeListArray.from_arrays(pa.array(held.firsts), items.array, mask=pa.array(~fits))
    column = _column(array, tokens, fits)
    return Column(column.array, why.graver(column.reasons, _gravest(items.reasons, held.firsts)))


def _map(tokens: Tokens, type_: Declared, cursor: duckdb.DuckDBPyConnection) -> Column:
    fits: Mask = np.asarray(tokens.kinds == grammar.OBJECT)
    held = children(tokens, fits)[1]
    items = _held(held.values, type_.fields[0][1], cursor)
    names = texts(held.names).array(held.names.there)
    parents = np.repeat(np.arange(len(fits)), np.diff(held.firsts))
    spelt = pc.dictionary_encode(names).indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(parents * (len(spelt) + 1) + spelt, return_index=True)
    again = np.full(len(spelt), why.DUPLICATE_KEY, np.uint8)
    again[first] = why.FINE
    reasons = _gravest(why.graver(again, items.reasons), held.firsts)
    if reasons.any():  # DuckDB would stop at a name that occurs twice
        others = _map(tokens.having(reasons == why.FINE), type_, cursor)
        return Column(others.array, why.graver(others.reasons, reasons))
    offsets = pa.array(held.firsts.astype(np.int32), mask=np.append(~fits, np.False_))
    return _column(pa.MapArray.from_arrays(offsets, names, items.array), tokens, fits)


def _held(tokens: Tokens, type_: Declared, cursor: duckdb.DuckDBPyConnection) -> Column:
    """What a nested value holds, asked now whether its type can hold it."""
    column = read(tokens, type_, cursor)
    if not bounded(type_):
        return column
    asked = pa.table({"c": column.array})
    fails = cursor.from_arrow(asked).project(f"c IS NOT NULL AND {cast('c', type_)} IS NULL AS fails").to_arrow_table()["fails"]
    beyond: Mask = fails.to_numpy()
    reasons = why.graver(column.reasons, np.where(beyond, why.OUT_OF_RANGE, why.FINE).astype(np.uint8))
    return Column(pc.if_else(pa.array(beyond), None, column.array) if beyond.any() else column.array, reasons)


def _gravest(reasons: Reasons, firsts: npt.NDArray[np.int64]) -> Reasons:
    """Of the reasons of each container's items the one that counts."""
    bad = np.flatnonzero(reasons != why.FINE)
    worst = np.full(len(firsts) - 1, len(why.WORDS), np.uint8)
    np.minimum.at(worst, np.searchsorted(firsts, bad, side="right") - 1, reasons[bad])
    worst[worst == len(why.WORDS)] = why.FINE
    return worst


_READERS: dict[str, Callable[[Tokens, Declared, duckdb.DuckDBPyConnection], Column]] = {
    "boolean": _boolean, "integer": _number, "decimal": _number, "real": _number, "text": _text, "json": _json, "uuid": _uuid,
    "date": _instant, "instant": _instant, "clock": _clock, "struct": _struct, "list": _list, "map": _map,
}
