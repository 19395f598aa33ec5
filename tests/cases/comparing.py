"""Results beside what a case wants."""

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from typing import Any

from reactor.domain.annotations import read_type
from reactor.domain.diagnostics import Malformed

Cells = Sequence[str | None]


class Unknown(Exception):
    """A case says something that its runner does not know."""


def same_rows(got: Iterable[Cells], wanted: Iterable[Cells]) -> bool:
    """As sets with multiplicity."""
    return Counter(map(tuple, got)) == Counter(map(tuple, wanted))


def same_cell(got: str | None, wanted: str | None, compare: str) -> bool:
    """`compare`: empty for the text as it is, `… as JSON …` for the value, with the digits of every number, `text without blanks`."""
    if got is None or wanted is None or not compare:
        return got == wanted
    if "JSON" in compare:
        return _json(got) == _json(wanted)
    if "without blanks" in compare:
        return re.sub(r"\s", "", got) == re.sub(r"\s", "", wanted)
    raise Unknown(f"runner does not know compare {compare!r}")


def _json(text: str) -> object:
    try:
        return json.loads(text, parse_int=Decimal, parse_float=Decimal, object_pairs_hook=tuple)
    except ValueError:
        return text


def choices(expect: Any) -> list[Any]:
    """What may be right: all that `expect` says, with each of its `one_of`, which may stand for the value of a field too."""
    if isinstance(expect, Mapping):
        rest = {name: choices(value) for name, value in expect.items() if name != "one_of"}
        whole: list[Any] = [dict(zip(rest, values, strict=True)) for values in product(*rest.values())]
        if "one_of" not in expect:
            return whole
        ways = [choice for one in expect["one_of"] for choice in choices(one)]
        return [{**one, **way} for one in whole for way in ways] if rest else ways
    if isinstance(expect, Sequence) and not isinstance(expect, str):
        return [list(values) for values in product(*map(choices, expect))]
    return [expect]


async def any_right(expect: Mapping[str, Any], differences: Callable[[Mapping[str, Any]], Awaitable[list[str]]]) -> str | None:
    """None if one of the choices has no difference, else what is wrong with each."""
    return nearest([await differences(choice) for choice in choices(expect)])


def nearest(answers: Sequence[Sequence[str]]) -> str | None:
    """None if one of the choices has no difference, else what is wrong with each."""
    if not answers:
        raise Unknown("one_of is empty")
    return None if any(not answer for answer in answers) else " or ".join("; ".join(answer) for answer in answers)


def is_right(name: str, got: Any, wanted: Any) -> bool:
    """Whether a field is as wanted; `*_between` is a count from a to b."""
    return between(got, wanted) if name.endswith("_between") else bool(got == wanted)


def between(got: Any, wanted: Any) -> bool:
    """Whether a count (or each of counts by name, and no other) is one from a to b; a name that has none is 0."""
    if isinstance(wanted, Mapping):
        return got.keys() <= wanted.keys() and all(between(got.get(name, 0), bounds) for name, bounds in wanted.items())
    low, high = wanted
    return bool(low <= got <= high)


def unnamed(wanted: str, message: str, words: Iterable[str]) -> list[str]:
    """A message is given by sense: which things the wanted text names and the message does not.

    Things are numbers, words in capitals (types, QUALIFY), options (`latest=`), and those of `words` (names and cells of the case). A type may
    have any of its names.
    """
    wanted, message = _short(wanted), _short(message)
    things = {_short(word) for word in words} | set(re.findall(r"\b\d+\b|\b[A-Z][A-Z0-9_]+\b|\w+=", wanted))
    return sorted(thing for thing in things if _holds(wanted, thing) and not any(_holds(message, name) for name in (thing, _type(thing))))


def _short(text: str) -> str:
    return re.sub(r"\b(TIME|TIMESTAMP) WITH TIME ZONE\b", r"\1TZ", text)


def _type(thing: str) -> str:
    """As DuckDB spells it, if it is a type in capitals."""
    try:
        return read_type(thing) if thing[:1].isupper() else thing
    except Malformed:
        return thing


def _holds(text: str, thing: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(thing)}(?!\w)" if thing[-1:].isalnum() else re.escape(thing), text, re.IGNORECASE) is not None


def unknown_fields(given: Iterable[str], known: Iterable[str]) -> None:
    """A field that a runner would pass over makes its result worthless. Raises Unknown."""
    if left := sorted(set(given) - set(known)):
        raise Unknown(f"runner does not know {', '.join(left)}")


def told(differences: Iterator[str]) -> str | None:
    """All of them, or None."""
    return "; ".join(differences) or None
