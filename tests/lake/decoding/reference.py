"""The rules of decoding once more, slow and plain: one record at a time, with nothing of the product but the words."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from math import isinf
from typing import NoReturn

NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
BLANKS = " \t\n\r"
DEPTH_MAX = 1024
ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?(?:[Zz]|( ?)([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Rejected(Exception):
    """(reason, column)."""


@dataclass(frozen=True)
class Node:
    """A JSON value: what it is, its text as it came, what a string spells, its members or items."""

    kind: str
    raw: str
    text: str = ""
    members: tuple[tuple[str, "Node"], ...] = ()


class Reader:
    """RFC 8259, by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def document(self) -> Node:
        self.blanks()
        node = self.value(0)
        self.blanks()
        return node if self.at == len(self.text) else self.no()

    def no(self) -> NoReturn:
        raise Rejected("not_json", None)

    def blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in BLANKS:
            self.at += 1

    def takes(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        self.at += len(word) if found else 0
        return found

    def value(self, depth: int) -> Node:
        start = self.at
        for word in ("true", "false", "null"):
            if self.takes(word):
                return Node(word, word)
        if self.takes("{"):
            return self.container("object", "}", start, depth)
        if self.takes("["):
            return self.container("array", "]", start, depth)
        if self.takes('"'):
            text = self.string()
            return Node("string", self.text[start : self.at], text)
        number = NUMBER.match(self.text, self.at)
        if not number:
            self.no()
        self.at = number.end()
        return Node("number", number[0], number[0])

    def container(self, kind: str, close: str, start: int, depth: int) -> Node:
        if depth == DEPTH_MAX:
            raise Rejected("nesting_too_deep", None)
        members: list[tuple[str, Node]] = []
        self.blanks()
        done = self.takes(close)
        while not done:
            name = ""
            self.blanks()
            if kind == "object":
                name = self.string() if self.takes('"') else self.no()
                self.blanks()
                if not self.takes(":"):
                    self.no()
                self.blanks()
            members.append((name, self.value(depth + 1)))
            self.blanks()
            done = self.takes(close)
            if not done and not self.takes(","):
                self.no()
        return Node(kind, self.text[start : self.at], "", tuple(members))

    def string(self) -> str:
        start = self.at
        while not self.takes('"'):
            if self.at >= len(self.text) or self.text[self.at] < " ":
                self.no()
            self.at += 2 if self.text[self.at] == "\\" else 1
        try:
            spelt = str(json.loads(self.text[start - 1 : self.at]))
            spelt.encode()
        except (ValueError, UnicodeEncodeError):
            self.no()
        return spelt


def parse(value: bytes) -> Node:
    """The payload as a node. Raises Rejected."""
    if not value:
        raise Rejected("empty_value", None)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Rejected("not_utf8", None) from None
    return Reader(text.removeprefix("\ufeff")).document()


def exact(number: str) -> Fraction:
    sign, whole, fraction, power = NUMBER.findall(number)[0]
    value = Fraction(int(whole + (fraction or ""))) * Fraction(10) ** (int(power or 0) - len(fraction or ""))
    return -value if sign else value


def number_of(node: Node) -> Fraction:
    return exact(node.text) if node.kind in ("number", "string") and NUMBER.fullmatch(node.text) else wrong()


def instant(node: Node) -> int:
    """Nanoseconds since 1970 UTC, cut."""
    if node.kind not in ("number", "string"):
        wrong()
    if NUMBER.fullmatch(node.text):
        value = exact(node.text)
        unit = next((10 ** (9 - 3 * i) for i, below in enumerate((10**11, 10**14, 10**17)) if abs(value) < below), 1)
        return (value * unit).__floor__()
    found = ISO.fullmatch(node.text)
    if not found:
        wrong()
    year, month, day, hour, minute, second, fraction, _, sign, east_hours, east_minutes = found.groups()
    if int(east_hours or 0) > 23 or int(east_minutes or 0) > 59:
        wrong()
    cycle = 146_097 if year == "0000" else 0  # `datetime` has no year 0, which is a leap year like 400
    try:
        moment = datetime(int(year) or 400, int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC)
    except ValueError:
        wrong()
    seconds = (moment - EPOCH) // timedelta(seconds=1) - cycle * 86_400
    east = int(east_hours or 0) * 3600 + int(east_minutes or 0) * 60
    return (seconds - (-east if sign == "-" else east)) * 10**9 + int((fraction or "0")[:9].ljust(9, "0"))


MICROS_MIN, MICROS_END = -62_135_596_800_000_000, 253_402_300_800_000_000


def integer(node: Node, type_: str) -> int:
    value, width = number_of(node), {"TINY": 8, "SMALL": 16, "": 32, "BIG": 64, "HUGE": 128}[type_.removeprefix("U").removesuffix("INTEGER").removesuffix("INT")]
    if value.denominator != 1:
        wrong()
    low, high = (0, 2**width) if type_.startswith("U") else (-(2 ** (width - 1)), 2 ** (width - 1))
    return int(value) if low <= value < high else beyond()


def decimal(node: Node, type_: str) -> Decimal:
    precision, scale = map(int, re.findall("[0-9]+", type_))
    value = number_of(node)
    units = abs(value) * 10**scale
    rounded = int(units) + (units - int(units) >= Fraction(1, 2))
    if rounded >= 10**precision:
        beyond()
    return Decimal(-rounded if value < 0 else rounded).scaleb(-scale, Context(prec=50))


def double(node: Node, _type: str) -> float:
    number_of(node)
    value = float(node.text)
    return beyond() if isinf(value) else value


def boolean(node: Node, _type: str) -> bool:
    return node.kind == "true" if node.kind in ("true", "false") else wrong()


def text(node: Node, type_: str) -> str:
    return node.text if node.kind == "string" and type_ == "VARCHAR" else node.raw


def moment(node: Node, type_: str) -> int:
    nanos = instant(node)
    if not MICROS_MIN <= nanos // 1000 < MICROS_END:
        beyond()
    return wrong() if type_ == "DATE" and nanos % (86_400 * 10**9) else nanos // 1000


def items(node: Node, type_: str) -> list[object]:
    return gathered([partial(cell, item, type_.removesuffix("[]")) for _, item in node.members]) if node.kind == "array" else wrong()


def fields(node: Node, type_: str) -> dict[str, object]:
    declared = re.findall(r"(\w+) (\w+)", type_.removeprefix("STRUCT"))
    found = gathered([partial(member, node, name, own) for name, own in declared]) if node.kind == "object" else wrong()
    return dict(zip((name for name, _ in declared), found, strict=True))


def entries(node: Node, type_: str) -> dict[str, object]:
    held = type_.removeprefix("MAP(VARCHAR, ").removesuffix(")")
    found = gathered([partial(member, node, name, held) for name, _ in node.members]) if node.kind == "object" else wrong()
    return dict(zip((name for name, _ in node.members), found, strict=True))


def gathered(cells: Sequence[Callable[[], object]]) -> list[object]:
    """All of them, or the gravest reason against one."""
    found: list[object] = []
    reasons: list[str] = []
    for make in cells:
        try:
            found.append(make())
        except Rejected as rejected:
            reasons.append(rejected.args[0])
    if reasons:
        raise Rejected(min(reasons, key=PRECEDENCE.index), None)
    return found


PRECEDENCE = ("duplicate_key", "wrong_type", "out_of_range")
CELLS: list[tuple[str, Callable[[Node, str], object]]] = [
    (r".*\[\]", items), (r"STRUCT\(.*", fields), (r"MAP\(.*", entries), (r".*INT(EGER)?", integer), ("DECIMAL.*", decimal), ("DOUBLE", double), ("BOOLEAN", boolean), ("VARCHAR|JSON", text), ("DATE|TIMESTAMP.*", moment),
]  # fmt: skip


def cell(node: Node, type_: str) -> object:
    """The value in a column of a type, times as microseconds since 1970 UTC. Raises Rejected."""
    if node.kind == "null":
        return None
    return next(made for pattern, made in CELLS if re.fullmatch(pattern, type_))(node, type_)


def wrong() -> NoReturn:
    raise Rejected("wrong_type", None)


def beyond() -> NoReturn:
    raise Rejected("out_of_range", None)


def member(node: Node, name: str, type_: str) -> object:
    found = [value for own, value in node.members if own == name]
    if len(found) > 1:
        raise Rejected("duplicate_key", None)
    return cell(found[0], type_) if found else None


def row(value: bytes, columns: Sequence[tuple[str, str]]) -> dict[str, object]:
    """The cells of a record. Raises Rejected."""
    node = parse(value)
    if node.kind != "object":
        raise Rejected("not_object", None)
    cells: dict[str, object] = {}
    faults: list[tuple[int, int, str]] = []
    for i, (name, type_) in enumerate(columns):
        try:
            cells[name] = member(node, name, type_)
        except Rejected as rejected:
            faults.append((PRECEDENCE.index(rejected.args[0]), i, name))
    if faults:
        reason, _, name = min(faults)
        raise Rejected(PRECEDENCE[reason], name)
    return cells


def outcome(value: bytes, columns: Sequence[tuple[str, str]]) -> dict[str, object] | tuple[str, str | None]:
    """The cells of a record, or (reason, column)."""
    try:
        return row(value, columns)
    except Rejected as rejected:
        return (rejected.args[0], rejected.args[1])
