"""Tokens in columns: the members, items and paths of many JSON texts, as the scanner found them, and their bytes as Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reactor.lake.decoding import grammar, scanner
from reactor.lake.decoding.reasons import NESTING_TOO_DEEP, NOT_JSON, NOT_UTF8, Reasons
from reactor.lake.decoding.scanner import Bytes, Kinds, Mask, Places

CHILDREN_GUESSED = 16
"""Members or items of a container, on average; where they are more, a text is scanned again with room for them."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One token a row, all in `data`: its kind (`reactor.lake.decoding.grammar`) and its range of bytes. Arrays of one length."""

    data: Bytes
    kinds: Kinds
    starts: Places
    stops: Places

    @property
    def there(self) -> Mask:
        """Which are values other than null."""
        return _mask(self.kinds > grammar.NULL)

    @property
    def numbers(self) -> Mask:
        """Which are JSON numbers."""
        return _mask((self.kinds >= grammar.INTEGER) & (self.kinds <= grammar.EXPONENT))

    @property
    def strings(self) -> Mask:
        """Which are JSON strings."""
        return _mask((self.kinds == grammar.TEXT) | (self.kinds == grammar.ESCAPED))

    @property
    def twice(self) -> Mask:
        """Which members occur more than once."""
        return _mask(self.kinds >= scanner.TWICE)

    def having(self, rows: Mask) -> Tokens:
        """The same rows, ABSENT where `rows` is false."""
        if rows.all():
            return self
        return Tokens(self.data, np.where(rows, self.kinds, grammar.ABSENT).astype(np.uint8), self.starts, self.stops)

    def taken(self, rows: Places) -> Tokens:
        """These rows alone."""
        return Tokens(self.data, self.kinds[rows], self.starts[rows], self.stops[rows])


@dataclass(frozen=True, slots=True)
class Children:
    """The children of many containers: those of row `i` are tokens `firsts[i]` to `firsts[i + 1]`. Names are ABSENT in arrays."""

    firsts: Places
    names: Tokens
    values: Tokens


@dataclass(frozen=True, slots=True)
class Texts:
    """The text of each token, one behind the other: row `i` is `data[offsets[i]:offsets[i + 1]]`, empty where there is none."""

    data: Bytes
    offsets: Places

    def array(self, valid: Mask) -> pa.Array:
        """Arrow strings, null where not `valid`."""
        nulls = pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(pa.large_string(), len(valid), [nulls, pa.py_buffer(self.offsets), pa.py_buffer(self.data)])


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece; not a copy where it is one already (what Arrow combines, it copies)."""
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def payloads(values: pa.Array) -> tuple[Tokens, Mask]:
    """An Arrow binary array as tokens whose kind says nothing, and which rows are not null."""
    kind: np.dtype[Any] = np.dtype(np.int64 if pa.types.is_large_binary(values.type) else np.int32)
    _, offsets, data = values.buffers()
    bounds = np.zeros(1, np.int64)
    if len(values):
        bounds = np.frombuffer(offsets, kind, len(values) + 1, values.offset * kind.itemsize).astype(np.int64)
    held = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]] if data is not None else np.zeros(0, np.uint8)
    starts, stops = bounds[:-1] - bounds[0], bounds[1:] - bounds[0]
    present: Mask = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else np.ones(len(values), np.bool_)
    return Tokens(held, np.zeros(len(values), np.uint8), starts, stops), present


def children(containers: Tokens, rows: Mask) -> tuple[Reasons, Children]:
    """Scan those of the texts that are among `rows`: (why each is no JSON object, what its top container holds). The others are FINE."""
    data, froms, tos = containers.data, containers.starts, containers.stops
    room = CHILDREN_GUESSED * len(froms) + 1
    reasons, firsts, kinds, places = scanner.scan(data, froms, tos, rows, room)
    while not len(firsts):
        room *= 4
        reasons, firsts, kinds, places = scanner.scan(data, froms, tos, rows, room)
    _find_not_utf8(containers, reasons)
    held = int(firsts[-1])
    values, names = (Tokens(data, kinds[part, :held], *places[part, :, :held]) for part in (0, 1))
    return reasons, Children(firsts, names, values)


def members(containers: Tokens, rows: Mask, wanted: Sequence[str]) -> tuple[Reasons, list[Tokens]]:
    """Scan those of the texts that are among `rows`: (why each is no JSON object, its member of each wanted name). ABSENT where there is none."""
    encoded = [name.encode() for name in wanted]
    joined, ends = np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    reasons, kinds, places = scanner.members(containers.data, containers.starts, containers.stops, rows, joined, ends)
    _find_not_utf8(containers, reasons)
    return reasons, [Tokens(containers.data, *token) for token in zip(kinds, *places, strict=True)]


def _find_not_utf8(texts: Tokens, reasons: Reasons) -> None:
    for row in np.flatnonzero((reasons == NOT_JSON) | (reasons == NESTING_TOO_DEEP)):
        if not _is_utf8(texts.data[texts.starts[row] : texts.stops[row]]):
            reasons[row] = NOT_UTF8


def texts(tokens: Tokens, *, as_json: bool = False) -> Texts:
    """The text of each token: of a string what it spells, of anything else (and with `as_json`) the JSON text as it came."""
    offsets, data = scanner.copy_texts(tokens.data, tokens.kinds, tokens.starts, tokens.stops, as_json)
    return Texts(data, offsets)


def _is_utf8(text: Bytes) -> bool:
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _mask(flags: npt.NDArray[Any]) -> Mask:
    return np.asarray(flags, np.bool_)
