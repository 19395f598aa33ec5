"""The scanner: one pass over the bytes of each JSON text that is strict and says where the children of its top container stand.

It never copies and never converts: a *token* is a kind and a range of bytes, so every digit and every blank of a value survives. What
follows works on the tokens of one member of all records at a time. A container inside a scanned text is opened by scanning it in turn,
and only where a declared type or a path leads into it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reactor.compiled import compiled, kernel
from reactor.lake.decoding import grammar
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


def scan(data: Bytes, froms: Places, tos: Places, present: Mask, room: int) -> tuple[Reasons, Places, Kinds, Places]:
    """Scan the texts `[froms[i], tos[i])` where `present`: (reasons, firsts, kinds, places). A text is FINE if it is one JSON object.

    The children of text `i`, an object or an array, are `firsts[i]` to `firsts[i + 1]` of `kinds[part, child]` and
    `places[part, start or stop, child]`; the parts are value and name. If they are more than `room`, `firsts` is empty and nothing holds.
    """
    reasons, firsts, objects = np.zeros(len(froms), np.uint8), np.zeros(len(froms) + 1, np.int64), np.zeros(DEPTH_MAX, np.bool_)
    kinds, places = np.zeros((2, room), np.uint8), np.zeros((2, 2, room), np.int64)
    fits = _scan_texts(data, froms, tos, present, reasons, firsts, objects, kinds, places)
    return reasons, firsts if fits else firsts[:0], kinds, places


@kernel(writes=5)
def _scan_texts(
    data: Bytes, froms: Places, tos: Places, present: Mask, reasons: Reasons, firsts: Places, objects: Mask, kinds: Kinds, places: Places,
) -> bool:
    """Whether there is room for all children."""
    for row in range(len(froms)):
        child = firsts[row]
        firsts[row + 1] = child
        if not present[row]:
            continue
        if froms[row] == tos[row]:
            reasons[row] = EMPTY_VALUE
            continue
        reasons[row], after = _scan_text(data, froms[row], tos[row], objects, kinds, places, child)
        if reasons[row] == _NO_ROOM:
            return False
        if reasons[row] == FINE or reasons[row] == NOT_OBJECT:
            firsts[row + 1] = after
        else:  # what it left behind is no child of the next text
            for k in range(child, after + 1 if after < kinds.shape[1] else after):
                for part in range(2):
                    kinds[part, k], places[part, 0, k], places[part, 1, k] = grammar.ABSENT, 0, 0
    return True


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


def pick(
    data: Bytes, froms: Places, tos: Places, kinds: Kinds, starts: Places, stops: Places, firsts: Places, wanted: Bytes, ends: Places,
) -> tuple[Kinds, Places, Places]:
    """Of the children of each text those with a wanted name: kind, start and stop by wanted name and text.

    The name of child `k` is `data[froms[k]:tos[k]]`, wanted name `i` is `wanted[ends[i]:ends[i + 1]]`.
    """
    shape = len(ends) - 1, len(firsts) - 1
    found, places = np.zeros(shape, np.uint8), np.zeros((2, *shape), np.int64)
    _pick(data, froms, tos, kinds, starts, stops, firsts, wanted, ends, found, places)
    return found, places[0], places[1]


@kernel(writes=2)
def _pick(
    data: Bytes, froms: Places, tos: Places, kinds: Kinds, starts: Places, stops: Places, firsts: Places, wanted: Bytes, ends: Places,
    found: Kinds, places: Places,
) -> None:
    likely, count = 0, len(ends) - 1
    for row in range(len(firsts) - 1):
        for child in range(firsts[row], firsts[row + 1]):
            at, size = froms[child], tos[child] - froms[child]
            for k in range(likely, likely + count):
                i = k if k < count else k - count
                first = ends[i]
                if ends[i + 1] - first != size:
                    continue
                same = 0
                while same < size and data[at + same] == wanted[first + same]:
                    same += 1
                if same == size:
                    found[i, row] = kinds[child] | (TWICE if found[i, row] != grammar.ABSENT else 0)
                    places[0, i, row], places[1, i, row] = starts[child], stops[child]
                    likely = i + 1
                    break


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


def copy_texts(data: Bytes, kinds: Kinds, starts: Places, stops: Places, as_json: bool) -> tuple[Places, Bytes]:
    """The texts of tokens, one behind the other: (offsets, bytes). Strings lose quotes and escapes unless `as_json`; ABSENT and NULL are empty."""
    sizes = np.where(kinds > grammar.NULL, stops - starts, 0)
    offsets, out = np.zeros(len(kinds) + 1, np.int64), np.empty(int(sizes.sum()), np.uint8)
    _copy_texts(data, kinds, starts, stops, as_json, offsets, out)
    return offsets, out[: offsets[-1]]


@kernel(writes=2)
def _copy_texts(data: Bytes, kinds: Kinds, starts: Places, stops: Places, as_json: bool, offsets: Places, out: Bytes) -> None:
    o = offsets[0]
    for row in range(len(kinds)):
        kind, at, end = kinds[row], starts[row], stops[row]
        if kind == grammar.ESCAPED and not as_json:
            o = _unescape(data, at + 1, end - 1, out, o)
        elif kind > grammar.NULL:
            if kind == grammar.TEXT and not as_json:
                at, end = at + 1, end - 1
            while at < end:
                out[o] = data[at]
                o, at = o + 1, at + 1
        offsets[row + 1] = o


def number_kinds(data: Bytes, offsets: Places, kinds: Kinds) -> Kinds:
    """The kinds, but INTEGER, FRACTION or EXPONENT for a string that is exactly one JSON number."""
    out = kinds.copy()
    _number_kinds(data, offsets, out)
    return out


@kernel(writes=1)
def _number_kinds(data: Bytes, offsets: Places, kinds: Kinds) -> None:
    for row in range(len(kinds)):
        if kinds[row] == grammar.TEXT or kinds[row] == grammar.ESCAPED:
            state = grammar.BEGIN_SCALAR
            for at in range(offsets[row], offsets[row + 1]):
                state = int(grammar.NEXT[state, data[at]])
            if grammar.INTEGER <= grammar.ENDING_KIND[state] <= grammar.EXPONENT:
                kinds[row] = grammar.ENDING_KIND[state]


def prepare() -> None:
    """Compile all of it now (`reactor.compiled`)."""
    data, at, one = np.frombuffer(b'{"a":"1"}', np.uint8), np.zeros(1, np.int64), np.ones(1, np.bool_)
    _, firsts, kinds, places = scan(data, at, at + len(data), one, 1)
    _, starts, stops = pick(data, places[1, 0], places[1, 1], kinds[0], places[0, 0], places[0, 1], firsts, data[2:3], np.array([0, 1]))
    offsets, text = copy_texts(data, kinds[0], starts[0], stops[0], as_json=False)
    number_kinds(text, offsets, kinds[0])
