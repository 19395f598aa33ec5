"""What happens in a round, as a pure function of the seed and the number of the round."""

from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

Kind = Literal[
    "kill", "kill at a place", "kill in COMMIT", "freeze", "freeze at a place", "freeze in COMMIT", "lose an answer", "lose a COMMIT", "restart in order",
    "kill a broker", "restart all brokers", "kill PostgreSQL", "make the lake read-only", "make the topic anew",
]  # fmt: skip
"""`in COMMIT`: between DuckLake's batch and its COMMIT, on the wire; what is killed there has sent it. `at a place`: one of `reactor.runtime.failpoints`."""
KINDS: tuple[Kind, ...] = get_args(Kind)
PLACES = ("before_commit", "after_commit", "before_complete", "before_publish", "after_publish")
REPLICAS, BROKERS = 2, 3
ACTS_MIN, ACTS_MAX = 3, 5
PAUSE_SECONDS_MAX = 2.0
LASTS_SECONDS_MIN, LASTS_SECONDS_MAX = 0.5, 12.0
"""Below and above Kafka's session (10 s) and PostgreSQL's patience with an idle transaction (5 s)."""
AWAY_SECONDS_MAX = 4.0
"""How long PostgreSQL is away: nobody can be asked anything meanwhile."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that goes wrong. `after_seconds`: since the one before; `lasts_seconds`: until it is mended, if it is not by itself."""

    kind: Kind
    after_seconds: float
    lasts_seconds: float
    replica: int
    broker: int
    place: str
    turn: int
    leases_run_out: bool

    def __str__(self) -> str:
        said = {
            "kill": f" replica {self.replica}",
            "kill at a place": f" {self.place}:{self.turn} replica {self.replica}",
            "freeze": f" replica {self.replica} for {self.lasts_seconds:.1f} s",
            "freeze at a place": f" {self.place}:{self.turn} replica {self.replica} for {self.lasts_seconds:.1f} s",
            "freeze in COMMIT": f" for {self.lasts_seconds:.1f} s",
            "restart in order": f" replica {self.replica}",
            "kill a broker": f" ({self.broker}) for {self.lasts_seconds:.1f} s",
            "kill PostgreSQL": f" for {min(self.lasts_seconds, AWAY_SECONDS_MAX):.1f} s",
            "make the lake read-only": f" for {self.lasts_seconds:.1f} s",
        }.get(self.kind, "")
        return f"+{self.after_seconds:.1f} s {self.kind}{said}{', leases run out' if self.leases_run_out else ''}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One round. `static`: replicas have names of their own, so that Kafka keeps their place while they are away. `asked`: for how many acts, or 0."""

    seed: int
    number: int
    static: bool
    partitions: int
    acts: tuple[Act, ...]
    asked: int

    @property
    def again(self) -> str:
        """What to type for this round alone."""
        return f"make chaos SEED={self.seed} FIRST={self.number} ROUNDS=1{f' ACTS={self.asked}' if self.asked else ''}"

    def __str__(self) -> str:
        names = "named replicas" if self.static else "nameless replicas"
        return "; ".join([f"round {self.number} of seed {self.seed}: {names}, {self.partitions} source partitions", *map(str, self.acts)])


def plan(seed: int, number: int, acts: int = 0) -> Plan:
    """The round of this number, from 1. `acts`: how many, 0: it varies."""
    random = Random(f"{seed}/{number}")
    dealt = _dealt(seed, number, acts)
    happens = tuple(_act(random, kind) for kind in dealt)
    return Plan(seed, number, random.random() < 0.5, random.choice((1, 2, 4)), happens, acts)


def _act(random: Random, kind: Kind) -> Act:
    return Act(
        kind, random.uniform(0.0, PAUSE_SECONDS_MAX), random.uniform(LASTS_SECONDS_MIN, LASTS_SECONDS_MAX), random.randrange(REPLICAS),
        1 + random.randrange(BROKERS), random.choice(PLACES), random.choice((1, 1, 2, 4)), random.random() < 0.4)


def _dealt(seed: int, number: int, acts: int) -> list[Kind]:
    """The cards of this round: those of the rounds before are gone, and a deck that runs out is followed by another one."""
    first, count = 0, 0
    for earlier in range(1, number + 1):
        first, count = first + count, acts or Random(f"{seed}/{earlier}/acts").randint(ACTS_MIN, ACTS_MAX)
    return [_deck(seed, at // len(KINDS))[at % len(KINDS)] for at in range(first, first + count)]


def _deck(seed: int, number: int) -> list[Kind]:
    deck = list(KINDS)
    Random(f"{seed}/deck {number}").shuffle(deck)
    return deck
