"""Tokens in columns: the members, items and paths of many JSON texts, as the scanner found them, and their bytes as Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reactor.lake.decoding import scanner
from reactor.lake.decoding.reasons import FINE, Reasons
from reactor.lake.decoding.scanner import Bytes, Kinds, Places

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tokens:
    """One token a row, all in `data`: its kind (`reactor.lake.decoding.scanner`) and its range of bytes. Arrays of one length."""

    data: Bytes
    kinds: Kinds
    starts: Places
    stops: Places

    def having(self, rows: Mask) -> Tokens:
        """The same rows, ABSENT where `rows` is false."""
        return Tokens(self.data, np.where(rows, self.kinds, scanner.ABSENT).astype(np.uint8), self.starts, self.stops)


@dataclass(frozen=True, slots=True)
class Texts:
    """The text of each token, one behind the other: row `i` is `data[offsets[i]:offsets[i + 1]]`, empty where there is none."""

    data: Bytes
    offsets: Places
    kinds: Kinds

    @property
    def numbers(self) -> Mask:
        """Which are JSON numbers."""
        return (self.kinds >= scanner.INTEGER) & (self.kinds <= scanner.EXPONENT)

    @property
    def strings(self) -> Mask:
        """Which are JSON strings."""
        return (self.kinds == scanner.TEXT) | (self.kinds == scanner.ESCAPED)

    def array(self, valid: Mask) -> pa.Array:
        """Arrow strings, null where not `valid`."""
        nulls = pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [nulls, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_string(), len(valid), buffers)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def binary_ranges(values: pa.Array) -> tuple[Bytes, Places, Mask]:
    """The bytes of an Arrow binary array, the n + 1 bounds of its rows in them, and which rows are not null."""
    large = values.cast(pa.large_binary())
    _, offsets, data = large.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(large) + 1, large.offset * 8) if len(large) else np.zeros(1, np.int64)
    present = np.asarray(large.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return np.frombuffer(data if data is not None else b"", np.uint8), bounds, present


def members(
    data: Bytes, froms: Places, tos: Places, present: Mask, names: Sequence[str],
) -> tuple[Reasons, list[Tokens]]:
    """(Reason of each text, the tokens of each name). A text that is not FINE has no members; one that is not `present` is FINE."""
    spelt = [name.encode() for name in names]
    joined = np.frombuffer(b"".join(spelt), np.uint8)
    ends = np.cumsum([0, *map(len, spelt)], dtype=np.int64)
    reasons, kinds, starts, stops = scanner.scan_members(*map(_frozen, (data, froms, tos, present, joined, ends)))
    fine = reasons == FINE
    return reasons, [Tokens(data, *found).having(fine) for found in zip(kinds, starts, stops, strict=True)]


def opened(tokens: Tokens, names: Sequence[str]) -> list[Tokens]:
    """The members of the objects among the tokens, by name; ABSENT where a token is no object."""
    return members(tokens.data, tokens.starts, tokens.stops, tokens.kinds == scanner.OBJECT, names)[1]


def texts(tokens: Tokens, *, as_json: bool = False) -> Texts:
    """The text of each token: of a string what it spells, of anything else (and with `as_json`) the JSON text as it came."""
    offsets, data = scanner.copy_texts(*map(_frozen, (tokens.data, tokens.kinds, tokens.starts, tokens.stops)), as_json)
    return Texts(_frozen(data), _frozen(offsets), tokens.kinds)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Kernels are compiled once, for read-only contiguous arrays."""
    view = np.ascontiguousarray(array)
    if view.flags.writeable:
        view = view.view()
        view.flags.writeable = False
    return view
