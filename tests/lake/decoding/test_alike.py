"""Texts of one topic look alike, and what stands again is not read again: each is still understood as if it were alone."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reactor.lake.decoding import grammar
from reactor.lake.decoding.tokens import members, payloads

WANTED = ["a", "b", "name of more than eight", "\u00fc"]

names = st.sampled_from([*(json.dumps(name) for name in WANTED), '"\\u0061"', '"c"', '"name of more than eighu"', '"a\\""'])
values = st.sampled_from(["1", "-20.5e3", '"x"', '"{\\"a\\":1}"', '",\\"b\\":"', "null", "true", '{"a":[1,{"b":2}]}', '[",\\"a\\":1"]', "01", '"\\q"', "tru", "{", ""])
blanks = st.sampled_from(["", "", "", " ", "\n\t"])
gaps = st.builds("{}{}{}:{}".format, blanks, names, blanks, blanks)
layouts = st.lists(gaps, max_size=6)


def text(layout: list[str], held: list[str], end: str) -> bytes:
    """The members of a layout with these values, as far as both go."""
    return ("{" + ",".join(gap + value for gap, value in zip(layout, held, strict=False)) + end).encode()


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Texts of two layouts, whole, cut off, or with something behind their end."""
    either = draw(st.lists(layouts, min_size=1, max_size=2))
    ends = st.sampled_from(["}", "}", "}", "} ", "", ",}", "}x", '"'])
    return draw(st.lists(st.builds(text, st.sampled_from(either), st.lists(values, min_size=3, max_size=6), ends), min_size=2, max_size=8))


def found(batch: list[bytes]) -> list[tuple[int, list[tuple[int, bytes]]]]:
    """Of each text the reason, and if it is fine kind and bytes of each wanted member."""
    texts, present = payloads(pa.array(batch, pa.binary()))
    reasons, tokens = members(texts, present, WANTED)
    cells = [[(int(t.kinds[row]), t.data[t.starts[row] : t.stops[row]].tobytes()) for t in tokens] for row in range(len(batch))]
    return [(int(reason), held if reason == 0 else []) for reason, held in zip(reasons, cells, strict=True)]


@given(alike())
@example([b'{"\\u0061":1,', b'{"b', b'{"\\u0061":1}'])
@example([b'{"a":1,"b":2}', b'{"a":1,"b":2,"a":3}', b'{"a":1,"b":2,"a":3}'])
def test_a_text_is_understood_as_if_it_were_alone(batch: list[bytes]) -> None:
    assert found(batch) == [found([one])[0] for one in batch]


def test_texts_of_many_members() -> None:
    wide = json.dumps({**{f"m{n}": n for n in range(300)}, "a": "last"}).encode()
    (reason, held), = {(reason, tuple(held)) for reason, held in found([wide] * 3)}
    assert (reason, held[0]) == (0, (grammar.TEXT, b'"last"'))


def test_every_way_to_begin_and_to_end_a_string() -> None:
    """Eight bytes are looked at as one: what is special may stand at each place of them, and behind the last eight of all."""
    for size in range(20):
        for special in ('"', "\\", "\\u00e9", "\u00e9", "\x1f", "\x7f"):
            whole = f'{{"a":"{"." * size}{special}{"." * (19 - size)}"}}'.encode()
            (reason, _), = found([whole])
            try:
                json.loads(whole)
                fine = True
            except ValueError:
                fine = False
            assert (reason == 0) == fine, whole


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_part_of_an_array_has_the_texts_of_that_part(kind: pa.DataType) -> None:
    whole = pa.array([b"skipped", b"one", None, b"", b"three", b"left out"], kind)
    texts, present = payloads(whole.slice(1, 4))
    read = [texts.data[lo:hi].tobytes() for lo, hi in zip(texts.starts, texts.stops, strict=True)]
    assert (read, present.tolist()) == ([b"one", b"", b"", b"three"], [True, False, True, True])


def test_nothing_of_no_texts() -> None:
    texts, present = payloads(pa.array([], pa.binary()))
    reasons, tokens = members(texts, present, WANTED)
    assert (len(reasons), [len(t.kinds) for t in tokens]) == (0, [0] * len(WANTED))
    assert not np.any(present)
