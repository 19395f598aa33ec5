"""Whatever comes, the product decodes as the plain reading of the rules does, one record at a time."""

import json
import string

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reactor.domain.scripts import BatchColumn
from reactor.lake.decoding.event_time import read_event_times, read_partition_keys
from reactor.lake.decoding.payload import decode
from tests.lake.decoding import reference
from tests.lake.decoding.reading import cursor, records
from tests.parts.effort import tries

COLUMNS = [
    ("a", "BIGINT"), ("b", "DECIMAL(12,2)"), ("c", "DOUBLE"), ("d", "VARCHAR"), ("e", "JSON"), ("f", "TIMESTAMP WITH TIME ZONE"), ("g", "DATE"),
    ("h", "BOOLEAN"), ("i", "UTINYINT"), ("j", "DECIMAL(38,0)"), ("k", "HUGEINT"), ("l", "BIGINT[]"), ("m", "STRUCT(x BIGINT, y VARCHAR)[]"), ("n", "MAP(VARCHAR, DECIMAL(4,1))"), ("ship.to \u00e9\"", "VARCHAR"), ("A ", "TIMESTAMP"),
]  # fmt: skip
DECLARED = [BatchColumn(name, type_) for name, type_ in COLUMNS]
READ = {"DATE": "epoch_us({}::TIMESTAMP)", "TIMESTAMP": "epoch_us({})", "TIMESTAMP WITH TIME ZONE": "epoch_us({})"}

digits = st.text(string.digits, min_size=1, max_size=25)
numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["0", "-0", "1.0", "1.5", "-0.005", "10.005", "1e3", "1E+2", "0.1e1", "1e400", "-1e400", "1e-400", "1.005", "9" * 40, "0.5e-7",
                     "9223372036854775807", "9223372036854775808", "12345678901234567.89", "1772323199.75", "1772323199999999999", "9999999999.995"]),
    st.builds("{}{}.{}{}".format, st.sampled_from(["", "-"]), digits.map(lambda d: d.lstrip("0") or "0"), digits,
              st.sampled_from(["", "e5", "E-3", "e+20", "e-30"])),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)  # fmt: skip
days = st.builds("{:04}-{:02}-{:02}".format, st.sampled_from([0, 1, 4, 1900, 1970, 2000, 2024, 2026, 9999]), st.integers(0, 13), st.integers(0, 32))
clocks = st.one_of(
    st.just(""), st.builds("{}{:02}:{:02}".format, st.sampled_from(["T", "t", " ", "_"]), st.integers(0, 24), st.integers(0, 60)),
    st.builds("{}{:02}:{:02}:{:02}{}".format, st.sampled_from(["T", " "]), st.integers(0, 24), st.integers(0, 60), st.integers(0, 60),
              st.one_of(st.just(""), st.text(string.digits, min_size=1, max_size=12).map(lambda d: "." + d))),
)  # fmt: skip
zones = st.sampled_from(["", "Z", "z", "+02:00", "-0330", "+14", " +01:00", "+24:00", "-00:60", "UTC", " ", "+1"])
times = st.builds("{}{}{}".format, days, clocks, zones)
spelt = st.one_of(st.text(max_size=8), times, numbers, st.sampled_from(["", "true", "null", "yesterday", "0x10", "12abc", "10,50", "00012", "+5", "1_000", " 12"]))


def escaped(text: str, how: int) -> str:
    """A JSON string: as `json` writes it, or with every code unit as an escape, or without any that may be left out."""
    if how == 0:
        return json.dumps(text)
    if how == 1:
        units = text.encode("utf-16-be", "surrogatepass")
        return '"' + "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2)) + '"'
    return json.dumps(text, ensure_ascii=False)


strings = st.builds(escaped, spelt, st.integers(0, 2))
scalars = st.one_of(numbers, strings, st.sampled_from(["true", "false", "null"]))
blanks = st.sampled_from(["", "", "", " ", "\t\n\r "])


def container(opening: str, closing: str, items: list[str], blank: str) -> str:
    return opening + blank + f"{blank},{blank}".join(items) + blank + closing


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.builds("{}:{}".format, strings, inner)
    return st.one_of(
        st.builds(container, st.just("["), st.just("]"), st.lists(inner, max_size=4), blanks),
        st.builds(container, st.just("{"), st.just("}"), st.lists(pairs, max_size=4), blanks),
    )


values = st.recursive(scalars, containers, max_leaves=6)
def pairs_of(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """An object whose members may be x and y."""
    names = st.sampled_from(['"x"', '"y"', '"\\u0078"', '"z"'])
    return st.builds(container, st.just("{"), st.just("}"), st.lists(st.builds("{}:{}".format, names, inner), max_size=3), blanks)


whole = st.one_of(st.integers(-300, 300), st.integers(-(2**64), 2**64)).map(str)
LIKELY = {
    "BIGINT": whole, "UTINYINT": st.integers(0, 256).map(str), "HUGEINT": st.integers(-(2**127) - 1, 2**127).map(str), "BOOLEAN": st.sampled_from(["true", "false"]),
    "DATE": days.map(json.dumps), "BIGINT[]": st.builds(container, st.just("["), st.just("]"), st.lists(whole, max_size=4), blanks),
    "STRUCT(x BIGINT, y VARCHAR)[]": st.builds(container, st.just("["), st.just("]"), st.lists(pairs_of(st.one_of(whole, values)), max_size=3), blanks),
    "MAP(VARCHAR, DECIMAL(4,1))": pairs_of(st.one_of(st.integers(-1100, 1100).map(str), numbers)),
}  # fmt: skip
instants = st.one_of(numbers, st.builds("{}{}{}".format, days, clocks, zones).map(json.dumps))


@st.composite
def members(draw: st.DrawFn) -> str:
    """A member: mostly a declared one, mostly with a value of its type."""
    name, type_ = draw(st.sampled_from([*COLUMNS, *COLUMNS, ("x", "JSON"), ("B", "JSON"), ("", "JSON")]))
    likely = LIKELY.get(type_, numbers if type_.startswith("D") else instants if type_.startswith("T") else values)
    value = draw(st.one_of(likely, likely, likely, likely, values))
    return escaped(name, draw(st.sampled_from([2, 2, 2, 0, 1]))) + draw(blanks) + ":" + draw(blanks) + value


objects = st.builds(container, st.just("{"), st.just("}"), st.lists(members(), max_size=5), blanks)
documents = st.builds("{}{}".format, st.sampled_from(["", "", "", "\ufeff"]), objects).map(str.encode)


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A document with a few bytes changed, taken away or put in."""
    text = bytearray(draw(documents))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        text[at : at + draw(st.integers(0, 2))] = draw(st.sampled_from([b"", b",", b"}", b"]", b"{", b"[", b'"', b"\\", b"\x00", b"\x1f", b"\xff", b"\xc3", b"\xed\xa0\x80",
                                                                       b"NaN", b"Infinity", b"-", b"0", b".", b"e", b"/**/", b"\\ud800", b"\\u", b" ", b"\xef\xbb\xbf"]))  # fmt: skip
    return bytes(text)


payloads = st.one_of(documents, documents, documents, documents, broken(), st.binary(max_size=20), values.map(str.encode))


@pytest.mark.thorough
@settings(max_examples=tries(60, 150), deadline=None)
@given(st.lists(payloads, min_size=1, max_size=12))
@example([b'{"a":0,"n":{"x":1e+16}}'])
def test_every_record_is_read_as_the_rules_say(batch: list[bytes]) -> None:
    with cursor() as own:
        rejected = decode(own, records(batch), DECLARED, ["_row"], "good", "bad").rejected
        cells = ", ".join(READ.get(type_, "{}").format('"' + name.replace('"', '""') + '"') for name, type_ in COLUMNS)
        rows = {n: dict(zip((name for name, _ in COLUMNS), found, strict=True)) for n, *found in own.execute(f"SELECT _row, {cells} FROM good").fetchall()}
        rejects = {n: (reason, column) for n, reason, column in (own.execute("SELECT * FROM bad").fetchall() if rejected else ())}
    assert [rejects.get(n) or rows.get(n) for n in range(len(batch))] == [reference.outcome(value, COLUMNS) for value in batch]
    assert len(rows) + len(rejects) == len(batch)


READABLE = ["no_partition_key", "bad_partition_key", "no_event_time", "bad_event_time", "event_time_out_of_range", None]
"""Reasons of a record whose payload is fine."""


@pytest.mark.thorough
@settings(max_examples=tries(60, 150), deadline=None)
@given(st.lists(payloads, min_size=1, max_size=12), st.permutations([*DECLARED, BatchColumn("x", "JSON"), BatchColumn("a", "VARCHAR")]), st.booleans(),
       st.sampled_from(["d", "f", "g", "A "]))
def test_what_a_split_kept_is_what_decoding_finds(batch: list[bytes], columns: list[BatchColumn], all_kept: bool, path: str) -> None:
    """Columns in any order, one name by two types; if one is missing, the payloads are scanned again."""
    columns = columns if all_kept else [column for column in columns if column != DECLARED[0]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reactor.lake.decoding.kept._size_bytes", lambda *_: 0)
        read = (read_partition_keys if path == "d" else read_event_times)(records(batch), (path,), columns)
    (column, *faults) = read.kept
    fine = pa.array([reason in READABLE for reason in read.reasons.to_pylist()])
    outcomes = []
    kept = records(batch).append_column(*column)
    for table in (records(batch), kept.append_column(*faults[0]) if faults else kept):
        with cursor() as own:
            rejected = decode(own, table.filter(fine), DECLARED, ["_row"], "good", "bad").rejected
            rows = own.execute("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM good ORDER BY _row").fetchall()
            outcomes.append((rows, own.execute("SELECT * FROM bad ORDER BY _row").fetchall() if rejected else []))
    assert outcomes[0] == outcomes[1]


def refused(word: str) -> None:
    raise ValueError(word)


def parses(value: bytes) -> bool:
    """Whether the standard library takes it, once its liberties are taken away."""
    try:
        read = json.loads(value.decode().removeprefix("\ufeff"), parse_constant=refused, parse_int=str, object_pairs_hook=list)
        json.dumps(read, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


@pytest.mark.thorough
@settings(max_examples=tries(80, 200), deadline=None)
@given(payloads)
@example(b'{"b":["\\ud800"],"b":0}')
def test_the_plain_reading_takes_what_the_standard_library_takes(value: bytes) -> None:
    try:
        reference.parse(value)
        taken = True
    except reference.Rejected:
        taken = False
    assert taken == parses(value)
