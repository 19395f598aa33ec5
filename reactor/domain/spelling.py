"""How far two words are apart: for "did you mean", and for telling a misspelt keyword from prose."""

from __future__ import annotations

from collections.abc import Iterable

EDITS_MAX = 2
"""A word further away than this many edits is another word."""


def distance(left: str, right: str) -> int:
    """Edits between two words, their case aside: insert, delete, replace a letter, or swap two neighbours."""
    a, b = left.casefold(), right.casefold()
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row, above = row, [i], before
        for j, y in enumerate(b, 1):
            edits = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                edits = min(edits, above[j - 2] + 1)
            row.append(edits)
    return row[-1]


def near(left: str, right: str, edits_max: int = EDITS_MAX) -> bool:
    """Whether they are at most `edits_max` edits apart; cheap for words of different length."""
    if abs(len(left) - len(right)) > edits_max or len(set(left.casefold()) ^ set(right.casefold())) > 2 * edits_max:
        return False
    return distance(left, right) <= edits_max


def nearest(word: str, choices: Iterable[str], edits_max: int = EDITS_MAX) -> str | None:
    """The choice with the fewest edits, the first of equals; None if all are further than `edits_max`, or than half of the word."""
    edits_max = min(edits_max, max(len(word) // 2, 1))
    close = [(distance(word, choice), place, choice) for place, choice in enumerate(choices) if near(word, choice, edits_max)]
    return min(close)[2] if close else None
