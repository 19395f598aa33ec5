"""The given cases of decoding, without broker and lake."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lake.decoding.reading import Decoded, decoded

Case = Mapping[str, Any]
CASES: Sequence[Case] = json.loads((Path(__file__).parents[2] / "cases" / "payload.json").read_text(encoding="utf-8"))["cases"]
OF_WHOLE_RUNS = {"pay-33"}  # the tombstone that is a row: made by the batch, not by the decoding


def value_of(case: Case) -> bytes | None:
    if "value_base64" in case:
        return base64.b64decode(case["value_base64"])
    if repeat := case.get("value_repeat"):
        middle = repeat["unit"] * repeat["times"] + repeat["middle"] + repeat["unit_after"] * repeat["times"]
        return f"{repeat['prefix']}{middle}{repeat['suffix']}".encode()
    return None if case["value"] is None else str(case["value"]).encode()


def batches_of(case: Case) -> list[list[bytes | None]]:
    if "batches" in case:
        return [[text.encode() for text in batch] for batch in case["batches"]]
    if "records" in case:
        return [[text.encode() for text in case["records"]]]
    return [[b'{"id":1}', value_of(case), b'{"id":3}']]


def comparable(cell: str | None, case: Case) -> object:
    """Cells are text; where a case compares JSON, blanks are no difference."""
    how = case["expect"].get("compare", "")
    if cell is None or not how:
        return cell
    return "".join(cell.split()) if "blanks" in how else json.loads(cell, parse_int=str, parse_float=str)


def check_row(case: Case, found: Decoded, expected: Mapping[str, str | None]) -> None:
    assert found.rejects == {}
    for name, cell in expected.items():
        kind, _, rest = name.partition("(")
        own = found.rows[1][rest.removesuffix(")") if rest else name]
        if rest:
            own = str(len(own or "")) if kind == "length" else (own or "").encode().hex()
        assert comparable(own, case) == comparable(cell, case)


def check(case: Case, found: Decoded, expect: Mapping[str, Any]) -> None:
    if "row" in expect:
        check_row(case, found, expect["row"])
    elif "quarantine" in expect:
        assert found.rejects == {1: (expect["quarantine"], expect.get("column"))}
    else:
        assert found.rejects == {1: ("tombstone", None)}
        assert "no_row" in expect
    assert {0, 2} <= set(found.rows)


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] not in OF_WHOLE_RUNS], ids=lambda case: case["id"])
def test_payload(case: Case) -> None:
    columns = None if case["columns"].startswith("(none") else f"id BIGINT, {case['columns']}"
    found = [decoded(batch, columns) for batch in batches_of(case)]
    expect = case["expect"]
    if "rows" in expect:
        assert [row for batch in found for _, row in sorted(batch.rows.items())] == expect["rows"]
        assert sum(len(batch.rejects) for batch in found) == expect.get("quarantined", 0)
    elif "one_of" in expect:
        assert any(passes(case, found[0], one) for one in expect["one_of"])
    else:
        check(case, found[0], expect)


def passes(case: Case, found: Decoded, expect: Mapping[str, Any]) -> bool:
    try:
        check(case, found, expect)
    except AssertionError:
        return False
    return True
