"""The columnar way against the plain one, byte for byte, over batches that no broker needs to be started for."""

import struct
from contextlib import suppress
from typing import Literal

import pyarrow as pa
import pytest
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.kafka import columns
from connectors.kafka.spans import SCHEMA, SPAN_BYTES_MAX, SPAN_ROWS_MAX, cut
from tests.connectors.kafka.batches import (
    ABORT,
    COMMIT,
    PARTITION,
    Batch,
    OldSet,
    Record,
    in_columns,
    in_plain,
    legacy,
    marker,
    sealed,
    spaced,
)

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
OLD_FORMATS: list[tuple[Literal[0, 1], int]] = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
"""Message format and codec."""

times = st.one_of(st.just(-1), st.integers(0, 2**45))
fields = st.one_of(st.none(), st.binary(max_size=200))
header_lists = st.lists(st.tuples(st.text(max_size=10), fields), max_size=4).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    steps = draw(st.lists(st.integers(1, 200), max_size=8))
    offsets = [sum(steps[: index + 1]) - 1 for index in range(len(steps))]
    records = [Record(offset, draw(fields), draw(fields), draw(times), draw(header_lists)) for offset in offsets]
    return Batch(
        0,
        records,
        (offsets[-1] if offsets else draw(st.integers(0, 5))) + 1 + draw(st.integers(0, 3)),
        codec=draw(st.sampled_from(list(CODECS.values()))) if records else 0,  # what compaction empties is not compressed
        append_time=draw(st.one_of(st.none(), st.integers(0, 2**45))),
        producer_id=(producer := draw(st.sampled_from([-1, 7, 8]))),
        transactional=producer > 0,
    )


@st.composite
def old_sets(draw: st.DrawFn) -> OldSet:
    steps = draw(st.lists(st.integers(1, 200), min_size=1, max_size=8))
    offsets = [sum(steps[: index + 1]) - 1 for index in range(len(steps))]
    magic, codec = draw(st.sampled_from(OLD_FORMATS))
    records = [Record(offset, draw(fields), draw(fields), draw(st.integers(0, 2**45))) for offset in offsets]
    return OldSet(0, records, offsets[-1] + 1, magic, codec)


markers = st.builds(marker, st.just(0), st.sampled_from([7, 8]), st.sampled_from([COMMIT, ABORT]))


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, int, list[tuple[int, int]]]:
    """Bytes of a fetch, the offset that was asked for, and the aborted transactions in it."""
    made: list[Batch | OldSet] = draw(st.lists(st.one_of(batches(), markers), min_size=1, max_size=6))
    placed = spaced(made, draw(st.lists(st.integers(0, 50), min_size=len(made), max_size=len(made))))
    aborted = [
        (batch.producer_id, batch.base_offset) for batch in placed if batch.transactional and not batch.control and draw(st.booleans())
    ]
    lo = draw(st.integers(placed[0].base_offset, placed[0].next_offset - 1))
    return b"".join(batch.encoded() for batch in placed), lo, aborted


@given(logs())
@settings(max_examples=100, deadline=None)
def test_same_as_the_plain_way(log: tuple[bytes, int, list[tuple[int, int]]]) -> None:
    assert in_columns(*log) == in_plain(*log)


@given(st.lists(old_sets(), min_size=1, max_size=4), st.lists(batches(), max_size=3), st.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_a_log_that_lived_through_an_upgrade(old: list[OldSet], new: list[Batch], skipped: int) -> None:
    """Sets of both old formats, then batches; aiokafka can only read one format at a time."""
    placed = spaced([*old, *new], [0] * (len(old) + len(new)))
    lo = min(skipped, placed[0].next_offset - 1)
    single = [in_plain(batch.encoded(), lo if batch is placed[0] else batch.base_offset) for batch in placed]
    hi, table = in_columns(b"".join(batch.encoded() for batch in placed), lo)
    assert table.equals(pa.concat_tables([read for _, read in single]).combine_chunks())
    assert hi == single[-1][0]


def test_what_comes_in_an_old_format_again_is_left_for_the_next_fetch() -> None:
    old, new = legacy(0, [Record(0)], 1), Batch(1, [Record(0)], 2).encoded()
    again = legacy(2, [Record(0)], 1)
    assert in_columns(old + new + again, 0)[0] == 2
    assert in_columns(again, 2)[0] == 3


@given(logs(), st.integers(0, 60))
@settings(max_examples=50, deadline=None)
def test_a_batch_that_was_cut_off_is_left_for_the_next_fetch(log: tuple[bytes, int, list[tuple[int, int]]], cut_off: int) -> None:
    data, lo, aborted = log
    whole = Batch(10_000, [Record(0)], 10_001).encoded()
    assert in_columns(data + whole[: len(whole) - 1 - cut_off], lo, aborted) == in_plain(data, lo, aborted)


@given(logs(), st.data())
@settings(max_examples=100, deadline=None)
def test_damaged_bytes_are_refused_or_read_within_bounds(log: tuple[bytes, int, list[tuple[int, int]]], data: st.DataObject) -> None:
    """With the checksum made right again, so that the walk itself meets them. (The plain way can run for minutes on such bytes.)"""
    batch = bytearray(columns.MessageSet(log[0]).batches[0])
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    struct.pack_into(">i", batch, 57, data.draw(st.sampled_from([struct.unpack_from(">i", batch, 57)[0], 0, 1, 2**31 - 1, -1])))
    with suppress(CorruptRecordException, UnsupportedCodecError):
        hi, table = in_columns(sealed(batch), 0)
        offsets = table["offset"].to_pylist()
        assert offsets == sorted(set(offsets))
        assert all(0 <= offset < hi for offset in offsets)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_every_codec(codec: int) -> None:
    records = [Record(offset, b"x" * 1000, b"k%d" % offset, 1_000 + offset, (("h", b"1"), ("h", None))) for offset in range(500)]
    data = Batch(40, records, 540, codec=codec).encoded()
    hi, table = in_columns(data, 41)
    assert (hi, table.num_rows, table["offset"][0].as_py()) == (540, 499, 41)
    assert table["headers"][0].as_py() == [{"name": "h", "value": b"1"}, {"name": "h", "value": None}]
    assert in_plain(data, 41) == (hi, table)


def test_null_is_not_empty() -> None:
    _, table = in_columns(Batch(0, [Record(0, None, b""), Record(1, b"", None)], 2).encoded(), 0)
    assert table["key"].to_pylist() == [b"", None]
    assert table["value"].to_pylist() == [None, b""]


def test_append_time_stands_for_every_record() -> None:
    _, table = in_columns(Batch(0, [Record(0, timestamp=5), Record(1, timestamp=9)], 2, append_time=1_000).encoded(), 0)
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1_000, 1_000]


def test_aborted_records_and_markers_have_no_row_but_are_passed() -> None:
    log = [
        Batch(0, [Record(0)], 1),
        Batch(1, [Record(0), Record(1)], 3, producer_id=7, transactional=True),
        marker(3, 7, ABORT),
        Batch(4, [Record(0)], 5, producer_id=7, transactional=True),
        marker(5, 7, COMMIT),
    ]
    hi, table = in_columns(b"".join(batch.encoded() for batch in log), 0, [(7, 1)])
    assert hi == 6
    assert table["offset"].to_pylist() == [0, 4]


@pytest.mark.parametrize(("magic", "codec"), OLD_FORMATS)
def test_old_formats_go_the_plain_way(magic: Literal[0, 1], codec: int) -> None:
    data = legacy(0, [Record(0, b"a", b"k"), Record(1, None), Record(2, b"c")], magic, codec)
    hi, table = in_columns(data, 1)
    assert (hi, table["offset"].to_pylist(), table["value"].to_pylist()) == (3, [1, 2], [None, b"c"])
    assert table["timestamp"].null_count == (0 if magic else 2)


def test_a_header_name_that_is_no_text_does_not_stop_the_log() -> None:
    batch = bytearray(Batch(0, [Record(0, headers=(("ok", b"1"),)), Record(1)], 2).encoded())
    at = batch.index(b"ok")
    batch[at : at + 2] = b"\xff\xfe"
    _, table = in_columns(sealed(batch), 0)
    assert table["headers"][0].as_py() == [{"name": "\ufffd\ufffd", "value": b"1"}]


def test_a_wrong_checksum_and_an_unknown_codec_are_refused() -> None:
    data = bytearray(Batch(7, [Record(0)], 8).encoded())
    data[-1] ^= 1
    with pytest.raises(CorruptRecordException, match="offset 7"):
        in_columns(bytes(data), 7)
    struct.pack_into(">h", data, 21, 6)
    with pytest.raises(UnsupportedCodecError, match="codec 6"):
        in_columns(sealed(data), 7)


def test_many_small_batches_become_one_table_and_large_ones_are_kept_apart() -> None:
    small = b"".join(Batch(offset, [Record(0)], offset + 1).encoded() for offset in range(300))
    (fetch,) = columns.BatchRecords(PARTITION, columns.MessageSet(small), None, 0)
    assert [(hi, table.num_rows) for hi, table in fetch.tables()] == [(300, 300)]
    large = [Batch(base, [Record(0, b"x" * (6 << 20))], base + 1, codec=4) for base in range(4)]
    fetch = next(iter(columns.BatchRecords(PARTITION, columns.MessageSet(b"".join(batch.encoded() for batch in large)), None, 0)))
    assert [(hi, table.num_rows) for hi, table in fetch.tables()] == [(2, 2), (4, 2)]


@given(st.integers(0, 3 * SPAN_ROWS_MAX), st.integers(0, 5))
@example(SPAN_ROWS_MAX, 0)
@example(SPAN_ROWS_MAX + 1, 0)
@settings(max_examples=20, deadline=None)
def test_a_cut_keeps_everything_within_the_limits(rows: int, hole: int) -> None:
    nulls = {field.name: pa.nulls(rows, field.type) for field in SCHEMA}
    table = pa.table(nulls | {"offset": pa.array(range(0, 2 * rows, 2))}, schema=SCHEMA)
    parts = list(cut(0, 2 * rows + hole, table))
    assert parts[0][0] == 0
    assert parts[-1][1] == 2 * rows + hole
    assert [part[0] for part in parts[1:]] == [part[1] for part in parts[:-1]]
    assert all(part[2].num_rows <= SPAN_ROWS_MAX for part in parts)
    assert pa.concat_tables([part[2] for part in parts]).equals(table)


def test_a_cut_by_bytes_leaves_one_huge_record_whole() -> None:
    values = [b"x", b"y" * (SPAN_BYTES_MAX + 1), b"z"]
    _, table = in_columns(Batch(0, [Record(offset, value) for offset, value in enumerate(values)], 3).encoded(), 0)
    parts = list(cut(0, 3, table))
    assert [part[2].num_rows for part in parts] == [1, 1, 1]
    assert [(lo, hi) for lo, hi, _ in parts] == [(0, 1), (1, 2), (2, 3)]
