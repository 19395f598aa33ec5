"""The scanner: one pass over the bytes of each JSON text that is strict and says where the children of its top container stand.

It never copies and never converts: a *token* is a kind and a range of bytes, so every digit and every blank of a value survives. What
follows works on the tokens of one member of all records at a time. A container inside a scanned text is opened by scanning it in turn,
and only where a declared type or a path leads into it. Of no records nothing is asked: a first start needs no machine code to make its tables.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reactor.compiled import compiled, kernel
from reactor.lake.decoding import grammar
from reactor.lake.decoding.reasons import EMPTY_VALUE, FINE, NESTING_TOO_DEEP, NOT_JSON, NOT_OBJECT, Reasons
from reactor.loads import copied, eight, item, zeros

Bytes = npt.NDArray[np.uint8]
Kinds = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DEPTH_MAX = 1024
"""Levels of nesting that a payload may have."""
TWICE = 128
"""Added to the kind of a member that occurs more than once."""

_EACH, _TOP = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_BLANKS, _QUOTES, _BACKSLASHES = (np.uint64(byte * int(_EACH)) for byte in b' "\\')
_VALUE, _NAME = 0, 1
_NO_ROOM = 255
_ROOM = 64
"""Members that most texts do not have more of; where one has, the rest is scanned with room for them."""
_UNREAD = -1
_GAP, _SIZE, _WANTED, _KNOWN = range(4)
"""What is known of a child: where in the data, and how many bytes, stood between the value before and its own; which wanted name is in these."""


def scan(data: Bytes, froms: Places, tos: Places, present: Mask, room: int) -> tuple[Reasons, Places, Kinds, Places]:
    """Scan the texts `[froms[i], tos[i])` where `present`: (reasons, firsts, kinds, places). A text is FINE if it is one JSON object.

    The children of text `i`, an object or an array, are `firsts[i]` to `firsts[i + 1]` of `kinds[part, child]` and
    `places[part, start or stop, child]`; the parts are value and name. If they are more than `room`, `firsts` is empty and nothing holds.
    """
    reasons, firsts, objects = np.zeros(len(froms), np.uint8), np.zeros(len(froms) + 1, np.int64), np.zeros(DEPTH_MAX, np.bool_)
    kinds, places = np.zeros((2, room), np.uint8), np.zeros((2, 2, room), np.int64)
    fits = not len(froms) or _scan_texts(data, froms, tos, present, reasons, firsts, objects, kinds, places, np.zeros((_KNOWN, 0), np.int64))
    return reasons, firsts if fits else firsts[:0], kinds, places


@kernel(writes=6)
def _scan_texts(
    data: Bytes, froms: Places, tos: Places, present: Mask, reasons: Reasons, firsts: Places, objects: Mask, kinds: Kinds, places: Places,
    known: Places,
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
        reasons[row], after = _scan_text(data, froms[row], tos[row], objects, kinds, places, child, known)
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
def _scan_text(  # noqa: C901, PLR0912 - one state machine; parts of it as functions of their own cost twice its time (arrays are counted)
    data: Bytes, at: int, end: int, objects: Mask, kinds: Kinds, places: Places, child: int, known: Places,
) -> tuple[int, int]:
    """(Reason of the text `[at, end)`, the child after its last). `objects` is the stack: whether an open container is an object.

    `known`: by child what stood in front of it in a text before (see `members`); where the same bytes stand again they are not read.
    """
    at = _after_bom(data, at, end)
    state, depth, part, reason = grammar.VALUE, 0, _VALUE, NOT_OBJECT
    while at < end:
        before = state
        state = int(grammar.NEXT[before, item(data, at)])
        if state == grammar.REFUSED:
            return NOT_JSON, child
        if state > grammar.OPEN_ARRAY:
            at -= state == grammar.END_NUMBER
            depth -= state == grammar.CLOSE
            if depth == 1:
                kinds[part, child] = grammar.ENDING_KIND[before] if state != grammar.CLOSE else kinds[part, child]
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
            state = int(grammar.NEXT[state, item(data, at)])
            if state == grammar.STRING:
                at = _last_ordinary(data, at, end)
            elif state == grammar.DIGITS:
                while at + 1 < end and 48 <= item(data, at + 1) <= 57:
                    at += 1
        if depth == 1 and (state == grammar.AFTER_MEMBER or state == grammar.FIRST_NAME) and child < known.shape[1]:  # noqa: PLR1714 - a tuple costs
            size = _standing(data, at + 1, end, known[_GAP, child], known[_SIZE, child])
            if size > 0:
                places[_NAME, 0, child] = _UNREAD
                at, state = at + size, grammar.VALUE
        at += 1
    complete = state == grammar.DONE or (depth == 0 and grammar.INTEGER <= grammar.ENDING_KIND[state] <= grammar.EXPONENT)
    return (reason if complete else NOT_JSON), child


@compiled
def _standing(data: Bytes, at: int, end: int, gap: int, size: int) -> int:
    """How many bytes stand at `at` as they stand at `gap`: `size`, or 0."""
    if at + size > end:
        return 0
    same = 0
    while same + 8 <= size and eight(data, at + same) == eight(data, gap + same):
        same += 8
    while same < size and item(data, at + same) == item(data, gap + same):
        same += 1
    return size if same == size else 0


@compiled
def _after_bom(data: Bytes, at: int, end: int) -> int:
    marked = end - at >= 3 and data[at] == 0xEF and data[at + 1] == 0xBB and data[at + 2] == 0xBF
    return at + 3 if marked else at


@compiled
def _special(word: np.uint64) -> np.uint64:
    """The lowest bit that is set stands in the first of eight bytes that means something inside a JSON string: a control character, a quote, a
    backslash, a byte of something longer than ASCII. Zero: none of them does.
    """
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    return (word | (word - _BLANKS) | (quotes - _EACH) | (backslashes - _EACH)) & _TOP


@compiled
def _last_ordinary(data: Bytes, at: int, end: int) -> int:
    """The last of the bytes behind `at` that change nothing inside a string, or `at`."""
    while at + 8 < end:
        found = _special(eight(data, at + 1))
        if found:
            return at + (zeros(found) >> 3)
        at += 8
    while at + 1 < end and grammar.ORDINARY[item(data, at + 1)]:
        at += 1
    return at


def members(data: Bytes, froms: Places, tos: Places, present: Mask, wanted: Bytes, ends: Places) -> tuple[Reasons, Kinds, Places]:
    """Scan the texts `[froms[i], tos[i])` where `present`, and pick members by name: (reasons, kinds, places) as `scan` has them.

    A text is FINE if it is one JSON object. Of wanted name `k`, which is `wanted[ends[k]:ends[k + 1]]`, text `i` has a member of
    `kinds[k, i]` at `places[start or stop, k, i]`; nothing is kept of the others. The texts of a topic mostly have the same members in the
    same order, so what stands between two values is compared with the text before, eight bytes at once, and read only where it differs.
    """
    shape, room, row = (len(ends) - 1, len(froms)), _ROOM, 0
    reasons, found, found_at = np.zeros(len(froms), np.uint8), np.zeros(shape, np.uint8), np.zeros((2, *shape), np.int64)
    objects, spelt = np.zeros(DEPTH_MAX, np.bool_), np.empty(int((tos - froms).max(initial=0)), np.uint8)
    while row < len(froms):
        scratch = np.zeros((2, room), np.uint8), np.zeros((2, 2, room), np.int64), np.zeros((_KNOWN, room), np.int64)
        row = _members(data, froms, tos, present, wanted, ends, row, reasons, found, found_at, objects, *scratch, spelt)
        room *= 4
    return reasons, found, found_at


@kernel(writes=8)
def _members(
    data: Bytes, froms: Places, tos: Places, present: Mask, wanted: Bytes, ends: Places, first: int,
    reasons: Reasons, found: Kinds, found_at: Places, objects: Mask, kinds: Kinds, places: Places, known: Places, spelt: Bytes,
) -> int:
    """The text that has more children than there is room for, or how many texts there are."""
    start = likely = first - first  # 0, but no literal: for these numba compiles what is called once more
    for row in range(first, len(froms)):
        if not present[row]:
            continue
        if froms[row] == tos[row]:
            reasons[row] = EMPTY_VALUE
            continue
        reasons[row], after = _scan_text(data, froms[row], tos[row], objects, kinds, places, start, known)
        if reasons[row] == _NO_ROOM:
            return row
        for child in range(after if reasons[row] == FINE else 0):
            if places[_NAME, 0, child] != _UNREAD:
                at, stop = places[_NAME, 0, child] + 1, places[_NAME, 1, child] - 1
                known[_GAP, child] = places[_VALUE, 1, child - 1] if child else at - 1
                known[_SIZE, child] = places[_VALUE, 0, child] - known[_GAP, child]
                if kinds[_NAME, child] == grammar.ESCAPED:
                    known[_WANTED, child] = _among(spelt, start, _unescape(data, at, stop, spelt, start), wanted, ends, likely)
                else:
                    known[_WANTED, child] = _among(data, at, stop, wanted, ends, likely)
            i = known[_WANTED, child]
            if i < len(ends) - 1:
                found[i, row] = kinds[_VALUE, child] | (TWICE if found[i, row] != grammar.ABSENT else 0)
                found_at[0, i, row], found_at[1, i, row] = places[_VALUE, 0, child], places[_VALUE, 1, child]
                likely = i + 1
    return len(froms)


@compiled
def _among(text: Bytes, at: int, stop: int, wanted: Bytes, ends: Places, likely: int) -> int:
    """Which of the wanted names stands at `[at, stop)`, tried from `likely` on; their number: none."""
    size, count = stop - at, len(ends) - 1
    for k in range(likely, likely + count):
        i = k if k < count else k - count
        first = ends[i]
        if ends[i + 1] - first == size:
            same = 0
            while same < size and text[at + same] == wanted[first + same]:
                same += 1
            if same == size:
                return i
    return count


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
    if len(kinds):
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
            o += copied(out, o, data, at, end - at)
        offsets[row + 1] = o


def number_kinds(data: Bytes, offsets: Places, kinds: Kinds) -> Kinds:
    """The kinds, but INTEGER, FRACTION or EXPONENT for a string that is exactly one JSON number."""
    out = kinds.copy()
    if len(out):
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
    scan(data, at, at + len(data), one, 1)
    _, kinds, (starts, stops) = members(data, at, at + len(data), one, data[2:3], np.array([0, 1]))
    offsets, text = copy_texts(data, kinds[0], starts[0], stops[0], as_json=False)
    number_kinds(text, offsets, kinds[0])
