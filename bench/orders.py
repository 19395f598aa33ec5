"""The load: orders of some 180 bytes, eight typed columns, three days in turn. An order follows from its number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

COLUMNS: Mapping[str, str] = {
    "order_id": "BIGINT", "customer_id": "BIGINT", "country": "VARCHAR", "product": "VARCHAR", "amount": "DECIMAL(12,2)", "weight": "DOUBLE",
    "paid": "BOOLEAN", "ordered_at": "TIMESTAMPTZ",
}  # fmt: skip
DAYS = (17, 18, 19)
DIRTY_EVERY = 100
"""One event of so many is malformed where that is asked for."""

_COUNTRIES = (b"NL", b"DE", b"FR", b"PT", b"JP", b"BR", b"NZ")
_PRODUCTS = (b"blue suede shoes", b"walking boots", b"rubber duck", b"tea, 250 g", b"umbrella \\u2602")
_TRUTH = (b"true", b"false")
_SHAPE = (
    b'{"order_id":%d,"customer_id":%d,"country":"%b","product":"%b","amount":%d.%02d,"weight":%d.%06d,"paid":%b,'
    b'"ordered_at":"2026-06-%02dT%02d:%02d:%02d.%03dZ"}'
)


def value(n: int) -> bytes:
    """The event with this number."""
    mixed = n * 2654435761 & 0xFFFFFFFF
    second = mixed % 86_400
    return _SHAPE % (
        1_000_000_000 + n, mixed % 900_000, _COUNTRIES[mixed % 7], _PRODUCTS[mixed % 5], mixed % 4000, mixed % 100, mixed % 50, mixed % 1_000_000,
        _TRUTH[mixed & 1], DAYS[n % 3], second // 3600, second // 60 % 60, second % 60, mixed % 1000,
    )  # fmt: skip


def is_dirty(n: int) -> bool:
    """Whether `dirty_value` makes no row of this number."""
    return n % DIRTY_EVERY == DIRTY_EVERY - 1


def dirty_value(n: int) -> bytes:
    """The event with this number, or what its producer made of it: each kind of damage in turn."""
    good = value(n)
    if not is_dirty(n):
        return good
    match n // DIRTY_EVERY % 5:
        case 0:
            return good[:-20]
        case 1:
            return good.replace(b'"order_id":1', b'"order_id":"one ')
        case 2:
            return good.replace(b'"amount":', b'"amount":99999999999')
        case 3:
            return good.replace(b"2026-06-", b"2026-16-")
        case _:
            return b"[" + good + b"]"


def dirty_in(count: int) -> int:
    """How many of the first so many numbers are dirty."""
    return count // DIRTY_EVERY


def values(count: int, *, dirty: bool = False) -> Iterator[bytes]:
    """The events from number 0 on."""
    return map(dirty_value if dirty else value, range(count))
