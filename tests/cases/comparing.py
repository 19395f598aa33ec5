"""Results beside what a case wants."""

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

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


def choices(expect: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What may be right: all that `expect` says, with each of its `one_of`."""
    rest = {name: value for name, value in expect.items() if name != "one_of"}
    return [{**rest, **one} for one in expect.get("one_of", [{}])]


async def any_right(expect: Mapping[str, Any], differences: Callable[[Mapping[str, Any]], Awaitable[list[str]]]) -> str | None:
    """None if one of the choices has no difference, else what is wrong with each."""
    answers = ["; ".join(await differences(choice)) for choice in choices(expect)]
    return None if "" in answers else " or ".join(answers)


def between(got: Any, wanted: Any) -> bool:
    """Whether a count (or each of counts by name, and no other) is one from a to b; a name that has none is 0."""
    if isinstance(wanted, Mapping):
        return got.keys() <= wanted.keys() and all(between(got.get(name, 0), bounds) for name, bounds in wanted.items())
    low, high = wanted
    return bool(low <= got <= high)


def unnamed(wanted: str, message: str, words: Iterable[str]) -> list[str]:
    """A message is given by sense: which things the wanted text names and the message does not.

    Things are numbers, words in capitals (types, QUALIFY), options (`latest=`), and those of `words` (names and cells of the case).
    """
    things = set(words) | set(re.findall(r"\b\d+\b|\b[A-Z][A-Z0-9_]+\b|\w+=", wanted))
    return sorted(thing for thing in things if _holds(wanted, thing) and not _holds(message, thing))


def _holds(text: str, thing: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(thing)}(?!\w)" if thing[-1:].isalnum() else re.escape(thing), text, re.IGNORECASE) is not None


def unknown_fields(given: Iterable[str], known: Iterable[str]) -> None:
    """A field that a runner would pass over makes its result worthless. Raises Unknown."""
    if left := sorted(set(given) - set(known)):
        raise Unknown(f"runner does not know {', '.join(left)}")


def told(differences: Iterator[str]) -> str | None:
    """All of them, or None."""
    return "; ".join(differences) or None
