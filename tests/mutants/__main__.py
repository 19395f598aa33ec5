"""`python -m tests.mutants [NAME …]`: break one rule after the other, and see that a test falls. Progress goes to stderr, answers to stdout."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import Progress

from tests.mutants.campaign import Fate, fates
from tests.mutants.catalogue import MUTANTS
from tests.parts.postgres import postgres


def main(names: list[str]) -> int:
    """0: every mutant was killed; 1: one survived, or its test proves nothing; 2: there is no such mutant."""
    said, complained = (
        partial(Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True).print) for stderr in (False, True))
    if unknown := [name for name in names if name not in MUTANTS]:
        complained(f"there is no mutant {', '.join(unknown)}; there are: {', '.join(MUTANTS)}")
        return 2
    found = campaign(names or list(MUTANTS))
    for fate in found:
        mutant = MUTANTS[fate.name]
        said(f"{fate.outcome:8} {fate.name}: {mutant.breaks} ({mutant.shows})\n         by {mutant.killer}")
        if fate.outcome != "killed":
            complained(f"{fate.name}: {fate.outcome}; {mutant.killer} said:\n{fate.said}")
    killed = sum(fate.outcome == "killed" for fate in found)
    said(f"mutants: killed={killed} survived={len(found) - killed}")
    return 0 if killed == len(found) else 1


def campaign(names: list[str]) -> list[Fate]:
    """In the order of the catalogue. They share one PostgreSQL."""
    found: dict[str, Fate] = {}
    with (
        TemporaryDirectory(prefix="reactor-mutants-") as temporary,
        postgres((folder := Path(temporary)) / "postgres") as url,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        bar = progress.add_task("mutants", total=len(names))
        for fate in fates(names, url, folder):
            found[fate.name] = fate
            progress.update(bar, advance=1, description=fate.name)
    return [found[name] for name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
