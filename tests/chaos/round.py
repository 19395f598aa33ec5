"""One round: a load, two replicas, and one act after the other."""

import shutil
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial

from tests.chaos.facts import NEWEST, ORDERS, Findings, judged, look
from tests.chaos.parts import Parts
from tests.chaos.plan import AWAY_SECONDS_MAX, BROKERS, REPLICAS, Act, Plan
from tests.integration.records import Load, OrderTopic
from tests.integration.served import STOP_SECONDS, Served
from tests.integration.shop import PUBLISHES, Shop
from tests.integration.verbs import reactor
from tests.parts.cut_commit import Cutter, Side, cutter
from tests.parts.read_only import read_only
from tests.parts.waiting import wait_until

HIT_SECONDS_MAX = 20.0
"""How long is waited until something comes to where it is to be hit; then it is hit whenever it comes."""
WHOLE_SECONDS_MAX = 180.0
PAUSE_SECONDS = 0.2
"""Between two bursts of orders: many commits are wanted, not many rows."""
DRAIN_SECONDS = 5.0
STALLED = " is stalled: "
"""What a source says that has had something to read and has not read it for a minute, longer than anything is away here."""
FEW = 40
"""Orders that a new log gets before its positions are reset: less than the old one held of them."""


@dataclass(slots=True)
class Mending:
    """What lasts, until it is time."""

    due_at: float
    mend: Callable[[], object]


@dataclass(slots=True)
class Round:
    """`play` does what the plan says. `kills`: processes that were killed; `say`: hears what happens."""

    plan: Plan
    parts: Parts
    shop: Shop
    commits: Cutter
    say: Callable[[str], None]
    kills: int = 0
    findings: Findings = field(default_factory=Findings)
    _replicas: list[Served] = field(default_factory=list)
    _mendings: list[Mending] = field(default_factory=list)
    _brokers_down: set[int] = field(default_factory=set)
    _load: ExitStack = field(default_factory=ExitStack)
    _mess: ExitStack = field(default_factory=ExitStack)

    def play(self) -> None:
        """All acts under load, then all is mended, and must become whole."""
        self.shop.write_all_scripts()
        with self._mess:
            self._mess.callback(self._start_brokers)
            self._replicas = [self._started(i) for i in range(REPLICAS)]
            with self._load:
                self._load.enter_context(Load(self.shop.orders, PAUSE_SECONDS))
                wait_until(self._has_begun, "the first rows", WHOLE_SECONDS_MAX)
                for act in self.plan.acts:
                    self._pass(act.after_seconds)
                    self.say(str(act))
                    self._acts[act.kind](act)
                    if act.leases_run_out:
                        self.shop.time_passes()
            self.say("is mended")
            self._mend_all()
            self._become_whole()
            for i, replica in enumerate(self._replicas):
                self._end(i, replica)
        for replica in self.shop.replicas:
            self.findings.stick("failed", [line["message"] for line in replica.said("task_failed")])
            self.findings.stick("did not move by itself", [line["message"] for line in replica.said("source_away") if STALLED in line["message"]])

    def _has_begun(self) -> bool:
        self._revive()
        return self.shop.committed() > 0

    # -- replicas

    def _started(self, i: int, failpoint: str = "") -> Served:
        return self.shop.serve(replica_id=f"replica-{i}" if self.plan.static else "", failpoint=failpoint)

    def _start(self, i: int, failpoint: str = "") -> None:
        self._replicas[i] = self._started(i, failpoint)

    def _awake(self, i: int) -> Served:
        """It runs, whatever happened to it before."""
        self._revive()
        self._wake(self._replicas[i])
        return self._replicas[i]

    def _revive(self) -> None:
        """Whoever was killed starts again."""
        for i, replica in enumerate(self._replicas):
            if not replica.ended:
                continue
            code = replica.wait_until_ended()
            if code == -signal.SIGKILL:
                self.kills += 1
            else:
                self.findings.stick("ended by itself", [f"replica {i} with {code}:\n{replica.log()[-1500:]}"])
            self._start(i)

    def _end(self, i: int, replica: Served) -> None:
        """In order, unless a failpoint is in its way."""
        replica.send(signal.SIGTERM)
        wait_until(lambda: replica.ended or (replica.frozen and self._wake(replica)), f"replica {i} ends", STOP_SECONDS)
        code = replica.wait_until_ended()
        if code == -signal.SIGKILL:
            self.kills += 1
        elif code != 0 and (code != -signal.SIGTERM or replica.said("service_started")):
            self.findings.stick("did not end in order", [f"replica {i}: {code}:\n{replica.log()[-1500:]}"])

    def _wake(self, replica: Served) -> bool:
        if not replica.ended:
            replica.send(signal.SIGCONT)
        return False

    # -- time

    def _pass(self, seconds: float) -> None:
        """Time goes by, and what is due is mended."""
        until = time.monotonic() + seconds
        wait_until(lambda: self._mend_due() or time.monotonic() >= until, "time passes", seconds + 300.0)

    def _mend_due(self) -> bool:
        now = time.monotonic()
        for mending in [m for m in self._mendings if m.due_at <= now]:
            self._mendings.remove(mending)
            mending.mend()
        return False

    def _later(self, seconds: float, mend: Callable[[], object]) -> None:
        self._mendings.append(Mending(time.monotonic() + seconds, mend))

    def _mend_all(self) -> None:
        """At its time."""
        self._pass(max((m.due_at - time.monotonic() for m in self._mendings), default=0.0))

    def _become_whole(self) -> None:
        """Everything arrives by itself; what a failpoint still hits is started again, and woken. Raises `TimeoutError`."""
        missing: list[str] = []

        def whole() -> bool:
            self._revive()
            for replica in self._replicas:
                if replica.frozen:
                    self._wake(replica)
            missing[:] = self.shop.not_yet()
            return not missing

        self.shop.time_passes()
        self.say("becomes whole")
        try:
            wait_until(whole, "whole", WHOLE_SECONDS_MAX)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {'; '.join(missing)}") from None

    def _hit(self, struck: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            wait_until(lambda: self._mend_due() or struck(), "hit", HIT_SECONDS_MAX)

    # -- acts

    @property
    def _acts(self) -> dict[str, Callable[[Act], None]]:
        return {
            "kill": self._kill,
            "kill at a place": self._kill_at_a_place,
            "kill in COMMIT": partial(self._cut, "kill"),
            "freeze": self._freeze,
            "freeze at a place": self._freeze_at_a_place,
            "freeze in COMMIT": partial(self._cut, "stop"),
            "lose an answer": partial(self._cut, "after"),
            "lose a COMMIT": partial(self._cut, "before"),
            "restart in order": self._restart_in_order,
            "kill a broker": self._kill_broker,
            "restart all brokers": self._restart_brokers,
            "kill PostgreSQL": self._kill_postgres,
            "make the lake read-only": self._make_read_only,
            "make the topic anew": self._make_topic_anew,
        }

    def _kill(self, act: Act) -> None:
        self._awake(act.replica).kill()
        self._revive()

    def _kill_at_a_place(self, act: Act) -> None:
        replica = self._armed(act, "kill")
        self._hit(lambda: replica.ended)
        self._revive()

    def _freeze(self, act: Act) -> None:
        replica = self._awake(act.replica)
        replica.send(signal.SIGSTOP)
        self._later(act.lasts_seconds, partial(self._wake, replica))

    def _freeze_at_a_place(self, act: Act) -> None:
        replica = self._armed(act, "stop")
        self._hit(lambda: replica.frozen)
        self._later(act.lasts_seconds, partial(self._wake, replica))

    def _armed(self, act: Act, does: str) -> Served:
        """Killed, and started with a failpoint."""
        self._awake(act.replica).kill()
        self.kills += 1
        self._start(act.replica, f"{act.place}:{does}:{act.turn}")
        self.shop.time_passes()
        return self._replicas[act.replica]

    def _cut(self, side: Side, act: Act) -> None:
        count = len(self.commits.cuts)
        self.commits.arm(side)
        self._hit(lambda: len(self.commits.cuts) > count)
        for replica in self._replicas:
            if replica.frozen:
                self._later(act.lasts_seconds, partial(self._wake, replica))
        self._revive()

    def _restart_in_order(self, act: Act) -> None:
        self._end(act.replica, self._awake(act.replica))
        self._start(act.replica)

    def _kill_broker(self, act: Act) -> None:
        if self._brokers_down:
            return  # two of three are needed
        self.parts.cluster.kill(act.broker)
        self.kills += 1
        self._brokers_down.add(act.broker)
        self._later(act.lasts_seconds, self._start_brokers)

    def _start_brokers(self) -> None:
        while self._brokers_down:
            self.parts.cluster.start(self._brokers_down.pop())

    def _restart_brokers(self, _: Act) -> None:
        self._brokers_down.clear()
        self.kills += 3
        self.parts.cluster.restart()

    def _kill_postgres(self, act: Act) -> None:
        self.parts.postgres.kill()
        self.kills += 1
        try:
            self._pass(min(act.lasts_seconds, AWAY_SECONDS_MAX))
        finally:
            self.parts.postgres.start()

    def _make_read_only(self, act: Act) -> None:
        refusing = self._mess.enter_context(ExitStack())
        refusing.enter_context(read_only(self.shop.folder / "lake"))
        self._later(act.lasts_seconds, refusing.close)

    def _make_topic_anew(self, _: Act) -> None:
        """Once all of it was read; then as the product says: `positions reset`."""
        self._load.close()
        self._mend_all()
        self._become_whole()
        self.shop.orders.make()
        self.shop.orders.send(FEW)
        for consumer in (ORDERS, NEWEST):
            code, said = reactor(
                self.shop.folder, "positions", "reset", consumer, "--to", "earliest", "--reason", "the topic was made anew", "--confirm", consumer)
            if code != 0:
                self.findings.stick("positions reset", [said])
        self._load.enter_context(Load(self.shop.orders, PAUSE_SECONDS))

def play(plan: Plan, parts: Parts, say: Callable[[str], None]) -> Round:
    """In a project, a database and topics of its own. Its folder, with the logs, is left where something was found."""
    name = f"chaos_{plan.number}"
    folder = parts.folder / name
    folder.mkdir()
    orders = OrderTopic(parts.cluster.bootstrap_servers, f"{name}_orders", plan.partitions, copies=BROKERS)
    orders.make()
    with parts.database(name) as url, cutter(url, PUBLISHES) as commits:
        shop = Shop(folder / "project", url, orders, f"{name}_events", name, drain_seconds=DRAIN_SECONDS)
        shop.connect_by(commits.url)
        played = Round(plan, parts, shop, commits, say)
        try:
            played.play()
            played.findings.add(judged(look(shop)))
        except Exception:  # noqa: BLE001 - whatever keeps a round from its end is its finding
            played.findings.stick("could not go on", [traceback.format_exc()])
        finally:
            shop.close()
    if not played.findings.said:
        shutil.rmtree(folder)
    return played
