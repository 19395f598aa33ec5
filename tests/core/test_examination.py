from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from reactor.core.examination import Anew, Fits, Halted, Lost, examine
from reactor.domain.spans import Consumer, Position, PositionKey, SourcePartition, Token

KEY = PositionKey(Consumer("ducklake://main/orders"), SourcePartition("kafka://main/orders", "0"))
TOKEN = Token(UUID(int=1))


def position(floor: int, **fences: int) -> Position:
    return Position(floor, TOKEN, "null", "cluster/topic", fences=fences)


def test_what_lies_inside_the_log_is_read_on() -> None:
    assert examine(KEY, position(10, a=12), "cluster/topic", 5, 12) == Fits()
    assert examine(KEY, position(10), None, 0, 10) == Fits()


def test_another_topic_halts_and_names_the_way_out() -> None:
    found = examine(KEY, position(100), "cluster/other", 0, 5)
    assert isinstance(found, Halted)
    assert "re-created" in found.message
    assert "reactor positions reset ducklake://main/orders" in found.message
    assert "--confirm ducklake://main/orders" in found.message


def test_a_position_beyond_the_log_end_halts() -> None:
    found = examine(KEY, position(100), "cluster/topic", 0, 5)
    assert isinstance(found, Halted)
    assert "position 100 is beyond the log end 5: topic re-created?" in found.message


def test_a_broker_that_keeps_nothing_begins_anew() -> None:
    assert examine(KEY, position(100), "new/topic", 0, 5, ephemeral=True) == Anew(0)
    assert examine(KEY, position(100), "cluster/topic", 0, 5, ephemeral=True) == Fits()


def test_retention_passed_the_floor_and_a_blocked_stream() -> None:
    found = examine(KEY, position(100, ahead=300, blocked=40), "cluster/topic", 250, 400)
    assert isinstance(found, Lost)
    assert (found.lo, found.hi) == (40, 250)
    assert (found.claim.floor, found.claim.believed) == (250, TOKEN)
    assert found.claim.rows == {"blocked": None}


def test_retention_passed_only_a_blocked_stream() -> None:
    found = examine(KEY, position(300, blocked=40, ahead=310), "cluster/topic", 250, 400)
    assert isinstance(found, Lost)
    assert (found.claim.floor, found.claim.rows) == (300, {"blocked": 250})


@given(st.integers(0, 50), st.dictionaries(st.sampled_from("abcd"), st.integers(0, 60)), st.integers(0, 70))
def test_a_jump_moves_no_stream_back_and_leaves_none_before_the_log(floor: int, fences: dict[str, int], start: int) -> None:
    before = position(floor, **{d: n for d, n in fences.items() if n != floor})
    found = examine(KEY, before, "cluster/topic", start, 1000)
    if before.low >= start:
        assert found == Fits()
        return
    assert isinstance(found, Lost)
    rows = {d: n for d, n in {**before.fences, **found.claim.rows}.items() if n is not None}
    after = Position(found.claim.floor, TOKEN, "null", fences=rows)
    assert after.low >= start
    assert all(after.at(d) == max(before.at(d), start) for d in {*before.fences, "another"})
    assert found.claim.floor not in rows.values()
    assert examine(KEY, Position(after.floor, TOKEN, "null", "cluster/topic", fences=rows), "cluster/topic", start, 1000) == Fits()
