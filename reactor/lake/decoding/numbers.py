"""Numbers written with an exponent, as plain decimal digits."""

from __future__ import annotations

DIGITS_MAX = 45
"""Digits on either side of the point that can matter: no type of DuckDB but the binary ones holds or rounds by more than 39."""
_EXPONENT_DIGITS_MAX = 12


def plain(number: str) -> str:
    """The same JSON number without an exponent and without idle zeros behind its point: `1.20e1` is `12`.

    What no decimal type can hold or tell from zero is written shorter, with as many digits as it takes to be refused or rounded alike.
    """
    mantissa, _, power = number.lower().partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) - (len(whole + fraction) - len(digits)) + _exponent(power)
    if not digits:
        return "0"
    if point > DIGITS_MAX:
        return sign + "1" + "0" * DIGITS_MAX
    if point < -DIGITS_MAX:
        return sign + "0." + "0" * DIGITS_MAX + "1"
    whole = digits[:point].ljust(point, "0") if point > 0 else "0"
    fraction = (digits[point:] if point > 0 else "0" * -point + digits).rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def _exponent(power: str) -> int:
    """The value of an exponent, kept short: beyond some digits all exponents are alike."""
    sign = -1 if power.startswith("-") else 1
    digits = power.lstrip("+-0")
    return sign * (int(digits or "0") if len(digits) <= _EXPONENT_DIGITS_MAX else 10**_EXPONENT_DIGITS_MAX)
