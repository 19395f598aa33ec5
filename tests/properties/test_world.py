"""Whatever happens to replicas, logs and the database, nothing is lost, doubled or stuck. (`make mutants` shows that each rule is needed.)"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reactor.core.ledger import Ledger
from tests.properties.world import World, live

LIVES = 400


WHO, WHERE, MEANWHILE = st.integers(0, 2), st.integers(0, 2), st.integers(0, 12)


class WorldMachine(RuleBasedStateMachine):
    """Hypothesis says what happens to whom and how much ordinary work follows; logs and the order of effects come from a seed that it says too."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.world = World(seed)
        self.floors: dict[Ledger, int] = {}

    def happens(self, act: str, who: int = 0, where: int = 0, *, meanwhile: int = 0) -> None:
        replicas, world = self.world.replicas, self.world
        getattr(world, act)(replicas[who % len(replicas)], where % len(world.topic))
        world.go_on(meanwhile)

    @rule(steps=st.integers(1, 30))
    def time_passes(self, steps: int) -> None:
        self.world.go_on(steps)

    @rule(meanwhile=MEANWHILE)
    def race(self, meanwhile: int) -> None:
        self.happens("race", meanwhile=meanwhile)

    @rule(who=WHO, meanwhile=MEANWHILE)
    def hand_over_in_mid_run(self, who: int, meanwhile: int) -> None:
        self.happens("hand_over", who, meanwhile=meanwhile)

    @rule(meanwhile=MEANWHILE)
    def two_merges_on_a_fresh_slice(self, meanwhile: int) -> None:
        self.happens("merge_twice", meanwhile=meanwhile)

    @rule(who=WHO, act=st.sampled_from(["fail", "block_and_retry", "late"]), meanwhile=MEANWHILE)
    def run_breaks(self, who: int, act: str, meanwhile: int) -> None:
        self.happens(act, who, meanwhile=meanwhile)

    @rule(who=WHO, where=WHERE, act=st.sampled_from(["revoke", "regain", "crash", "join", "leave"]), meanwhile=MEANWHILE)
    def replicas_change(self, who: int, where: int, act: str, meanwhile: int) -> None:
        self.happens(act, who, where, meanwhile=meanwhile)

    @rule(who=WHO, where=WHERE, act=st.sampled_from(["replay", "expire", "recreate"]), meanwhile=MEANWHILE)
    def log_changes(self, who: int, where: int, act: str, meanwhile: int) -> None:
        self.happens(act, who, where, meanwhile=meanwhile)

    @rule(where=WHERE, act=st.sampled_from(["arrive", "backup", "restore", "reset"]), meanwhile=MEANWHILE)
    def database_changes(self, where: int, act: str, meanwhile: int) -> None:
        self.happens(act, 0, where, meanwhile=meanwhile)

    @rule(who=WHO, act=st.sampled_from(["edit", "deploy", "pause", "restored"]), meanwhile=MEANWHILE)
    def operators_act(self, who: int, act: str, meanwhile: int) -> None:
        self.happens(act, who, meanwhile=meanwhile)

    @rule(who=WHO, away=st.sampled_from([0.0, 0.2, 1.0]), meanwhile=MEANWHILE)
    def somebody_is_told(self, who: int, away: float, meanwhile: int) -> None:
        self.world.away = away
        self.happens("tell", who, meanwhile=meanwhile)

    @invariant()
    def what_counts_as_settled_is_there_once(self) -> None:
        assert not set(self.world.wrong())

    @invariant()
    def a_floor_does_not_go_back_while_its_source_partition_is_assigned(self) -> None:
        for replica in self.world.replicas:
            for ledger in replica.lane.ledgers.values():
                assert ledger.floor >= self.floors.get(ledger, 0)
                self.floors[ledger] = ledger.floor

    def teardown(self) -> None:
        if hasattr(self, "world"):
            assert self.world.finish() == (False, False, False)


TestWorldMachine = WorldMachine.TestCase
TestWorldMachine.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def test_lives_lose_double_and_leave_nothing() -> None:
    """Random walks, which PostgreSQL lives through again (`tests/state/test_protocol_lives.py`)."""
    outcomes: dict[str, int] = {}
    for seed in range(LIVES):
        world, verdict = live(seed)
        assert (seed, verdict) == (seed, (False, False, False))
        for outcome, n in world.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + n
    assert outcomes["committed"] > 5 * LIVES
    assert {"RF001", "RF001 partition", "aborted"} <= outcomes.keys()
