"""Numbers that are text, against the decimal arithmetic of Python; what else is converted goes through a lake (`test_drift`)."""

from decimal import ROUND_HALF_UP, Context, Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactor.lake.statements.casting import INTEGERS, conversion
from tests.parts.effort import tries

EXACT = Context(prec=2000, Emax=999_999, Emin=-999_999, rounding=ROUND_HALF_UP)
BOUNDS = {"SMALLINT": (-(2**15), 2**15 - 1), "BIGINT": (-(2**63), 2**63 - 1), "UBIGINT": (0, 2**64 - 1)}
DIGITS = st.text("0123456789", min_size=1, max_size=25) | st.text("0459", min_size=1, max_size=5)
NUMBERS = st.builds(
    lambda sign, whole, fraction, power: f"{sign}{whole}{fraction}{power}", st.sampled_from(["", "-"]), DIGITS, st.just("") | DIGITS.map(lambda d: f".{d}"),
    st.just("") | st.builds(lambda e, n: f"{e}{n}", st.sampled_from(["e", "E", "e+", "e-"]), st.integers(0, 30) | st.integers(0, 400)),
)


def converted(texts: list[str], target: str) -> list[str | None]:
    """The values as text; None where they do not fit."""
    rule = conversion("VARCHAR", target)
    with duckdb.connect() as engine:
        given = engine.from_arrow(pa.table({"x": pa.array(texts, pa.string())}))
        assert rule.failing is not None
        found = given.project(f"CASE WHEN NOT {rule.failing('x')} THEN CAST({rule.value('x')} AS VARCHAR) END").fetchall()
    return [row[0] for row in found]


def wanted(number: str, target: str) -> Decimal | None:
    exact = Decimal(number)
    if target in INTEGERS:
        least, most = BOUNDS[target]
        return exact if least <= exact <= most and exact == exact.to_integral_value(context=EXACT) else None
    width, scale = map(int, target.removeprefix("DECIMAL(").removesuffix(")").split(","))
    rounded = exact.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    return rounded if abs(rounded) < Decimal(10) ** (width - scale) else None


@pytest.mark.thorough
@pytest.mark.parametrize("target", [*BOUNDS, "DECIMAL(6,2)", "DECIMAL(38,10)", "DECIMAL(18,0)", "DECIMAL(38,38)"])
@given(texts=st.lists(NUMBERS, min_size=1, max_size=50))
@settings(max_examples=tries(20, 300), deadline=None)
def test_a_number_is_taken_by_its_digits(target: str, texts: list[str]) -> None:
    texts = [text for text in texts if not (target == "UBIGINT" and text.startswith("-"))]
    assert [None if value is None else Decimal(value) for value in converted(texts, target)] == [wanted(text, target) for text in texts]
