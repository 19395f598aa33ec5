"""DuckDB's type names: which there are, in which one spelling, and which of them a lake cannot keep.

The spelling is DuckDB's own (`typeof`), but for `TIMESTAMPTZ` and `TIMETZ`, which it writes in four words, and for the names of fields,
which stay as they are written. A type that is wrong raises `Malformed` with its place in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from reactor.domain.assets import quoted
from reactor.domain.diagnostics import Malformed
from reactor.domain.spelling import nearest

DECIMAL_WIDTH_MAX: Final = 38
ARRAY_SIZE_MAX: Final = 100_000
FLOAT_BITS_MAX: Final = 53
_SINGLE_BITS_MAX: Final = 24
UNFIT: Final = {
    "HUGEINT": "it is stored as DOUBLE", "UHUGEINT": "it is stored as DOUBLE", "TIMETZ": "it loses its offset", "ENUM": "", "UNION": "",
    "BIT": "", "ARRAY": "", "BIGNUM": "", "TIME_NS": "it breaks the instance", "TYPE": "",
}
"""Types that a lake cannot keep, and why where it is not simply refused."""

_ALIASES: Final = {
    "BIGINT": "INT8 INT64 LONG OID", "BIGNUM": "VARINT", "BIT": "BITSTRING", "BLOB": "BINARY BYTEA VARBINARY", "BOOLEAN": "BOOL LOGICAL",
    "DATE": "", "DECIMAL": "DEC NUMERIC", "DOUBLE": "FLOAT8", "ENUM": "", "FLOAT": "FLOAT4 REAL", "GEOMETRY": "", "HUGEINT": "INT128",
    "INTEGER": "INT INT32 INT4 INTEGRAL SIGNED", "INTERVAL": "", "JSON": "", "MAP": "", "SMALLINT": "INT16 INT2 SHORT", "STRUCT": "ROW",
    "TIME": "", "TIMESTAMP": "DATETIME TIMESTAMP_US", "TIMESTAMPTZ": "", "TIMESTAMP_MS": "", "TIMESTAMP_NS": "", "TIMESTAMP_S": "",
    "TIMETZ": "", "TIME_NS": "", "TINYINT": "INT1", "TYPE": "", "UBIGINT": "UINT64", "UHUGEINT": "UINT128", "UINTEGER": "UINT32",
    "UNION": "", "USMALLINT": "UINT16", "UTINYINT": "UINT8", "UUID": "GUID", "VARCHAR": "BPCHAR CHAR CHARACTER NCHAR NVARCHAR STRING TEXT",
    "VARIANT": "",
}
_CANONICAL: Final = {name: canonical for canonical, others in _ALIASES.items() for name in (canonical, *others.split())}
_BY_LIKELIHOOD: Final = sorted(_CANONICAL, key=lambda name: (any(map(str.isdigit, name)), name not in _ALIASES))
_ELSEWHERE: Final = {
    "NUMBER": "DECIMAL", "MONEY": "DECIMAL(18,2)", "MEDIUMINT": "INTEGER", "SERIAL": "BIGINT", "UNSIGNED": "UINTEGER", "LONGTEXT": "VARCHAR",
    "VARCHAR2": "VARCHAR", "DATETIME2": "TIMESTAMP", "OBJECT": "JSON", "ARRAY": "VARCHAR[]", "LIST": "VARCHAR[]", "BYTES": "BLOB",
}
_MULTI_WORD: Final = {
    "NATIONAL CHARACTER VARYING": "VARCHAR", "NATIONAL CHARACTER": "VARCHAR", "CHARACTER VARYING": "VARCHAR", "DOUBLE PRECISION": "DOUBLE",
}
_TIMESTAMP_BY_DIGITS: Final = ("_S", "_MS", "_MS", "_MS", "", "", "", "_NS", "_NS", "_NS")
_NEVER_BARE: Final = (
    "all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate collation column"
    " concurrently constraint create cross default deferrable desc describe distinct do else end except false fetch for foreign freeze from"
    " full glob group having ilike in initially inner intersect into is isnull join lambda lateral leading left like limit natural not"
    " notnull null offset on only or order outer overlaps pivot pivot_longer pivot_wider placing positional primary qualify references"
    " returning right select semi show similar some summarize symmetric table tablesample then to trailing true union unique unpack unpivot"
    " using variadic verbose when where window with"
)
"""Words that DuckDB takes as the name of a field only in quotes."""
_TOKEN = re.compile(r"""[ \t]*(?:(?P<name>[^\W\d][\w$]*|"(?:[^"]|"")+")|(?P<number>[0-9]+)|(?P<text>'(?:[^']|'')*')|(?P<mark>[^\s]))""")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def upper(self) -> str:
        return self.text.upper()


class TypeReader:
    """Reads names and types from one text, from the left."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.text, self.at, self.used = text, start, set[str]()

    def peek(self) -> _Token | None:
        """The next token; nothing is taken."""
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            return None
        kind = str(found.lastgroup)
        return _Token(kind, found[kind], found.start(kind))

    def next(self) -> _Token | None:
        """Take the next token."""
        token = self.peek()
        if token is not None:
            self.at = token.start + len(token.text)
        return token

    def takes(self, text: str) -> bool:
        """Take the next token if it is this one (in any case)."""
        token = self.peek()
        if token is None or token.upper != text:
            return False
        self.next()
        return True

    def expect(self, mark: str, of: str) -> None:
        """Take this mark or complain."""
        if not self.takes(mark):
            raise self.wrong(f"`{mark}` is missing in `{of}`")

    def more(self, of: str) -> bool:
        """Whether a comma follows; else a closing parenthesis must."""
        if self.takes(","):
            return True
        if not self.takes(")"):
            raise self.wrong(f"`)` is missing in `{of}`")
        return False

    def wrong(self, message: str, suggestion: str | None = None, token: _Token | None = None) -> Malformed:
        """A complaint about a token, the next one by default, or about the end of the text."""
        token = token or self.peek()
        offset, length = (token.start, len(token.text)) if token else (max(len(self.text.rstrip()) - 1, 0), 1)
        return Malformed(message, suggestion, offset=offset, length=length)

    def type(self) -> str:
        """A type in canonical spelling; `used` gains the types it is made of."""
        name = self.next()
        if name is None or name.kind != "name":
            raise self.wrong("a type is missing", token=name)
        spelt = self._base(name)
        if self.takes("ARRAY"):
            return spelt + (self._size(needed=True) if self._opens("[") else "[]")
        while self._opens("["):
            spelt += self._size()
        return spelt

    def _opens(self, mark: str) -> bool:
        token = self.peek()
        return token is not None and token.text == mark

    def _base(self, name: _Token) -> str:
        base = self._several_words(name) or _CANONICAL.get(name.text[1:-1].upper() if name.text.startswith('"') else name.upper)
        if base is None:
            close = _ELSEWHERE.get(name.upper) or nearest(name.upper, _BY_LIKELIHOOD)
            near = f", but {_CANONICAL[close]}" if close in _CANONICAL else ""
            raise self.wrong(f"DuckDB has no type `{name.text}`{near}", close, name)
        parameters = {"STRUCT": self._fields, "UNION": self._fields, "MAP": self._map, "ENUM": self._enum, "DECIMAL": self._decimal}
        spelt = parameters[base](base, name) if base in parameters else self._digits(base, name)
        self.used.add(spelt if base not in parameters else base)
        return spelt

    def _several_words(self, name: _Token) -> str | None:
        """`DOUBLE PRECISION` and the like, `TIME WITH TIME ZONE`; takes all but the first word."""
        for words, base in _MULTI_WORD.items():
            first, *others = words.split()
            back = self.at
            if name.upper == first and all(self.takes(word) for word in others):
                return base
            self.at = back
        back = self.at
        if name.upper in {"TIME", "TIMESTAMP"} and (self.takes("WITH") or self.takes("WITHOUT")):
            zoned = self.text[back:self.at].strip().upper() == "WITH"
            if self.takes("TIME") and self.takes("ZONE"):
                return f"{name.upper}TZ" if zoned else name.upper
            self.at = back
        return None

    def _digits(self, base: str, name: _Token) -> str:
        """A length or precision, where DuckDB takes one."""
        if not self._opens("("):
            return base
        if base not in {"VARCHAR", "BIT", "FLOAT", "TIMESTAMP"} or name.upper in {"REAL", "FLOAT4"}:
            raise self.wrong(f"`{base}` takes nothing in parentheses")
        number = self._numbers(base)
        if len(number) != 1:
            raise self.wrong(f"`{base}` takes one number", token=name)
        if base == "TIMESTAMP" and number[0] > 9:
            raise self.wrong("`TIMESTAMP` takes at most 9 digits of a second", token=name)
        if base == "FLOAT":
            return self._float(number[0], name)
        return base + _TIMESTAMP_BY_DIGITS[number[0]] if base == "TIMESTAMP" else base

    def _float(self, bits: int, name: _Token) -> str:
        if not 1 <= bits <= FLOAT_BITS_MAX:
            raise self.wrong(f"`FLOAT` takes 1 to {FLOAT_BITS_MAX} bits", token=name)
        return "FLOAT" if bits <= _SINGLE_BITS_MAX else "DOUBLE"

    def _numbers(self, of: str) -> list[int]:
        self.expect("(", of)
        found: list[int] = []
        if self.takes(")"):
            return found
        while True:
            number = self.next()
            if number is None or number.kind != "number":
                raise self.wrong(f"`{of}` takes whole numbers", token=number)
            found.append(int(number.text[:9]))
            if not self.more(of):
                return found

    def _decimal(self, base: str, name: _Token) -> str:
        numbers = self._numbers(base) if self._opens("(") else []
        if not numbers:
            return "DECIMAL(18,3)"
        width, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
        if len(numbers) > 2 or not 1 <= width <= DECIMAL_WIDTH_MAX or scale > width:
            rule = f"`DECIMAL(width,scale)` with a width of 1 to {DECIMAL_WIDTH_MAX} and a scale of 0 to the width"
            written = self.text[name.start:self.at]
            raise Malformed(f"`{written}` is no type: {rule}", offset=name.start, length=len(written))
        return f"DECIMAL({width},{scale})"

    def _fields(self, base: str, name: _Token) -> str:
        if not self._opens("("):
            raise self.wrong(f"`{name.text}` needs its fields", f"{base}(a INTEGER, b VARCHAR)", name)
        self.expect("(", base)
        fields: dict[str, str] = {}
        while True:
            field = self.next()
            if field is None or field.kind != "name":
                raise self.wrong(f"a field of `{base}` is a name and a type", token=field)
            key = unquoted(field.text)
            if not field.text.startswith('"') and key.lower() in _NEVER_BARE.split():
                raise self.wrong(f"`{key}` is a word of SQL; as a name it stands in quotes", quoted(key), field)
            if key.lower() in fields:
                raise self.wrong(f"the field `{key}` stands here twice", token=field)
            fields[key.lower()] = f"{field.text} {self.type()}"
            if not self.more(base):
                return f"{base}({', '.join(fields.values())})"

    def _map(self, base: str, name: _Token) -> str:
        if not self._opens("("):
            raise self.wrong("`MAP` needs a key type and a value type", "MAP(VARCHAR, BIGINT)", name)
        self.expect("(", base)
        key = self.type()
        self.expect(",", base)
        value = self.type()
        self.expect(")", base)
        return f"MAP({key}, {value})"

    def _enum(self, base: str, name: _Token) -> str:
        if not self._opens("("):
            raise self.wrong("`ENUM` needs its values", "VARCHAR", name)
        self.expect("(", base)
        values: list[str] = []
        while True:
            value = self.next()
            if value is None or value.kind != "text" or value.text in values:
                raise self.wrong("`ENUM` takes texts in single quotes, none twice", token=value)
            values.append(value.text)
            if not self.more(base):
                return f"ENUM({', '.join(values)})"

    def _size(self, *, needed: bool = False) -> str:
        """`[]` of a list or `[n]` of an array."""
        self.expect("[", "[]")
        if not needed and self.takes("]"):
            return "[]"
        number = self.next()
        if number is None or number.kind != "number":
            raise self.wrong("an array has a whole number of items", token=number)
        self.expect("]", "[]")
        if not 1 <= int(number.text[:9]) <= ARRAY_SIZE_MAX:
            raise self.wrong(f"an array has 1 to {ARRAY_SIZE_MAX} items", token=number)
        self.used.add("ARRAY")
        return f"[{int(number.text)}]"


def is_type(name: str) -> bool:
    """Whether DuckDB has a type of this name."""
    return name.upper() in _CANONICAL


def unquoted(name: str) -> str:
    """The name that an SQL identifier means."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def read_type(text: str) -> str:
    """The canonical spelling of a whole text; raises `Malformed`."""
    reader = TypeReader(text)
    spelt = reader.type()
    if reader.peek() is not None:
        raise reader.wrong(f"nothing may follow the type `{spelt}`")
    return spelt
