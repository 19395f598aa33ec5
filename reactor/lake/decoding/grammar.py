"""The grammar of JSON (RFC 8259), and of UTF-8 (RFC 3629) inside its strings, as one table: state and byte to state.

States from EVENT on ask the scanner to act (it then chooses the next state itself); all others cost one look-up a byte. What the table does
not name is REFUSED: control characters, comments, trailing commas, `NaN`, leading zeros, halves of surrogate pairs, overlong UTF-8.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.uint8]

ABSENT, NULL, TRUE, FALSE, INTEGER, FRACTION, EXPONENT, TEXT, ESCAPED, OBJECT, ARRAY = range(11)
"""Kinds of a token. A FRACTION has a point, an EXPONENT an `e` (and perhaps a point), an ESCAPED text a backslash."""

_STRING_PARTS = ("", "+1", "+2", "+3", "+E0", "+ED", "+F0", "+F4")
_STATES = (
    "VALUE", "FIRST_ITEM", "AFTER_ITEM", "FIRST_NAME", "NAME", "COLON", "AFTER_MEMBER", "DONE",
    *("STRING" + part for part in _STRING_PARTS), *("STRING_E" + part for part in _STRING_PARTS),
    "BACKSLASH", "HEX1", "HEX2", "HEX3", "HEX4", "HEX_D", "HIGH3", "HIGH4", "PAIR_BACKSLASH", "PAIR_U", "PAIR_D", "PAIR_C",
    "MINUS", "ZERO", "DIGITS", "POINT", "DECIMALS", "E", "E_SIGN", "E_DIGITS",
    "T", "TR", "TRU", "F", "FA", "FAL", "FALS", "N", "NU", "NUL",
    "REFUSED", "BEGIN_NAME", "BEGIN_TEXT", "BEGIN_SCALAR", "OPEN_OBJECT", "OPEN_ARRAY", "END_TEXT", "END_NUMBER", "END_WORD", "CLOSE",
)
"""Inside a string: STRING_E has had an escape; `+1` to `+3` bytes of a UTF-8 sequence are to come, or what may follow `E0`, `ED`, `F0`, `F4`."""
_NUMBER = {state: i for i, state in enumerate(_STATES)}
VALUE, AFTER_ITEM, FIRST_NAME, COLON, AFTER_MEMBER, DONE, STRING, DIGITS = (
    _NUMBER[state] for state in ("VALUE", "AFTER_ITEM", "FIRST_NAME", "COLON", "AFTER_MEMBER", "DONE", "STRING", "DIGITS")
)
EVENT = REFUSED = _NUMBER["REFUSED"]
BEGIN_NAME, BEGIN_TEXT, BEGIN_SCALAR, OPEN_OBJECT, OPEN_ARRAY, END_TEXT, END_NUMBER, END_WORD, CLOSE = range(REFUSED + 1, REFUSED + 10)

_DIGIT, _HEX = b"0123456789", b"0123456789abcdefABCDEF"
_BLANK = b" \t\n\r"
_LITERALS = (b"true", b"false", b"null")


def _span(lo: int, hi: int) -> bytes:
    return bytes(range(lo, hi + 1))


_ANY = _span(0x80, 0xBF)
_RULES: dict[str, list[tuple[bytes, str]]] = {
    "VALUE": [(_BLANK, "VALUE"), (b"{", "OPEN_OBJECT"), (b"[", "OPEN_ARRAY"), (b'"', "BEGIN_TEXT"), (b"-tfn" + _DIGIT, "BEGIN_SCALAR")],
    "AFTER_ITEM": [(_BLANK, "AFTER_ITEM"), (b",", "VALUE"), (b"]", "CLOSE")],
    "FIRST_NAME": [(_BLANK, "FIRST_NAME"), (b'"', "BEGIN_NAME"), (b"}", "CLOSE")],
    "NAME": [(_BLANK, "NAME"), (b'"', "BEGIN_NAME")],
    "COLON": [(_BLANK, "COLON"), (b":", "VALUE")],
    "AFTER_MEMBER": [(_BLANK, "AFTER_MEMBER"), (b",", "NAME"), (b"}", "CLOSE")],
    "DONE": [(_BLANK, "DONE")],
    "BACKSLASH": [(b'"\\/bfnrt', "STRING_E"), (b"u", "HEX1")],
    "HEX1": [(_HEX, "HEX2"), (b"dD", "HEX_D")],
    "HEX2": [(_HEX, "HEX3")],
    "HEX3": [(_HEX, "HEX4")],
    "HEX4": [(_HEX, "STRING_E")],
    "HEX_D": [(b"01234567", "HEX3"), (b"89abAB", "HIGH3")],
    "HIGH3": [(_HEX, "HIGH4")],
    "HIGH4": [(_HEX, "PAIR_BACKSLASH")],
    "PAIR_BACKSLASH": [(b"\\", "PAIR_U")],
    "PAIR_U": [(b"u", "PAIR_D")],
    "PAIR_D": [(b"dD", "PAIR_C")],
    "PAIR_C": [(b"cdefCDEF", "HEX3")],
    "MINUS": [(b"0", "ZERO"), (b"123456789", "DIGITS")],
    "ZERO": [(b".", "POINT"), (b"eE", "E"), (_BLANK + b",]}", "END_NUMBER")],
    "DIGITS": [(_DIGIT, "DIGITS"), (b".", "POINT"), (b"eE", "E"), (_BLANK + b",]}", "END_NUMBER")],
    "POINT": [(_DIGIT, "DECIMALS")],
    "DECIMALS": [(_DIGIT, "DECIMALS"), (b"eE", "E"), (_BLANK + b",]}", "END_NUMBER")],
    "E": [(b"+-", "E_SIGN"), (_DIGIT, "E_DIGITS")],
    "E_SIGN": [(_DIGIT, "E_DIGITS")],
    "E_DIGITS": [(_DIGIT, "E_DIGITS"), (_BLANK + b",]}", "END_NUMBER")],
    # A beginning is looked up a second time, with the same byte, for the state behind it.
    "BEGIN_NAME": [(b'"', "STRING")], "BEGIN_TEXT": [(b'"', "STRING")], "OPEN_OBJECT": [(b"{", "FIRST_NAME")], "OPEN_ARRAY": [(b"[", "FIRST_ITEM")],
    "BEGIN_SCALAR": [(b"-", "MINUS"), (b"0", "ZERO"), (b"123456789", "DIGITS"), (b"t", "T"), (b"f", "F"), (b"n", "N")],
}
_RULES["FIRST_ITEM"] = [*_RULES["VALUE"], (_BLANK, "FIRST_ITEM"), (b"]", "CLOSE")]
for _string in ("STRING", "STRING_E"):
    _RULES[_string] = [
        (_span(0x20, 0x7F), _string), (b'"', "END_TEXT"), (b"\\", "BACKSLASH"),
        (_span(0xC2, 0xDF), _string + "+1"), (_span(0xE1, 0xEF), _string + "+2"), (_span(0xF1, 0xF3), _string + "+3"),
        *((bytes([lead]), f"{_string}+{lead:X}") for lead in (0xE0, 0xED, 0xF0, 0xF4)),
    ]
    _RULES |= {
        _string + "+1": [(_ANY, _string)], _string + "+2": [(_ANY, _string + "+1")], _string + "+3": [(_ANY, _string + "+2")],
        _string + "+E0": [(_span(0xA0, 0xBF), _string + "+1")], _string + "+ED": [(_span(0x80, 0x9F), _string + "+1")],
        _string + "+F0": [(_span(0x90, 0xBF), _string + "+2")], _string + "+F4": [(_span(0x80, 0x8F), _string + "+2")],
    }
for _literal in _LITERALS:
    _spelt = _literal.decode().upper()
    for _i in range(1, len(_literal)):
        _RULES[_spelt[:_i]] = [(_literal[_i : _i + 1], _spelt[: _i + 1] if _i + 1 < len(_literal) else "END_WORD")]


def _next_states() -> Table:
    """`table[state * 256 + byte]`: the next state; in a list of rules the later ones win."""
    table = np.full((len(_STATES), 256), REFUSED, np.uint8)
    for state, rules in _RULES.items():
        for members, following in rules:
            table[_NUMBER[state], list(members)] = _NUMBER[following]
    return table


def _kinds() -> Table:
    """`kinds[state]`: the kind of the token that ends in this state, else ABSENT."""
    kinds = np.full(len(_STATES), ABSENT, np.uint8)
    for state, kind in {
        "ZERO": INTEGER, "DIGITS": INTEGER, "DECIMALS": FRACTION, "E_DIGITS": EXPONENT, "STRING": TEXT, "STRING_E": ESCAPED,
        "TRU": TRUE, "FALS": FALSE, "NUL": NULL,
    }.items():
        kinds[_NUMBER[state]] = kind
    return kinds


NEXT = _next_states()
ENDING_KIND = _kinds()
ORDINARY = (NEXT[STRING] == STRING).astype(np.uint8)
"""By byte: 1 if it changes nothing inside a string."""
