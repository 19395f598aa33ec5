"""Where a test holds, fails or kills the runs of one replica."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from reactor.errors import Outage
from reactor.ports import StageOrder
from reactor.testing import Step
from tests.parts.waiting import until

HELD_SECONDS_MAX = 60.0


@dataclass(slots=True)
class Held:
    """A run that stands before a step, once it has got there."""

    what: str
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    killed: bool = False

    async def reached(self) -> None:
        """Returns when a run stands there."""

        async def there() -> bool:
            return self.arrived.is_set()

        await until(there, f"a run stands before {self.what}")

    def release(self) -> None:
        """It goes on."""
        self.released.set()

    def stand(self) -> None:
        """The run waits here."""
        self.arrived.set()
        if not self.released.wait(HELD_SECONDS_MAX):
            raise TimeoutError(f"held for {HELD_SECONDS_MAX:.0f} s before {self.what}")
        if self.killed:
            raise Outage("killed")


@dataclass(slots=True)
class Gates:
    """`reactor.testing.Gate`: what is set here happens once, to the next run of that asset that comes to the step."""

    dead: bool = False
    _set: list[tuple[Step, str, str, Callable[[], None]]] = field(default_factory=list)
    _held: list[Held] = field(default_factory=list)

    def hold(self, step: Step, asset: str, partition: str = "") -> Held:
        """Stop the next run before a step; `partition`: only one that writes this asset partition alone."""
        held = Held(f"the step `{step}` of {asset}")
        self._held.append(held)
        self._set.append((step, asset, partition, held.stand))
        return held

    def fail(self, step: Step, asset: str, error: Exception, times: int = 1) -> None:
        """The next runs raise this."""

        def raises() -> None:
            raise error

        self._set += [(step, asset, "", raises)] * times

    def kill(self) -> None:
        """Nobody passes any more."""
        self.dead = True
        for held in self._held:
            held.killed = True
            held.release()

    def __call__(self, step: Step, order: StageOrder) -> None:
        if self.dead:
            raise Outage("killed")
        managed = order.script.managed
        asset, slices = managed.asset if managed else "", [s.asset_partition for s in order.slices]
        for at, (where, whom, partition, act) in enumerate(self._set):
            if (where, whom) == (step, asset) and (not partition or slices == [partition]):
                del self._set[at]
                act()
                return
