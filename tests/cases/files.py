"""Reading case files, and the rules for what waits."""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cases import Case

PENDING = Path(__file__).with_name("pending.toml")
PROSE = frozenset({"title", "why", "decision_why"})


class BadCases(Exception):
    """A case file or `pending.toml` cannot be read."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One file."""

    name: str
    setup: Case
    cases: Sequence[Case]


@dataclass(frozen=True, slots=True)
class Pending:
    """Cases of `kind` whose text holds `having` wait for `row`."""

    row: str
    kind: str
    having: re.Pattern[str]

    def holds(self, kind: str, case: Case) -> bool:
        """Whether the case waits for this row."""
        return kind == self.kind and self.having.search(text_of(case)) is not None


def text_of(case: Case) -> str:
    """The case as compact JSON, without its prose."""
    return json.dumps({name: value for name, value in case.items() if name not in PROSE}, ensure_ascii=False, separators=(",", ":"))


def read_kinds(folder: Path) -> list[Kind]:
    """All kinds of a folder, by name. Raises BadCases."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise BadCases(f"{folder}: no case files (*.json) there")
    return [_read_kind(file) for file in files]


def _read_kind(file: Path) -> Kind:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        name = str(content["kind"])
        return Kind(name, content.get("setup", {}), [{"id": f"{name} #{number}", **case} for number, case in enumerate(content["cases"], 1)])
    except (ValueError, KeyError, TypeError) as error:
        raise BadCases(f"{file}: not a case file ({error!r}); it needs kind, setup and cases") from error


def read_pending(file: Path = PENDING) -> list[Pending]:
    """The rules, in their order. Raises BadCases."""
    try:
        rules = tomllib.loads(file.read_text(encoding="utf-8")).get("pending", [])
        return [Pending(rule["row"], rule["kind"], re.compile(rule.get("having", ""))) for rule in rules]
    except (ValueError, KeyError, re.error) as error:
        raise BadCases(f"{file}: {error!r}") from error
