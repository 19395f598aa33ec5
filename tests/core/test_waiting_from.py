"""From where records wait, as lag is measured: what is settled, and what is no record, does not count (OB-2)."""

from uuid import UUID

from reactor.core.ledger import Ledger
from reactor.domain.spans import Consumer, Piece, Position, PositionKey, SourcePartition, Token

KEY = PositionKey(Consumer("ducklake://main/t"), SourcePartition("kafka://main/in", "0"))


def ledger(floor: int = 0, **fences: int) -> Ledger:
    return Ledger(KEY, Position(floor, Token(UUID(int=1)), "", fences=fences), load=1, shared_head=floor, retry_blocked_at=0.0)


def piece(lo: int, hi: int) -> Piece:
    return Piece(lo, hi, hi - lo, 1, ())


def test_holes_and_markers_at_the_end_are_no_records() -> None:
    read = ledger()
    read.take(0, 10, {"a": piece(2, 5)})
    assert read.waiting_from == 2
    assert read.start(["a"]) is not None
    assert read.waiting_from == 2
    read.committed(Token(UUID(int=2)))
    assert read.waiting_from == 10
    read.take(10, 13, {})
    assert (read.waiting_from, read.floor) == (13, 10)


def test_a_blocked_slice_waits_from_its_fence() -> None:
    read = ledger()
    read.take(0, 10, {"a": piece(2, 5), "b": piece(5, 10)})
    read.start(["a"])
    read.block(["a"], 100.0)
    assert read.waiting_from == 0
    assert ledger(10, a=4).waiting_from == 4


def test_what_is_settled_and_comes_again_is_counted() -> None:
    read = ledger(2, ahead=6)
    read.take(2, 8, {"ahead": piece(2, 6), "other": piece(3, 8)})
    assert (read.duplicate_rows, list(read.open)) == (4, ["other"])
    read.take(0, 8, {"other": piece(3, 8)})
    assert read.duplicate_rows == 9
