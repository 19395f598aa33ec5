"""From an instant to its asset partition and back from a key: header line, splitter, calendar and the SQL a body sees, all of them real."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from itertools import pairwise

import duckdb
import pyarrow as pa

from reactor.domain.assets import ProjectNames
from reactor.domain.partitions import NoSlice, Slice, asked_partition, calendar_of, rfc3339
from reactor.domain.project import Checked, check_project
from reactor.domain.scripts import Partitioning, Routing, ScriptPath
from reactor.domain.spans import UNROUTED, Piece, SourcePartition
from reactor.lake.rows import Rows
from reactor.lake.split import ArrowSplitter
from reactor.lake.statements.windows import fill_in, partition_macro
from reactor.ports import RawSpan
from tests.cases import Case
from tests.cases.comparing import choices, is_right

PATH = ScriptPath("t.sql")
NAMES = ProjectNames(lakes=("main",), clusters=("main",))
NOW = 1_772_366_400.0  # 2026-03-01T12:00:00Z
RECORD = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("key", pa.binary()), ("value", pa.binary()),
    ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip


@contextmanager
def environment() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB whose session has another zone than any case."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        yield connection


def run(case: Case, setup: Case, session: duckdb.DuckDBPyConnection) -> str | None:
    """What differs from the case."""
    del setup
    wanted = case["expect"]
    assert isinstance(wanted, dict)
    got = result(case, session)
    return None if any(meets(got, choice) for choice in choices(wanted)) else f"got {got} wanted {wanted}"


def result(case: Case, session: duckdb.DuckDBPyConnection) -> dict[str, object]:
    """All that can be said of a case; an error by its reason word."""
    if case["op"] == "check":
        checked = check(str(case["line"]))
        return {"exit": checked.exit_code, "about": " ".join(found.message for found in checked.diagnostics if found.severity == "error")}
    partitioning = partitioning_of(case)
    try:
        match case["op"]:
            case "slice":
                return placed(partitioning, case, session)
            case "key":
                return bounds(partitioning, asked_partition(partitioning, str(case["key"]), NOW), session)
            case "list":
                return listed([one.identity for one in calendar_of(partitioning).between(*dates(case))])
            case "tiles":
                return tiles(partitioning, case)
            case _:
                raise KeyError(case["op"])
    except NoSlice as refused:
        return {"error": refused.reason, "says": str(refused)}


def check(line: str) -> Checked:
    """`reactor check` over a managed script with this line."""
    text = f"-- on kafka://readings\n{line}\n-- materialize ducklake://main/t append\nSELECT 1 AS id FROM batch"
    return check_project({PATH: text.encode()}, NAMES)


def partitioning_of(case: Case) -> Partitioning:
    """The `partitioned` line of the case, read from a header."""
    options = {"tz": case.get("zone"), "format": case.get("format"), "start": case.get("start")}
    words = [f'{name}="{value}"' if name == "format" else f"{name}={value}" for name, value in options.items() if value is not None]
    checked = check(" ".join(["-- partitioned", str(case["partitioned"]), *words]))
    script = checked.scripts.get(PATH)
    assert script is not None, [str(found) for found in checked.diagnostics]
    assert script.header.partitioned is not None
    return script.header.partitioned


def placed(partitioning: Partitioning, case: Case, session: duckdb.DuckDBPyConnection) -> dict[str, object]:
    """One record split: its event time in the header that the default chain reads first, or its payload."""
    headers = [{"name": "event_time", "value": str(case["instant"]).encode()}] if "instant" in case else []
    record = {"offset": 1, "timestamp": None, "key": None, "value": str(case.get("payload", "{}")).encode(), "headers": headers}
    raw = RawSpan(SourcePartition("kafka://main/readings", "0"), 1, 2, pa.Table.from_pylist([record], RECORD), 0)
    routing = Routing(partitioning)
    ((identity, piece),) = ArrowSplitter().split(raw, [routing], NOW).pieces[routing.fingerprint].items()
    if identity == UNROUTED:
        return {"error": reason(piece)}
    found = bounds(partitioning, identity, session)
    if partitioning.kind != "dynamic":
        instant = f"TIMESTAMPTZ '{case['instant']}'"
        assert spoken(partitioning, f"wm_partition({instant})", identity, session) == identity
        assert spoken(partitioning, f"{instant} >= $WM_PARTITION_START AND {instant} < $WM_PARTITION_END", identity, session) is True
    return found


def reason(piece: Piece) -> object:
    """Why the one record of a piece has no slice."""
    assert isinstance(piece.payload, Rows)
    assert piece.payload.reasons is not None
    return piece.payload.reasons[0].as_py()


def bounds(partitioning: Partitioning, identity: str, session: duckdb.DuckDBPyConnection) -> dict[str, object]:
    """A slice in the words of the cases."""
    assert spoken(partitioning, "{partition}", identity, session) == identity
    if partitioning.kind == "dynamic":
        return {"identity": identity}
    found = calendar_of(partitioning).parse(identity)
    return {"identity": found.identity, "start": rfc3339(found.start), "end": rfc3339(found.end), "hours": hours(found)}


def hours(found: Slice) -> str:
    """How long it lasts."""
    return f"{Decimal(found.end - found.start) / 3_600_000_000:f}"


def spoken(partitioning: Partitioning, expression: str, identity: str, session: duckdb.DuckDBPyConnection) -> object:
    """What an expression of a body gives in a run of this slice."""
    session.execute(partition_macro(partitioning))
    window = None
    if partitioning.kind != "dynamic":
        found = calendar_of(partitioning).parse(identity)
        window = (rfc3339(found.start), rfc3339(found.end))
    row = session.execute(fill_in(f"SELECT {expression}", identity, window)).fetchone()
    assert row is not None
    return row[0]


def dates(case: Case) -> tuple[date, date]:
    """The local dates of a range."""
    return date.fromisoformat(str(case["from"])[:10]), date.fromisoformat(str(case["to"])[:10])


def listed(keys: list[str]) -> dict[str, object]:
    """A range of slices."""
    return {"count": len(keys), "keys": keys, "first": keys[0] if keys else None, "last": keys[-1] if keys else None, "contains_in_order": keys}


def tiles(partitioning: Partitioning, case: Case) -> dict[str, object]:
    """How the slices of a range of local dates meet: gaps, overlaps, names that come twice or do not lead back."""
    calendar = calendar_of(partitioning)
    first, last = dates(case)
    found = list(calendar.between(first, last))
    gaps = sum(earlier.end < later.start for earlier, later in pairwise(found))
    overlaps = sum(earlier.end > later.start for earlier, later in pairwise(found))
    covered = bool(found) and found[0].start <= calendar.of_date(first)[0] and found[-1].end >= calendar.of_date(last)[1]
    named = len({one.identity for one in found}) == len(found) and all(calendar.parse(one.identity) == one for one in found)
    right = not gaps and not overlaps and covered and named
    return {**listed([one.identity for one in found]), "gaps": gaps, "overlaps": overlaps, "covered": covered, "unique": named, "tiles": right, "ok": right}


def meets(got: dict[str, object], wanted: Case) -> bool:
    """Whether every field that the case names is as it says; prose is given by sense."""
    return all(field(name, got, value) for name, value in wanted.items() if name not in {"meaning", "why"})


def field(name: str, got: dict[str, object], wanted: object) -> bool:
    """Whether one field is right: hours as numbers, a message by the word it has to name, a part of a list in its order."""
    have = got.get(name.removesuffix("_between"))
    match name:
        case "hours":
            return isinstance(have, str) and round(Decimal(have), max(0, -int(Decimal(str(wanted)).as_tuple().exponent))) == Decimal(str(wanted))
        case "about":
            return str(wanted) in str(have)
        case "contains_in_order" if isinstance(have, list) and isinstance(wanted, list):
            rest = iter(have)
            return all(key in rest for key in wanted)
        case _:
            return is_right(name, have, wanted)
