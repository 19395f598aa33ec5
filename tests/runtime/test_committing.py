"""Who says what happened (commit.md 6), case by case: COMMIT's answer against what the fakes of state and lake hold."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from reactor.domain.spans import Token
from reactor.errors import LakeHalted, Outage
from reactor.ports import NewRun, SliceInput, Staged, StageOrder
from reactor.runtime import committing
from reactor.runtime.committing import Committer
from reactor.telemetry import Telemetry
from reactor.testing import GatedLake
from reactor.testing.memory_lake import MemoryStaged
from tests.contract.lake_grounds import LakeCase, MemoryLakes
from tests.parts.waiting import until
from tests.state.making import NOWHERE

pytestmark = pytest.mark.anyio
ROWS = {"a_0_": [(1, "x")]}
DONE, AGAIN = (True, True), (False, True)


@dataclass
class Scene:
    """One script with one slice. `at_commit`: what happens as COMMIT is sent."""

    ground: MemoryLakes = field(default_factory=MemoryLakes)
    at_commit: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.work, self.database = LakeCase(self.ground, 0), self.ground.database
        self.script = self.work.script(ROWS)
        self.lake = GatedLake(self.ground.lake, lambda step, _order: self.at_commit() if step == "commit" else None)
        self.committer = Committer(self.ground.state, self.lake, Telemetry())

    def staged(self, *, empty: bool = False) -> Staged:
        script = self.work.script({}) if empty else self.script
        return self.lake.stage(StageOrder(script, [SliceInput("a_0_")]))

    async def run(self, staged: Staged, token: Token, floor: int = 7) -> NewRun:
        return await self.work.run(self.script, staged, "a_0_", position=(token, floor))

    async def floor(self) -> int:
        return (await self.work.stands(self.script)).floor


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_what_is_committed_is_done(scene: Scene) -> None:
    token, staged = await scene.work.starts(scene.script), scene.staged()
    assert await scene.committer.commit(await scene.run(staged, token), staged) == DONE
    assert (await scene.work.rows(), await scene.floor()) == (ROWS, 7)


@pytest.mark.parametrize("answers_lost", [0, 1])
async def test_readers_of_the_outbox_are_told_as_soon_as_something_is_there(scene: Scene, answers_lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once COMMIT has answered: then its files stand, and are let go of at the end. If it has not, once they are settled. A run without a snapshot tells too."""
    token, staged, seen = await scene.work.starts(scene.script), scene.staged(), list[str]()
    monkeypatch.setattr(MemoryStaged, "settled", lambda _self, *, committed: seen.append("settled" if committed else "given up"))
    scene.committer.hint = lambda: seen.append(f"{len(scene.database.tables.outbox)} in the outbox")
    scene.database.answers_lost = answers_lost
    assert await scene.committer.commit(await scene.run(staged, token), staged) == DONE
    told = "1 in the outbox"
    assert seen == (["settled", told] if answers_lost else [told])
    await scene.committer.put_away(staged, committed=True)
    assert seen[-1] == "settled"
    seen.clear()
    nothing = scene.staged(empty=True)
    stands = await scene.work.stands(scene.script)
    assert await scene.committer.commit(await scene.run(nothing, stands.token, floor=9), nothing) == DONE
    assert seen == ["2 in the outbox"]


async def test_what_changes_nothing_is_completed_without_a_snapshot(scene: Scene) -> None:
    token, staged = await scene.work.starts(scene.script), scene.staged(empty=True)
    assert await scene.committer.commit(await scene.run(staged, token), staged) == DONE
    assert (await scene.floor(), await scene.work.state.last_snapshot("main")) == (7, 0)
    run = await scene.run(staged, NOWHERE)
    assert await scene.committer.commit(run, staged) == AGAIN
    assert await scene.work.how(run) == "ended"


async def test_what_is_refused_is_written_again_from_what_was_staged(scene: Scene) -> None:
    token, staged = await scene.work.starts(scene.script), scene.staged()
    run = await scene.run(staged, NOWHERE)
    assert await scene.committer.commit(run, staged) == AGAIN
    assert (await scene.work.how(run), await scene.work.rows(), await scene.floor()) == ("ended", {}, 0)
    assert await scene.committer.commit(await scene.run(staged, token), staged) == DONE
    assert (await scene.work.rows(), await scene.floor()) == (ROWS, 7)


async def test_a_lost_answer_is_no_reason_to_write_again(scene: Scene) -> None:
    token, staged = await scene.work.starts(scene.script), scene.staged()
    scene.database.answers_lost = 1
    assert await scene.committer.commit(await scene.run(staged, token), staged) == DONE
    assert (await scene.work.rows(), await scene.floor()) == (ROWS, 7)


async def test_a_commit_that_never_arrived_is_given_up(scene: Scene) -> None:
    def cut() -> None:
        raise Outage("cut")

    token, staged, scene.at_commit = await scene.work.starts(scene.script), scene.staged(), cut
    run = await scene.run(staged, token)
    assert await scene.committer.commit(run, staged) == AGAIN
    assert (await scene.work.how(run), await scene.work.rows(), await scene.floor()) == ("ended", {}, 0)


async def test_a_run_whose_row_is_gone_is_not_completed(scene: Scene) -> None:
    """A database that was restored."""

    def restored() -> None:
        with scene.database.transaction() as tables:
            tables.runs.clear()

    token, staged, scene.at_commit = await scene.work.starts(scene.script), scene.staged(), restored
    assert await scene.committer.commit(await scene.run(staged, token), staged) == AGAIN
    assert (await scene.work.rows(), await scene.floor()) == ({}, 0)


async def test_a_lake_that_publishes_without_its_trigger_halts(scene: Scene) -> None:
    token, staged = await scene.work.starts(scene.script), scene.staged()
    scene.database.untriggered.add("main")
    for _ in range(2):
        with pytest.raises(LakeHalted):
            await scene.committer.commit(await scene.run(staged, token), staged)
    assert await scene.work.state.last_snapshot("main") == 1


@pytest.mark.parametrize("wins", [False, True], ids=["aborted", "committed"])
async def test_a_commit_that_does_not_come_back_is_asked_about(scene: Scene, wins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instance is given up. If it arrives after all, the abort has been final; or it had arrived, and only its answer has not."""
    monkeypatch.setattr(committing, "COMMIT_DEADLINE_SECONDS", 0.1)
    token, staged, released = await scene.work.starts(scene.script), scene.staged(), threading.Event()
    run = await scene.run(staged, token)

    def hangs() -> None:
        if wins:
            scene.at_commit = lambda: None
            staged.commit()
        released.wait(60)

    async def came_back() -> bool:
        return scene.committer._closing == set()

    scene.at_commit = hangs
    assert await scene.committer.commit(run, staged) == (wins, False)
    assert staged.stale
    released.set()
    await until(came_back, "COMMIT comes back")
    assert (await scene.work.rows(), await scene.floor()) == ((ROWS, 7) if wins else ({}, 0))
