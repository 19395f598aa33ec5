"""The scanner: one pass over the bytes of each JSON text that is strict and says where the children of its top container stand.

It never copies and never converts: a *token* is a kind and a range of bytes, so every digit and every blank of a value survives. What
follows works on the tokens of one member of all records at a time. A container inside a scanned text is opened by scanning it in turn,
and only where a declared type or a path leads into it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reactor.lake.decoding import grammar
from reactor.lake.decoding.compiled import compiled, kernel
from reactor.lake.decoding.reasons import EMPTY_VALUE, FINE, NESTING_TOO_DEEP, NOT_JSON, NOT_OBJECT, Reasons

Bytes = npt.NDArray[np.uint8]
Kinds = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DEPTH_MAX = 1024
"""Levels of nesting that a payload may have."""
TWICE = 128
"""Added to the kind of a member that occurs more than once."""

_VALUE, _NAME = 0, 1
_NO_ROOM = 255


@kernel
def scan(data: Bytes, froms: Places, tos: Places, present: Mask, room: int) -> tuple[Reasons, Places, Kinds, Places]:
    """Scan the texts `[froms[i], tos[i])` where `present`: (reasons, firsts, kinds, places). A text is FINE if it is one JSON object.

    The children of text `i`, an object or an array, are `firsts[i]` to `firsts[i + 1]` of `kinds[part, child]` and
    `places[part, start or stop, child]`; the parts are value and name. If they are more than `room`, `firsts` is empty and nothing holds.
    """
    reasons, objects, firsts = np.zeros(len(froms), np.uint8), np.zeros(DEPTH_MAX, np.bool_), np.zeros(len(froms) + 1, np.int64)
    kinds, places = np.zeros((2, room), np.uint8), np.zeros((2, 2, room), np.int64)
    for row in range(len(froms)):
        firsts[row + 1] = firsts[row]
        if present[row] and froms[row] == tos[row]:
            reasons[row] = EMPTY_VALUE
        elif present[row]:
            reasons[row], after = _scan_text(data, froms[row], tos[row], objects, kinds, places, firsts[row])
            if reasons[row] == _NO_ROOM:
                return reasons, firsts[:0], kinds, places
            if reasons[row] in (FINE, NOT_OBJECT):
                firsts[row + 1] = after
            else:  # what it left behind is no child of the next text
                kinds[:, firsts[row] : after + 1] = grammar.ABSENT
                places[:, :, firsts[row] : after + 1] = 0
    return reasons, firsts, kinds, places


@compiled
def _scan_text(data: Bytes, at: int, end: int, objects: Mask, kinds: Kinds, places: Places, child: int) -> tuple[int, int]:
    """(Reason of the text `[at, end)`, the child after its last). `objects` is the stack: whether an open container is an object."""
    at = _after_bom(data, at, end)
    state, depth, part, reason = grammar.VALUE, 0, _VALUE, NOT_OBJECT
    while at < end:
        before = state
        state = int(grammar.NEXT[before, data[at]])
        if state > grammar.OPEN_ARRAY:
            at -= state == grammar.END_NUMBER
            depth -= state == grammar.CLOSE
            if depth == 1:
                if state != grammar.CLOSE:
                    kinds[part, child] = grammar.ENDING_KIND[before]
                places[part, 1, child] = at + 1
                child += part == _VALUE
            state = grammar.COLON if part == _NAME else grammar.DONE if depth == 0 else grammar.AFTER_MEMBER if objects[depth - 1] else grammar.AFTER_ITEM
            part = _VALUE
        elif state > grammar.REFUSED:
            part = _NAME if state == grammar.BEGIN_NAME else _VALUE
            if depth == 1:
                if child == kinds.shape[1]:
                    return _NO_ROOM, child
                places[part, 0, child] = at
            if state >= grammar.OPEN_OBJECT:
                if depth == DEPTH_MAX:
                    return NESTING_TOO_DEEP, child
                if depth == 1:
                    kinds[part, child] = grammar.OBJECT if state == grammar.OPEN_OBJECT else grammar.ARRAY
                reason = FINE if depth == 0 and state == grammar.OPEN_OBJECT else reason
                objects[depth] = state == grammar.OPEN_OBJECT
                depth += 1
            state = int(grammar.NEXT[state, data[at]])
            if state == grammar.STRING:
                at = _last_ordinary(data, at, end)
        elif state == grammar.REFUSED:
            return NOT_JSON, child
        at += 1
    complete = state == grammar.DONE or (depth == 0 and grammar.INTEGER <= grammar.ENDING_KIND[state] <= grammar.EXPONENT)
    return (reason if complete else NOT_JSON), child


@compiled
def _after_bom(data: Bytes, at: int, end: int) -> int:
    marked = end - at >= 3 and data[at] == 0xEF and data[at + 1] == 0xBB and data[at + 2] == 0xBF
    return at + 3 if marked else at


@compiled
def _last_ordinary(data: Bytes, at: int, end: int) -> int:
    """The last of the bytes behind `at` that change nothing inside a string, or `at`."""
    while at + 1 < end and grammar.ORDINARY[data[at + 1]]:
        at += 1
    return at


@kernel
def pick(
    data: Bytes, froms: Places, tos: Places, kinds: Kinds, starts: Places, stops: Places, firsts: Places, wanted: Bytes, ends: Places,
) -> tuple[Kinds, Places, Places]:
    """Of the children of each text those with a wanted name: kind, start and stop by wanted name and text.

    The name of child `k` is `data[froms[k]:tos[k]]`, wanted name `i` is `wanted[ends[i]:ends[i + 1]]`.
    """
    texts, count, likely = len(firsts) - 1, len(ends) - 1, 0
    found = np.zeros((count, texts), np.uint8)
    found_starts, found_stops = np.zeros((count, texts), np.int64), np.zeros((count, texts), np.int64)
    for row in range(texts):
        for child in range(firsts[row], firsts[row + 1]):
            size = tos[child] - froms[child]
            for k in range(count):
                i = likely + k if likely + k < count else likely + k - count
                if ends[i + 1] - ends[i] != size:
                    continue
                equal = True
                for j in range(size):
                    if data[froms[child] + j] != wanted[ends[i] + j]:
                        equal = False
                        break
                if equal:
                    twice = TWICE if found[i, row] != grammar.ABSENT else 0
                    found[i, row] = kinds[child] | twice
                    found_starts[i, row], found_stops[i, row] = starts[child], stops[child]
                    likely = i + 1
                    break
    return found, found_starts, found_stops


@compiled
def _hex4(data: Bytes, at: int) -> int:
    value = 0
    for k in range(4):
        b = int(data[at + k])
        value = value * 16 + (b - 48 if b < 58 else (b | 32) - 87)
    return value


@compiled
def _unescape(data: Bytes, at: int, end: int, out: Bytes, o: int) -> int:
    """Write the scanned string `[at, end)` to `out` from `o` on; where it ends. It is never longer than its source."""
    while at < end:
        b = int(data[at])
        at += 1
        if b == 92:
            b = int(data[at])
            at += 1
            if b == 117:
                rune = _hex4(data, at)
                at += 4
                if 0xD800 <= rune < 0xE000:
                    rune = 0x10000 + ((rune - 0xD800) << 10) + _hex4(data, at + 2) - 0xDC00
                    at += 6
                more = 0 if rune < 0x80 else 1 if rune < 0x800 else 2 if rune < 0x10000 else 3
                if more:
                    out[o] = (0xF00 >> more + 1) & 0xFF | rune >> 6 * more
                    for k in range(1, more):
                        out[o + k] = 0x80 | (rune >> 6 * (more - k)) & 0x3F
                    o += more
                b = 0x80 | rune & 0x3F if more else rune
            elif b > 92:
                b = 8 if b == 98 else 12 if b == 102 else 10 if b == 110 else 13 if b == 114 else 9
        out[o] = b
        o += 1
    return o


@kernel
def copy_texts(data: Bytes, kinds: Kinds, starts: Places, stops: Places, as_json: bool) -> tuple[Places, Bytes]:
    """The texts of tokens, one behind the other: (offsets, bytes). Strings lose quotes and escapes unless `as_json`; ABSENT and NULL are empty."""
    rows, size = len(kinds), 0
    for row in range(rows):
        size += stops[row] - starts[row] if kinds[row] > grammar.NULL else 0
    offsets, out = np.zeros(rows + 1, np.int64), np.empty(size, np.uint8)
    for row in range(rows):
        kind, at, end, o = kinds[row], starts[row], stops[row], offsets[row]
        if kind == grammar.ESCAPED and not as_json:
            o = _unescape(data, at + 1, end - 1, out, o)
        elif kind > grammar.NULL:
            quote = 1 if kind == grammar.TEXT and not as_json else 0
            for k in range(at + quote, end - quote):
                out[o] = data[k]
                o += 1
        offsets[row + 1] = o
    return offsets, out[: offsets[rows]]


@kernel
def number_kinds(data: Bytes, offsets: Places, kinds: Kinds) -> Kinds:
    """The kinds, but INTEGER, FRACTION or EXPONENT for a string that is exactly one JSON number."""
    out = kinds.copy()
    for row in range(len(kinds)):
        if kinds[row] == grammar.TEXT or kinds[row] == grammar.ESCAPED:
            state = grammar.BEGIN_SCALAR
            for at in range(offsets[row], offsets[row + 1]):
                state = int(grammar.NEXT[state, data[at]])
            if grammar.INTEGER <= grammar.ENDING_KIND[state] <= grammar.EXPONENT:
                out[row] = grammar.ENDING_KIND[state]
    return out
