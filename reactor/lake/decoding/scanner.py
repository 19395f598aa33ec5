"""The scanner: one pass over the bytes of each JSON text that is strict (RFC 8259) and says where the wanted members stand.

It never copies and never converts: a *token* is a kind and a range of bytes, so every digit and every blank of a value survives. What
follows works on the tokens of one member of all records at a time. Containers inside a scanned text are known to be well formed; they are
opened (`scan_members`, `scan_items`) only where a declared type or a path leads into them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reactor.lake.decoding.compiled import compiled
from reactor.lake.decoding.reasons import EMPTY_VALUE, FINE, NESTING_TOO_DEEP, NOT_JSON, NOT_OBJECT, NOT_UTF8, Reasons

Bytes = npt.NDArray[np.uint8]
Kinds = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

DEPTH_MAX = 1024
"""Levels of nesting that a payload may have."""

ABSENT, NULL, TRUE, FALSE, INTEGER, FRACTION, EXPONENT, TEXT, ESCAPED, OBJECT, ARRAY = range(11)
"""Kinds of a token. FRACTION has a point, EXPONENT has one (and perhaps a point), ESCAPED is a text with a backslash in it."""
TWICE = 128
"""Added to the kind of a member that occurs more than once."""

_BROKEN, _BAD_UTF8 = -1, -2
_PLAIN, _QUOTE, _BACKSLASH, _CONTROL, _HIGH = range(5)
_IN_VALUE, _IN_FIRST_NAME, _IN_NAME, _IN_FIRST_ITEM, _AFTER = range(5)


def _text_classes() -> Bytes:
    classes = np.full(256, _PLAIN, np.uint8)
    classes[:0x20], classes[0x80:] = _CONTROL, _HIGH
    classes[ord('"')], classes[ord("\\")] = _QUOTE, _BACKSLASH
    return classes


def _flags(members: bytes) -> npt.NDArray[np.bool_]:
    flags = np.zeros(256, np.bool_)
    flags[list(members)] = True
    return flags


_CLASSES = _text_classes()
_BLANK = _flags(b" \t\n\r")
_SHORT_ESCAPE = _flags(b'"\\/bfnrt')
_WORD_TRUE, _WORD_FALSE, _WORD_NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


@compiled
def _after_rune(data: Bytes, at: int, end: int) -> int:
    """Where the UTF-8 sequence at `at` ends. No surrogates, no overlong forms, nothing above U+10FFFF (RFC 3629)."""
    lead = data[at]
    if lead < 0xC2 or lead > 0xF4:
        return _BAD_UTF8
    more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    if at + more >= end:
        return _BAD_UTF8
    second = data[at + 1]
    lowest = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    highest = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    if second < lowest or second > highest:
        return _BAD_UTF8
    for k in range(2, more + 1):
        if data[at + k] & 0xC0 != 0x80:
            return _BAD_UTF8
    return at + more + 1


@compiled
def _is_utf8(data: Bytes, at: int, end: int) -> bool:
    while at < end:
        if data[at] < 0x80:
            at += 1
        else:
            at = _after_rune(data, at, end)
            if at < 0:
                return False
    return True


@compiled
def _hex4(data: Bytes, at: int, end: int) -> int:
    """The four hexadecimal digits at `at`."""
    if at + 4 > end:
        return _BROKEN
    value = 0
    for k in range(4):
        b = int(data[at + k])
        digit = b - 48 if 48 <= b <= 57 else (b | 32) - 87 if 97 <= (b | 32) <= 102 else -1
        if digit < 0:
            return _BROKEN
        value = value * 16 + digit
    return value


@compiled
def _after_escape(data: Bytes, at: int, end: int) -> int:
    """Where the escape whose backslash is at `at` ends; a surrogate pair is one escape, half a pair is none."""
    if at + 1 >= end:
        return _BROKEN
    if _SHORT_ESCAPE[data[at + 1]]:
        return at + 2
    if data[at + 1] != 117:
        return _BROKEN
    unit = _hex4(data, at + 2, end)
    if unit < 0 or 0xDC00 <= unit < 0xE000:
        return _BROKEN
    if unit < 0xD800 or unit >= 0xE000:
        return at + 6
    if at + 8 > end or data[at + 6] != 92 or data[at + 7] != 117:
        return _BROKEN
    low = _hex4(data, at + 8, end)
    return at + 12 if 0xDC00 <= low < 0xE000 else _BROKEN


@compiled
def _text(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """From behind the opening quote: where the closing quote is, and whether a backslash stands before it."""
    escaped = False
    while at < end:
        c = _CLASSES[data[at]]
        if c == _PLAIN:
            at += 1
        elif c == _QUOTE:
            return at, escaped
        elif c == _BACKSLASH:
            escaped = True
            at = _after_escape(data, at, end)
        elif c == _HIGH:
            at = _after_rune(data, at, end)
        else:
            return _BROKEN, escaped
        if at < 0:
            return at, escaped
    return _BROKEN, escaped


@compiled
def _after_digits(data: Bytes, at: int, end: int) -> int:
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@compiled
def _number(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where the number at `at` ends, and its kind."""
    if at < end and data[at] == 45:
        at += 1
    whole = _after_digits(data, at, end)
    if whole == at or (data[at] == 48 and whole > at + 1):
        return _BROKEN, ABSENT
    at, kind = whole, INTEGER
    if at < end and data[at] == 46:
        start, kind = at + 1, FRACTION
        at = _after_digits(data, start, end)
        if at == start:
            return _BROKEN, ABSENT
    if at < end and (data[at] | 32) == 101:
        start, kind = at + 1, EXPONENT
        if start < end and (data[start] == 43 or data[start] == 45):
            start += 1
        at = _after_digits(data, start, end)
        if at == start:
            return _BROKEN, ABSENT
    return at, kind


@compiled
def _after_word(data: Bytes, at: int, end: int, word: Bytes) -> int:
    if at + len(word) > end:
        return _BROKEN
    for k in range(len(word)):
        if data[at + k] != word[k]:
            return _BROKEN
    return at + len(word)


@compiled
def _scalar(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where the scalar at `at` ends, and its kind."""
    first = data[at]
    if first == 34:
        close, escaped = _text(data, at + 1, end)
        return (close + 1 if close >= 0 else close), (ESCAPED if escaped else TEXT)
    if first == 116:
        return _after_word(data, at, end, _WORD_TRUE), TRUE
    if first == 102:
        return _after_word(data, at, end, _WORD_FALSE), FALSE
    if first == 110:
        return _after_word(data, at, end, _WORD_NULL), NULL
    return _number(data, at, end)


@compiled
def _unescape(data: Bytes, at: int, end: int, out: Bytes, o: int) -> int:
    """Write the text `[at, end)`, whose escapes are known to be right, to `out` from `o` on; where it ends. Never longer than its source."""
    while at < end:
        b = int(data[at])
        if b != 92:
            out[o] = b
            at += 1
            o += 1
            continue
        b = int(data[at + 1])
        if b != 117:
            out[o] = 8 if b == 98 else 12 if b == 102 else 10 if b == 110 else 13 if b == 114 else 9 if b == 116 else b
            at += 2
            o += 1
            continue
        rune = _hex4(data, at + 2, end)
        at += 6
        if 0xD800 <= rune < 0xDC00:
            rune = 0x10000 + ((rune - 0xD800) << 10) + (_hex4(data, at + 2, end) - 0xDC00)
            at += 6
        if rune < 0x80:
            out[o] = rune
            o += 1
            continue
        more = 1 if rune < 0x800 else 2 if rune < 0x10000 else 3
        out[o] = (0xC0 if more == 1 else 0xE0 if more == 2 else 0xF0) | rune >> 6 * more
        for k in range(1, more + 1):
            out[o + k] = 0x80 | (rune >> 6 * (more - k)) & 0x3F
        o += more + 1
    return o


@compiled
def _wanted(data: Bytes, at: int, end: int, names: Bytes, ends: Places, likely: int) -> int:
    """The index of the name `[at, end)` among the wanted ones, looked for from `likely` on; -1: none of them."""
    count = len(ends) - 1
    for k in range(count):
        i = (likely + k) % count
        if ends[i + 1] - ends[i] != end - at:
            continue
        equal = True
        for j in range(end - at):
            if data[at + j] != names[ends[i] + j]:
                equal = False
                break
        if equal:
            return i
    return -1


@compiled
def _wanted_escaped(data: Bytes, at: int, end: int, names: Bytes, ends: Places, likely: int) -> int:
    spelt = np.empty(end - at, np.uint8)
    return _wanted(spelt, 0, _unescape(data, at, end, spelt, 0), names, ends, likely)


@compiled
def _scan(
    data: Bytes, at: int, end: int, names: Bytes, ends: Places, kinds: Kinds, starts: Places, stops: Places, row: int, objects: Kinds,
) -> int:
    """Check one JSON text, and note the wanted members of its top object in row `row`. `objects` is the stack of open containers."""
    depth, field, likely, tail, state, top = 0, -1, 0, at, _IN_VALUE, OBJECT
    while True:
        while at < end and _BLANK[data[at]]:
            at += 1
        if at >= end:
            whole = state == _AFTER and depth == 0
            return (FINE if top == OBJECT else NOT_OBJECT) if whole else NOT_JSON
        b = data[at]
        if state == _AFTER:
            if depth == 1 and field >= 0:
                stops[field, row] = tail
                field = -1
            if depth == 0:
                return NOT_JSON
            if b == 44:
                state = _IN_NAME if objects[depth - 1] else _IN_VALUE
            elif b == (125 if objects[depth - 1] else 93):
                depth -= 1
                tail = at + 1
            else:
                return NOT_JSON
            at += 1
        elif (state == _IN_FIRST_NAME and b == 125) or (state == _IN_FIRST_ITEM and b == 93):
            depth -= 1
            at += 1
            tail, state = at, _AFTER
        elif state in (_IN_FIRST_NAME, _IN_NAME):
            if b != 34:
                return NOT_JSON
            close, escaped = _text(data, at + 1, end)
            if close < 0:
                return NOT_JSON
            if depth == 1 and top == OBJECT:
                if escaped:
                    field = _wanted_escaped(data, at + 1, close, names, ends, likely)
                else:
                    field = _wanted(data, at + 1, close, names, ends, likely)
                likely = field + 1 if field >= 0 else likely
            at = close + 1
            while at < end and _BLANK[data[at]]:
                at += 1
            if at >= end or data[at] != 58:
                return NOT_JSON
            at += 1
            state = _IN_VALUE
        else:
            container = b in (123, 91)
            if container:
                if depth >= DEPTH_MAX:
                    return NESTING_TOO_DEEP
                kind = OBJECT if b == 123 else ARRAY
                start, at, state = at, at + 1, (_IN_FIRST_NAME if b == 123 else _IN_FIRST_ITEM)
            else:
                start, state = at, _AFTER
                at, kind = _scalar(data, at, end)
                if at < 0:
                    return NOT_JSON
                tail = at
            if depth == 0:
                top = kind
            elif depth == 1 and field >= 0:
                twice = TWICE if kinds[field, row] != ABSENT else 0
                kinds[field, row] = kind | twice
                starts[field, row] = start
            if container:
                objects[depth] = b == 123
                depth += 1


@compiled
def scan_members(
    data: Bytes, froms: Places, tos: Places, present: Any, names: Bytes, ends: Places,
) -> tuple[Reasons, Kinds, Places, Places]:
    """Scan the texts `[froms[i], tos[i])` where `present`: (reason of each, then kind, start and stop by wanted name and row)."""
    rows, fields = len(froms), len(ends) - 1
    reasons, objects = np.zeros(rows, np.uint8), np.zeros(DEPTH_MAX, np.uint8)
    kinds, starts, stops = np.zeros((fields, rows), np.uint8), np.zeros((fields, rows), np.int64), np.zeros((fields, rows), np.int64)
    for row in range(rows):
        if not present[row]:
            continue
        at, end = froms[row], tos[row]
        if at == end:
            reasons[row] = EMPTY_VALUE
            continue
        start = at + 3 if end - at >= 3 and data[at] == 0xEF and data[at + 1] == 0xBB and data[at + 2] == 0xBF else at
        found = _scan(data, start, end, names, ends, kinds, starts, stops, row, objects)
        if found in (NOT_JSON, NESTING_TOO_DEEP) and not _is_utf8(data, at, end):
            found = NOT_UTF8
        reasons[row] = found
    return reasons, kinds, starts, stops


@compiled
def scan_items(
    data: Bytes, froms: Places, tos: Places, objects: Any,
) -> tuple[Places, Kinds, Places, Places, Kinds, Places, Places]:
    """Open scanned containers, `[` or where `objects` `{`; one with `froms == tos` has no items.

    (Offsets of the items of each container, then kind, start and stop of each item, then of each name; kinds of names ABSENT in arrays.)
    """
    offsets = np.zeros(len(froms) + 1, np.int64)
    for row in range(len(froms)):
        offsets[row + 1] = offsets[row] + _count_items(data, froms[row], tos[row])
    items = offsets[-1]
    kinds, starts, stops = np.zeros(items, np.uint8), np.zeros(items, np.int64), np.zeros(items, np.int64)
    name_kinds, name_starts, name_stops = np.zeros(items, np.uint8), np.zeros(items, np.int64), np.zeros(items, np.int64)
    for row in range(len(froms)):
        at, end = froms[row] + 1, tos[row]
        for item in range(offsets[row], offsets[row + 1]):
            at = _after_blanks_and_comma(data, at, end)
            if objects[row]:
                close, escaped = _text(data, at + 1, end)
                name_kinds[item], name_starts[item], name_stops[item] = ESCAPED if escaped else TEXT, at, close + 1
                at = close + 1
                while data[at] != 58:
                    at += 1
                at = _after_blanks_and_comma(data, at + 1, end)
            kind = OBJECT if data[at] == 123 else ARRAY if data[at] == 91 else ABSENT
            starts[item] = at
            if kind == ABSENT:
                at, kind = _scalar(data, at, end)
            else:
                at = _after_container(data, at, end)
            kinds[item], stops[item] = kind, at
    return offsets, kinds, starts, stops, name_kinds, name_starts, name_stops


@compiled
def _after_blanks_and_comma(data: Bytes, at: int, end: int) -> int:
    while at < end and (_BLANK[data[at]] or data[at] == 44):
        at += 1
    return at


@compiled
def _after_container(data: Bytes, at: int, end: int) -> int:
    """Where the scanned container at `at` ends: brackets outside of texts are balanced."""
    depth = 0
    while at < end:
        b = data[at]
        at += 1
        if b == 34:
            at = _text(data, at, end)[0] + 1
        elif b in (123, 91):
            depth += 1
        elif b in (125, 93):
            depth -= 1
            if depth == 0:
                return at
    return at


@compiled
def _count_items(data: Bytes, at: int, end: int) -> int:
    """How many items the scanned container `[at, end)` has: its commas at depth one, and one more if anything stands in it."""
    if at == end:
        return 0
    inside = at + 1
    while _BLANK[data[inside]]:
        inside += 1
    if inside == end - 1:
        return 0
    depth, commas = 0, 0
    while at < end:
        b = data[at]
        at += 1
        if b == 34:
            at = _text(data, at, end)[0] + 1
        elif b in (123, 91):
            depth += 1
        elif b in (125, 93):
            depth -= 1
        elif b == 44 and depth == 1:
            commas += 1
    return commas + 1


@compiled
def copy_texts(data: Bytes, kinds: Kinds, starts: Places, stops: Places, as_json: bool) -> tuple[Places, Bytes]:
    """The texts of tokens, one behind the other: (offsets, bytes). Texts lose quotes and escapes unless `as_json`; ABSENT and NULL are empty."""
    rows = len(kinds)
    offsets, size = np.zeros(rows + 1, np.int64), 0
    for row in range(rows):
        size += stops[row] - starts[row]
    out, o = np.empty(size, np.uint8), 0
    for row in range(rows):
        kind, at, end = kinds[row], starts[row], stops[row]
        if kind == ESCAPED and not as_json:
            o = _unescape(data, at + 1, end - 1, out, o)
        elif kind > NULL:
            quoted = kind == TEXT and not as_json
            for k in range(at + quoted, end - quoted):
                out[o] = data[k]
                o += 1
        offsets[row + 1] = o
    return offsets, out[:o]


@compiled
def number_kinds(data: Bytes, offsets: Places, kinds: Kinds) -> Kinds:
    """The kinds, with INTEGER, FRACTION or EXPONENT for a TEXT that is exactly one JSON number and TEXT for every other one."""
    out = kinds.copy()
    for row in range(len(kinds)):
        if kinds[row] in (TEXT, ESCAPED):
            at, kind = _number(data, offsets[row], offsets[row + 1])
            out[row] = kind if at == offsets[row + 1] and kind != ABSENT else TEXT
    return out
