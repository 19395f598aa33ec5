"""Rounds of chaos: python -m tests.chaos [--rounds N] [--seed N] [--first N] [--acts N]

Ends with `chaos: rounds=… kills=… lost=… doubled=… stuck=…`, and exit code 1 if any of the last three is not 0.
"""

import argparse
import logging
import secrets
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from reactor.errors import UsageError
from tests.chaos.facts import Findings
from tests.chaos.parts import Parts, parts
from tests.chaos.plan import Plan, plan
from tests.chaos.round import Round, play
from tests.parts import PartMissing

ROUNDS = 20
SEEDS = 1_000_000


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    asked = _asked(arguments)
    logging.getLogger().addHandler(logging.NullHandler())  # brokers that die are not for the reader of the report
    bar = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    total, kills = Findings(), 0
    with Progress(*bar, console=Console(stderr=True, soft_wrap=True, highlight=False), transient=True) as progress:
        task = progress.add_task("three brokers and a PostgreSQL start", total=asked.rounds)
        try:
            with parts() as stand:
                for number in range(asked.first, asked.first + asked.rounds):
                    played = _play(plan(asked.seed, number, asked.acts), stand, progress)
                    kills += played.kills
                    total.add(played.findings)
                    progress.advance(task)
        except (PartMissing, UsageError) as missing:
            progress.console.print(f"no chaos on this machine: {missing}")
            return 1
    print(f"chaos: rounds={asked.rounds} kills={kills} lost={total.lost} doubled={total.doubled} stuck={total.stuck}")  # noqa: T201 - its answer
    return 1 if total.said else 0


def _play(planned: Plan, stand: Parts, progress: Progress) -> Round:
    """One round, with a line that says what became of it; if something is wrong, with how to do it again."""
    began_at = time.monotonic()
    task = progress.task_ids[0]
    played = play(planned, stand, lambda what: progress.update(task, description=f"round {planned.number}: {what}"))
    progress.console.print(f"{planned}: {len(played.shop.orders.sent)} orders in {time.monotonic() - began_at:.0f} s")
    for sentence in played.findings.said:
        progress.console.print(f"WRONG in round {planned.number} of seed {planned.seed}: {sentence}", markup=False)
    if played.findings.said:
        progress.console.print(f"again: {planned.again}; logs in {stand.folder}")
    return played


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(SEEDS))
    parser.add_argument("--first", type=int, default=1, help="the number of the first round")
    parser.add_argument("--acts", type=int, default=0, help="so many in each round, for a long one; 0: three to five")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
